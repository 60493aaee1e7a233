"""What waits is cut into requests: each message once, in the order of its lane, within the limits."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from app.connectors.batches import Limits, Waiting, cut
from app.connectors.mapping.reading import Read
from app.connectors.messages import Message, Span

LANES = ("", "1", "2")


def read(lane: str, position: int, events: int = 1, size: int = 10) -> Read:
    """A message that was read."""
    texts = tuple(f"{lane}/{position}/{number}" for number in range(events))
    return Read(Message(str(position), b"", lane), texts, tuple(range(events)), (), size)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.sampled_from(LANES),
            st.lists(st.tuples(st.integers(0, 7), st.integers(0, 60)), max_size=6),
        ),
        st.tuples(st.just("take"), st.just(""), st.just([])),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 10), st.integers(1, 100))
def test_each_message_once_in_order_within_the_limits(
    steps: list[tuple[str, str, list[tuple[int, int]]]], events: int, size: int
) -> None:
    waiting = Waiting(Limits(events, size))
    put: dict[str, list[str]] = defaultdict(list)
    taken: dict[str, list[str]] = defaultdict(list)

    def take() -> bool:
        batch = waiting.take()
        if batch is None:
            return False
        positions = [one.message.position for one in batch.reads]
        assert (batch.span.first, batch.span.last) == (positions[0], positions[-1])
        assert len(positions) == 1 or sum(max(1, len(one.events)) for one in batch.reads) <= events
        assert len(positions) == 1 or sum(one.size for one in batch.reads) <= size
        taken[batch.span.lane] += positions
        return True

    for step, lane, some in steps:
        if step == "take":
            take()
            continue
        reads = [read(lane, len(put[lane]) + i, *one) for i, one in enumerate(some)]
        put[lane] += [one.message.position for one in reads]
        waiting.put(lane, reads)
        assert waiting.messages == sum(map(len, put.values())) - sum(map(len, taken.values()))
    while take():
        pass
    assert taken == {lane: some for lane, some in put.items() if some}
    assert waiting.messages == 0 and not waiting.full


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), min_size=1, max_size=20),
    st.integers(1, 10),
    st.integers(1, 80),
)
def test_a_cut_is_the_longest_that_fits(some: list[tuple[int, int]], events: int, size: int) -> None:
    reads = [read("", i, *one) for i, one in enumerate(some)]
    count = cut(reads, Limits(events, size))

    def fits(number: int) -> bool:
        return sum(max(1, one) for one, _ in some[:number]) <= events and sum(one for _, one in some[:number]) <= size

    assert 1 <= count <= len(reads)
    assert count == 1 or fits(count)
    assert count == len(reads) or not fits(count + 1)


def test_what_may_have_been_sent_goes_first_and_whole() -> None:
    waiting = Waiting(Limits(events=2))
    before = [read("1", i) for i in range(5)]
    waiting.put("1", [read("1", 5), read("1", 6)])
    waiting.put("1", before, Span("1", "0", "4", 3), 3)
    again = waiting.take()
    assert again is not None and again.again
    assert (again.span, list(again.reads)) == (Span("1", "0", "4", 3), before)
    rest = waiting.take()
    assert rest is not None and rest.span == Span("1", "5", "6", 3)
    assert waiting.take() is None


def test_lanes_take_turns() -> None:
    waiting = Waiting(Limits(events=1))
    for lane in ("1", "2"):
        waiting.put(lane, [read(lane, i) for i in range(2)])
    assert [batch.span.lane for batch in iter(waiting.take, None)] == ["1", "2", "1", "2"]


def test_a_lane_that_others_read_is_forgotten() -> None:
    waiting = Waiting(Limits())
    waiting.put("1", [read("1", 0)])
    waiting.put("2", [read("2", 0)])
    waiting.drop(["1", "7"])
    batch = waiting.take()
    assert batch is not None and batch.span.lane == "2"
    assert waiting.take() is None and waiting.messages == 0


def test_a_batch_that_is_too_large_is_halved() -> None:
    waiting = Waiting(Limits())
    waiting.put("", [read("", i) for i in range(5)])
    batch = waiting.take()
    assert batch is not None
    first, second = batch.halves()
    assert (first.span, second.span) == (Span("", "0", "1"), Span("", "2", "4"))
    assert [*first.events, *second.events] == batch.events


def test_it_waits_for_room_and_for_work() -> None:
    async def run() -> None:
        waiting = Waiting(Limits(events=1, ahead=2))
        waiting.put("", [read("", 0), read("", 1)])
        room = asyncio.create_task(waiting.room())
        await asyncio.sleep(0)
        assert not room.done()
        assert await waiting.next() is not None
        await room
        assert await waiting.next() is not None
        nothing = asyncio.create_task(waiting.next())
        await asyncio.sleep(0)
        assert not nothing.done()
        waiting.put("", [read("", 2)])
        assert await nothing is not None
        last = asyncio.create_task(waiting.next())
        await asyncio.sleep(0)
        waiting.end()
        assert await last is None

    asyncio.run(run())
