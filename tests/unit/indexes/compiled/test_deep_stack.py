"""The process that compiles has room for deep calls."""

from __future__ import annotations

import resource
from functools import partial

from indexes.compiled.warming import GROUPS, Group
from indexes.core.deep_calls import with_room


def _call() -> None:
    """A frame more."""


def _calls_at_each_depth(depth: int) -> None:
    for _ in range(200):
        _call()
    if depth:
        _calls_at_each_depth(depth - 1)


def test_a_deep_stack_stays_in_one_piece() -> None:
    """A call that crosses the end of a piece would touch new memory each time."""
    groups: list[Group] = []

    def deep(group: Group) -> None:
        groups.append(group)
        _calls_at_each_depth(800)

    call = partial(with_room, partial(deep, GROUPS[0]))
    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 200
    assert groups == [GROUPS[0]] * 2
