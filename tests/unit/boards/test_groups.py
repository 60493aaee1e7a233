"""Short commands painted together do what they do one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.plans import kernel_pass
from indexes.boards.plans.events import EventsGroup
from indexes.boards.regions import between, everywhere
from indexes.core.commands import Refused

KEYS = ["a", "b", "c", "d"]
numbers = st.integers(0, 4).map(float)
changes = st.tuples(
    st.sampled_from([UPSERT, UPSERT, UPDATE, DELETE]),
    st.sampled_from(KEYS),
    numbers,
    numbers,
    st.sampled_from(["leave", b"1", b"2", None]),
)
commands = st.lists(changes, min_size=1, max_size=3)
groups = st.lists(st.tuples(st.lists(commands, min_size=1, max_size=6), st.booleans()), max_size=6)


def make(command: list[tuple[int, str, float, float, Any]]) -> Events:
    rows = [(op, key, *((np.nan, np.nan) if op == DELETE else (x, y))) for op, key, x, y, _ in command]
    op, ids, x, y = zip(*rows, strict=True)
    payload = {at: one[4] for at, one in enumerate(command) if one[4] != "leave" and one[0] != DELETE}
    return Events(np.array(op, np.uint8), list(ids), np.array(x), np.array(y), payload, skip=True)


def told(slices: list[Any]) -> list[Any]:
    return [(one.changes, one.tiles) for one in slices if one is not None]


def flat(slices: list[Any]) -> tuple[list[Any], list[Any]]:
    found = told(slices)
    return [c for changes, _ in found for c in changes], [t for _, tiles in found for t in tiles]


@pytest.mark.parametrize("algorithm", ["sparse", "dense"])
@settings(max_examples=80, deadline=None)
@given(
    groups=groups,
    order=st.sampled_from(["asc", "desc"]),
    keep=st.sampled_from([0, 2, 1000]),
    copied=st.sampled_from([kernel_pass.COPIED, 1]),
)
def test_a_group_does_what_its_commands_do(algorithm: Any, groups: Any, order: Any, keep: int, copied: int) -> None:
    """`copied`: a pass of the group with more tiles makes objects only of those that are asked for."""
    with pytest.MonkeyPatch.context() as patch:
        compare_group(algorithm, groups, order, keep, partial(patch.setattr, kernel_pass, "COPIED", copied))


def compare_group(algorithm: Any, groups: Any, order: Any, keep: int, begin_group: Callable[[], None]) -> None:
    """Apply groups to a board one command after the other, and to another one in a pass each."""
    config = BoardConfig(("x",), "y", order, (1, 2), algorithm)
    alone, together = BoardEngine(config), BoardEngine(config)
    for board in (alone, together):
        for key, l, r, k in (("one", -np.inf, 2.0, 1), ("two", 1.0, np.inf, 2), ("three", 0.0, 3.0, 2)):
            board.apply(SetSubscription(key, between(l, r), k))
        board.watch("two")
        board.want_tiles(board.watch("three"), True)
    for scripts, in_parts in groups:
        plans: list[Any] = []
        heard: list[Any] = []
        for script in scripts:
            plan, slices = alone.apply(make(script), keep)
            plans.append(plan)
            heard += slices
        begin_group()
        prepared: list[Any] = [together.prepare(make(script), keep) for script in scripts]
        group = EventsGroup(prepared)
        parts: list[Any] = []
        while not group.done:
            group.execute(0.0 if in_parts else 1.0)
            parts.append(group.publish())
        assert flat(parts) == flat(heard)
        assert together.seq == alone.seq
        for one, other in zip(plans, prepared, strict=True):
            assert other.done
            assert (other.first_seq, other.last_seq, other.tile_count) == (
                one.first_seq,
                one.last_seq,
                one.tile_count,
            )
            assert other.tiles == one.tiles
            assert other.created == one.created
        assert together.objects(None, 10) == alone.objects(None, 10)
        assert together.top(everywhere(1), 5) == alone.top(everywhere(1), 5)
    together.check()


def test_a_refused_command_leaves_no_trace_in_a_group() -> None:
    board = BoardEngine(BoardConfig(("x",), "y"))
    first = board.prepare(make([(UPSERT, "a", 1.0, 1.0, "leave")]))
    with pytest.raises(Refused):
        board.prepare(Events(np.array([UPDATE], np.uint8), ["none"], np.array([1.0]), np.array([1.0])))
    second = board.prepare(make([(UPSERT, "a", 1.0, 0.0, "leave")]))
    group = EventsGroup([first, second])  # type: ignore[list-item]
    group.execute(1.0)
    group.publish()
    assert group.done
    assert [(one.id, one.y) for one in board.objects(None, 10)] == [("a", 0.0)]
