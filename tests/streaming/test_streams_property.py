"""Whatever happens, a reader who applies what it is sent holds the true list at every position it is given."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from app.streaming import lone_readers
from tests.streaming.play import IDS, Play

FORMS = ("changes", "old", "tiles")

numbers = st.integers(0, 4)
places = st.tuples(numbers, numbers).map(sorted)
which = st.integers(0, 9)
squashes = st.sampled_from([None, None, 1.0, 7.0])
windows = st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 1, 2])).map(lambda of: (sum(of), of[1]))
"""How deep a list reaches, and after how many ranks it begins."""
mutations = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("pqrstu"), numbers, numbers, st.sampled_from([None, b"1", b"2"])),
    st.tuples(st.just("delete"), st.sampled_from("pqrstu")),
    st.tuples(st.just("move"), st.sampled_from(IDS), places, windows),
    st.tuples(st.just("unsubscribe"), st.sampled_from(IDS)),
)
slices = st.tuples(st.just("slice"), st.lists(mutations, min_size=1, max_size=6))
steps = st.one_of(
    slices,
    slices,
    st.tuples(st.just("subscribe"), st.sampled_from(IDS), places, windows),
    st.tuples(st.just("connect")),
    st.tuples(st.just("open"), which, st.sampled_from(IDS), st.sampled_from(FORMS), st.booleans(), squashes),
    st.tuples(st.just("close"), which),
    st.tuples(st.just("replace"), which, st.booleans()),
    st.tuples(st.just("lose"), which),
    st.tuples(st.just("resume"), which, which),
    st.tuples(st.just("stall"), which),
    st.tuples(st.just("flow"), which),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 6.0, 10.0])),
    st.tuples(st.just("turns"), st.integers(1, 4)),
)


@given(st.lists(steps, max_size=60), st.booleans(), st.booleans())
@example(
    [
        ("slice", [("put", "p", 0, 0, None)]),
        ("connect",),
        ("open", 0, "a", "changes", False, None),
        ("turns", 4),
        # A subscription that is moved, and whose list is the same, between changes that go by column.
        ("slice", [("put", "p", 0, 2, None), ("move", "a", [0, 4], (3, 0))]),
        ("slice", [("move", "a", [0, 4], (2, 0)), ("put", "p", 0, 1, None)]),
    ],
    True,
    True,
)
def test_every_reader_holds_the_true_list_at_every_position(script: list[Any], by_column: bool, bundles: bool) -> None:
    async def run() -> None:
        play = Play()
        play.world.by_column, play.service.bundles = by_column, bundles
        for id in IDS:
            play.world.subscribe(id, 0, 4, 2)
            play.note()
        for step in script:
            await play.step(step)
            play.look()
        await play.end()

    with patch.object(lone_readers, "FEW", 1):
        asyncio.run(run())
