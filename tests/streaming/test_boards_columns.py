"""Messages of changes by column are those of the changes one by one."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.rendering.boards import BoardJson
from app.streaming.boards import LiveBoard
from app.streaming.buffer import CHANGE, Words
from app.streaming.frames import TEXT, head_of
from indexes.boards.changed_lists import ChangedLists, Records
from indexes.boards.results import Slice
from tests.streaming.helpers import alone, ready
from tests.streaming.world import Service, quiet

Row = tuple[str, tuple[int, int], float, float, int]
"""An object's id, its ranks before and after, its place and rank value, and its creation number."""

RANKS = st.tuples(st.integers(0, 12), st.integers(1, 12)) | st.tuples(st.integers(1, 12), st.just(0))
NUMBERS = st.integers(-(10**6), 10**6).map(lambda n: n / 8) | st.sampled_from([-0.0, float(1 << 53), 1e300])
ROW = st.tuples(st.text("ab.:_-9", min_size=1, max_size=4), RANKS, NUMBERS, NUMBERS, st.integers(0, 10**12))
PAYLOADS = st.none() | st.just(b'{"a":"\xc3\xa4"}')


def _changes(rows: list[Row], payload: list[bytes | None] | None) -> ChangedLists:
    """Changes of one record each, of one seq after another."""
    x, y = np.array([row[2] for row in rows]), np.array([row[3] for row in rows])
    records = Records(
        seq=np.arange(9_998, 9_998 + len(rows)),
        live=np.zeros(len(rows), np.int32),
        id=[row[0] for row in rows],
        old_rank=np.array([row[1][0] for row in rows], np.int32),
        new_rank=np.array([row[1][1] for row in rows], np.int32),
        created=np.array([row[4] for row in rows]),
        payload=payload,
        x=x,
        y=y,
        old_x=x + 1,
        old_y=y + 1,
    )
    return ChangedLists(records, None, True)


@given(rows=st.lists(ROW, min_size=1, max_size=6), data=st.data(), old=st.booleans(), blocks=st.booleans())
def test_each_change_has_the_message_that_it_has_alone(
    rows: list[Row], data: st.DataObject, old: bool, blocks: bool
) -> None:
    n = len(rows)
    payload = data.draw(st.none() | st.lists(PAYLOADS, min_size=n, max_size=n))
    service = Service()
    live = LiveBoard(service.world.resource, service.world, service.hub)
    changes = _changes(rows, payload)
    alone = [live._changed(one.seq, one.entries, old) for one in changes]
    found = live.write.changed(changes, Words.of("e1", CHANGE, blocks), old)
    assert found == [item.block if blocks else item.rest for item in alone]


@given(
    rows=st.lists(ROW, min_size=2, max_size=8),
    lengths=st.lists(st.integers(1, 3), min_size=8, max_size=8),
    data=st.data(),
)
def test_changes_of_several_objects_are_written_as_they_are_alone(
    rows: list[Row], lengths: list[int], data: st.DataObject
) -> None:
    ends = [end for end in accumulate(lengths) if end < len(rows)] + [len(rows)]
    records = _changes(rows, None).records
    first = np.repeat([0, *ends[:-1]], np.diff([0, *ends]))
    changes = ChangedLists(records._replace(seq=records.seq[first]), np.array(ends), data.draw(st.booleans()))
    service = Service()
    live = LiveBoard(service.world.resource, service.world, service.hub)
    alone = [live._changed(one.seq, one.entries, False) for one in changes]
    for epoch in ("e1", "e2", "e1"):
        found = live.write.changed(changes, Words.of(epoch, CHANGE, blocks=False))
        assert found == [item.rest.replace(b'"e1:', f'"{epoch}:'.encode()) for item in alone]


@given(
    rows=st.lists(ROW, min_size=2, max_size=8),
    lengths=st.lists(st.integers(1, 3), min_size=8, max_size=8) | st.none(),
    prefixes=st.lists(st.text("ab", max_size=70), min_size=8, max_size=8),
    data=st.data(),
)
def test_frames_have_each_change_behind_its_prefix_in_any_order(
    rows: list[Row], lengths: list[int] | None, prefixes: list[str], data: st.DataObject
) -> None:
    changes = _changes(rows, None)
    if lengths is not None:
        ends = [end for end in accumulate(lengths) if end < len(rows)] + [len(rows)]
        changes = ChangedLists(changes.records, np.array(ends), True)
    order = data.draw(st.permutations(range(len(changes))))
    moved = changes.reordered(np.array(order))
    assert list(moved) == [changes[at] for at in order]
    before = [f"{{{prefix}".encode() for prefix in prefixes[: len(order)]]
    service = Service()
    write = LiveBoard(service.world.resource, service.world, service.hub).write
    words = Words.of("e1" * data.draw(st.integers(1, 20)), CHANGE, blocks=False)
    wanted = write.changed(moved, words)
    sizes = [len(prefix) + len(text) for prefix, text in zip(before, wanted, strict=True)]
    found = write.framed(moved, words, before)
    if min(sizes) < 126:
        assert found is None
        return
    assert found is not None
    texts, whole, ends = found
    assert texts == wanted
    frames = [whole[begin:end] for begin, end in pairwise((0, *ends))]
    assert frames == [head_of(TEXT, size) + a + b for size, a, b in zip(sizes, before, wanted, strict=True)]


def test_changes_that_are_too_long_for_a_short_head_or_have_payloads_are_not_framed() -> None:
    write, words = BoardJson("distance", "delay"), Words.of("e" * 70_000, CHANGE, blocks=False)
    row = ("o1", (1, 1), 0.5, 1.0, 3)
    assert write.framed(_changes([row], None), words, [b"{"]) is None
    assert write.framed(_changes([row], [b"{}"]), Words.of("e1", CHANGE, blocks=False), [b"{" * 200]) is None


@alone
async def test_readers_of_both_forms_get_the_same_changes() -> None:
    for first in (True, False):
        service = ready()
        taps = [await service.tap("mine") for _ in range(2)]
        for tap, blocks in zip(taps, (first, not first), strict=True):
            vars(tap)["blocks"] = blocks
        changes = _changes([(f"o{i}", (1, 1), 0.5, float(i), i) for i in range(20)], None)
        service.hub.deliver(service.world.resource, Slice(10_017, changes, [], [], []))
        await quiet()
        channel = taps[0].open[0].channel
        assert channel is not None and taps[1].open[0].channel is channel
        assert [item.made_block is not None for item in channel.kept] == [first] * 20
        assert taps[0].events[-20:] == [("change", seq) for seq in range(9_998, 10_018)]
        assert taps[0].got == taps[1].got
        for tap in taps:
            await tap.lose()
