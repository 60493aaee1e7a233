"""Following a list: the list is right after every event, and across every kind of interruption."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from rankcast_client import Change, ProblemError, Reset, Snapshot, Tiles, Unreachable, Watch
from rankcast_client.transport import Retry
from tests.support.patience import PATIENCE
from tests.unit.client.service import Service, answer, block, changed, listed, problem, stream

FIRST = block("snapshot", {"seq": 4, "list": listed(("a", 50), ("b", 40))}, 4)
ENTERED = block("change", {"seq": 6, "changes": [changed("c", None, 1, 60), changed("b", 2, None)]}, 6)
READY = block("ready", {"seq": 5}, 5)
GONE = block("gone", {"seq": 9}, 9)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankcast_client._base.RECONNECT", Retry(attempts=0, first=0.001, most=0.002))


def follow(service: Service, form: Any = "changes") -> tuple[list[Any], list[list[str]], Watch]:
    """All events of a watch that ends, and the list's ids after each."""

    async def run() -> tuple[list[Any], list[list[str]], Watch]:
        events, lists = [], []
        async with service.client() as client, client.board("delays").watch("mine", form=form) as mine:
            async for event in mine:
                events.append(event)
                lists.append([entry.id for entry in mine.list])
        return events, lists, mine

    return asyncio.run(run())


def test_the_list_follows_the_changes_until_gone() -> None:
    events, lists, mine = follow(Service(stream(FIRST, ENTERED, GONE)))
    assert [type(event) for event in events] == [Snapshot, Change]
    assert lists == [["a", "b"], ["c", "a"]]
    assert mine.gone
    assert mine.seq == 6


@pytest.mark.parametrize("end", ["ends", "breaks", "silent"])
def test_a_lost_connection_is_resumed_where_it_was(end: str) -> None:
    service = Service(
        stream(FIRST, end=end),
        httpx.ConnectError("refused"),
        problem(503, "not-ready"),
        problem(429, "too-many"),
        stream(ENTERED, GONE),
    )
    _, lists, mine = follow(service)
    assert lists == [["a", "b"], ["c", "a"]]
    assert mine.reconnects == 4
    assert [request.headers.get("Last-Event-ID") for request in service.requests] == [None, *["e:4"] * 4]


def test_a_heartbeat_moves_the_position_and_nothing_else() -> None:
    service = Service(stream(FIRST, b"id: e:17\n\n", end="breaks"), stream(GONE))
    events, _, mine = follow(service)
    assert len(events) == 1
    assert mine.cursor == "e:17"
    assert service.requests[1].headers["Last-Event-ID"] == "e:17"


def test_a_reset_replaces_the_list() -> None:
    other = block("reset", {"seq": 2, "list": listed(("z", 1))}, 2, epoch="f")
    service = Service(stream(FIRST, end="breaks"), stream(other, end="breaks"), stream(GONE))
    events, lists, _ = follow(service)
    assert isinstance(events[1], Reset)
    assert lists == [["a", "b"], ["z"]]
    assert service.requests[2].headers["Last-Event-ID"] == "f:2"


def test_a_subscription_deleted_while_away_is_gone() -> None:
    _, lists, mine = follow(Service(stream(FIRST, end="breaks"), problem(404, "not-found")))
    assert lists == [["a", "b"]]
    assert mine.gone


def test_a_stream_that_is_refused_raises() -> None:
    with pytest.raises(ProblemError, match="404"):
        follow(Service(problem(404, "not-found")))
    with pytest.raises(ProblemError, match="401"):
        follow(Service(stream(FIRST, end="breaks"), problem(401, "unauthorized")))


def test_a_first_connection_that_cannot_be_made_raises() -> None:
    with pytest.raises(Unreachable, match="refused"):
        follow(Service(*[httpx.ConnectError("refused")] * 4))


def test_a_stream_without_events_that_is_lost_is_made_again() -> None:
    """As of a subscription that has won nothing yet: that nothing came does not make the next connection a first."""
    service = Service(stream(end="breaks"), *[problem(503, "not-ready")] * 6, stream(FIRST, GONE))
    _, lists, mine = follow(service)
    assert lists == [["a", "b"]] and mine.reconnects == 7


def test_giving_up_a_wait_loses_nothing() -> None:
    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield FIRST
            await asyncio.Event().wait()

    service = Service(httpx.Response(200, stream=Endless()), stream(ENTERED, GONE))

    async def run() -> None:
        async with service.client() as client, client.board("delays").watch("mine") as mine:
            await anext(mine)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(mine), 0.02)
            assert isinstance(await anext(mine), Change)
            assert [entry.id for entry in mine.list] == ["c", "a"]
            with pytest.raises(StopAsyncIteration):
                await anext(mine)

    asyncio.run(run())
    assert service.requests[1].headers["Last-Event-ID"] == "e:4"


@pytest.mark.parametrize("held", [True, False])
def test_a_watch_that_is_left_before_its_end_is_closed(held: bool) -> None:
    class Endless(httpx.AsyncByteStream):
        closed = False

        async def __aiter__(self) -> Any:
            yield FIRST
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            self.closed = True

    body = Endless()

    async def run() -> None:
        noise: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        async with Service(httpx.Response(200, stream=body)).client() as client:
            mine = client.board("delays").watch("mine")
            async for _ in mine:
                break
            if not held:
                del mine
                async with asyncio.timeout(PATIENCE):
                    while not body.closed:
                        await asyncio.sleep(0.001)
        assert body.closed
        assert not noise

    asyncio.run(run())


def test_a_list_is_current_from_ready_to_the_end_of_the_connection() -> None:
    async def run(ready: bool) -> list[tuple[str, bool]]:
        service = Service(stream(FIRST, READY, end="breaks"), stream(ENTERED, READY, ENTERED, GONE))
        async with service.client() as client, client.board("delays").watch("mine", ready=ready) as mine:
            seen = [(type(event).__name__, mine.current) async for event in mine]
            assert not mine.current
        assert [request.url.params["ready"] for request in service.requests] == ["true", "true"]
        assert service.requests[1].headers["Last-Event-ID"] == "e:5"
        return seen

    told = [("Snapshot", False), ("Ready", True), ("Change", False), ("Ready", True), ("Change", True)]
    assert asyncio.run(run(True)) == told
    assert asyncio.run(run(False)) == [one for one in told if one[0] != "Ready"]


def test_the_places_of_a_window_are_its_ranks_behind_its_offset() -> None:
    def window(event: str, seq: int, offset: int, *members: tuple[str, float]) -> bytes:
        entries = [{**entry, "rank": entry["rank"] + offset} for entry in listed(*members)]
        return block(event, {"seq": seq, "offset": offset, "list": entries}, seq)

    service = Service(
        stream(
            window("snapshot", 4, 10, ("a", 50), ("b", 40)),
            block("change", {"seq": 5, "changes": [changed("a", 11, None), changed("c", None, 12, 30)]}, 5),
            window("reset", 6, 1, ("z", 90), ("y", 80)),
            block("change", {"seq": 7, "changes": [changed("x", None, 2, 95), changed("y", 3, None)]}, 7),
            GONE,
        )
    )
    events, lists, mine = follow(service)
    assert [(event.seq, getattr(event, "offset", None)) for event in events] == [(4, 10), (5, None), (6, 1), (7, None)]
    assert lists == [["a", "b"], ["b", "c"], ["z", "y"], ["x", "z"]]
    assert mine.offset == 1


def board() -> httpx.Response:
    rank = {"attribute": "delay", "order": "desc"}
    return answer({"seq": 1, "range_attributes": ["distance"], "rank": rank, "ks": [2], "algorithm": "sparse"})


def question(*range: float | None, **more: int) -> httpx.Response:
    return answer({"seq": 1, "id": "mine", "range": {"distance": list(range)}, "k": 2, "list": []} | more)


def tiles(seq: int, *objects: tuple[str, float, bool]) -> bytes:
    sides = {"k": 2, "l_outer": None, "l_inner": 700, "r_inner": 700, "r_outer": None}
    data = [
        sides | {"object": {"id": id, "values": {"distance": 700, "delay": delay}, "created": 5, "gone": gone}}
        for id, delay, gone in objects
    ]
    return block("tiles", {"seq": seq, "tiles": data}, seq)


def test_a_list_lives_on_tiles_and_learns_its_question_anew_at_a_reset() -> None:
    service = Service(
        stream(
            FIRST,
            tiles(5, ("b", 45, False), ("c", 60, False)),
            tiles(6, ("c", 60, True), ("d", 1, False)),
            block("reset", {"seq": 7, "list": listed(("a", 50))}, 7),
            tiles(8, ("e", 99, False)),
            GONE,
        ),
        question(500, 1000),
        board(),
        question(900, None),
        board(),
    )
    events, lists, _ = follow(service, "tiles")
    assert [type(event) for event in events] == [Snapshot, Tiles, Tiles, Reset, Tiles]
    assert lists == [["a", "b"], ["c", "a"], ["a", "d"], ["a"], ["a"]]
    assert service.requests[0].url.params["form"] == "tiles"


def test_a_window_lives_on_the_tiles_of_its_whole_depth() -> None:
    service = Service(
        stream(FIRST, tiles(5, ("c", 60, False)), tiles(6, ("c", 60, True), ("d", 1, False)), GONE),
        question(500, 1000, k=1, offset=1),
        board(),
    )
    events, lists, mine = follow(service, "tiles")
    assert [type(event) for event in events] == [Snapshot, Tiles, Tiles]
    assert lists == [["b"], ["a"], ["d"]]
    assert mine.offset == 1


def test_a_change_says_what_an_object_had_before() -> None:
    left = changed("b", 2, None) | {"old_values": {"distance": 700, "delay": 40}}
    moved = changed("a", 1, 1, 55) | {"old_values": {"distance": 700, "delay": 50}}
    events, _, _ = follow(Service(stream(FIRST, block("change", {"seq": 5, "changes": [left, moved]}, 5), GONE)))
    assert [(one.id, one.old_values and one.old_values["delay"]) for one in events[1].changes] == [("b", 40), ("a", 50)]
    service = Service(stream(FIRST, ENTERED, GONE))
    events, _, _ = follow(service)
    assert [one.old_values for one in events[1].changes] == [None, None]
    assert "old" not in service.requests[0].url.params

    async def ask() -> None:
        async with (service := Service(stream(FIRST, GONE))).client() as client:
            asked = client.board("delays").watch("mine", old=True, squash=2.5)
            assert [type(event) async for event in asked] == [Snapshot]
        params = service.requests[0].url.params
        assert (params["old"], params["squash"]) == ("true", "2.5")

    asyncio.run(ask())
