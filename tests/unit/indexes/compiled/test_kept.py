"""Arguments that kernels keep between calls."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numba import typeof
from numba.core.errors import TypingError

from indexes.compiled.cache import KernelCache
from indexes.compiled.jit import kernel
from indexes.compiled.kept import Keeper, Words, declare, keep_parts, room_for, unpacked
from indexes.core.arrays import Floats, Ints32
from tests.support.values import UNCOMPILED


class Columns(NamedTuple):
    """Two columns, and what to do with them."""

    table: Floats
    rows: Ints32
    double: bool
    add: int


class Kept(NamedTuple):
    """As kept."""

    words: Words


class KeptStepped(NamedTuple):
    """Every second number of a column, and another column."""

    words: Words


class KeptAlone(NamedTuple):
    """A kind with other contents."""

    words: Words


Parts: TypeAlias = tuple[Columns, Floats, float]


def columns(shape: tuple[int, int], add: int = 0, *, double: bool = False) -> Columns:
    table = np.arange(shape[0] * shape[1], dtype=np.float64).reshape(shape)
    return Columns(table, np.arange(shape[0], dtype=np.int32)[::-1].copy(), double, add)


declare(Kept, lambda: (columns((1, 1)), np.zeros(1), 0.5))
declare(KeptStepped, lambda: (np.zeros(4)[::2], np.zeros(1)))
declare(KeptAlone, lambda: (np.zeros(1),))


@kernel
def combined(kept: Any, factor: float, out: Floats) -> None:
    """Write a number for each row of what is kept."""
    columns, more, share = unpacked(kept)
    for at in range(len(columns.rows)):
        row = columns.rows[at]
        found = more[at] * share + columns.add
        for column in range(columns.table.shape[1]):
            found += columns.table[row, column]
        out[at] = factor * (2.0 * found if columns.double else found)


@kernel
def stepped_sum(kept: Any) -> float:
    stepped, more = unpacked(kept)
    return float(stepped.sum() + 100.0 * more.sum())


def wanted(columns: Columns, more: Floats, share: float, factor: float) -> Floats:
    found = more * share + columns.add + columns.table[columns.rows].sum(1)
    return factor * (2.0 * found if columns.double else found)


@pytest.mark.parametrize("shape", [(3, 5), (4, 1), (1, 7), (0, 2)])
@pytest.mark.parametrize("double", [False, True])
def test_kernels_find_what_was_kept(shape: tuple[int, int], double: bool) -> None:
    parts: Parts = columns(shape, 7, double=double), np.arange(shape[0], dtype=np.float64), -1.5
    kept, out = Kept(room_for(parts)), np.empty(shape[0])
    keep_parts(kept, parts)
    combined(kept, 3.0, out)
    assert np.array_equal(out, wanted(*parts, 3.0))


def test_arrays_are_seen_as_they_are_and_others_once_they_are_kept() -> None:
    parts: Parts = columns((3, 2)), np.ones(3), 1.0
    kept, out = Kept(room_for(parts)), np.empty(3)
    keep_parts(kept, parts)
    parts[0].table[:] += 10.0
    combined(kept, 1.0, out)
    assert np.array_equal(out, wanted(*parts, 1.0))
    others: Parts = columns((2, 4), 1), np.zeros(2), 1.0
    keep_parts(kept, others)
    out = np.empty(2)
    combined(kept, 1.0, out)
    assert np.array_equal(out, wanted(*others, 1.0))


def test_a_column_with_steps_is_kept_whole() -> None:
    parts = np.arange(10.0)[::2], np.array([1.0, 2.0])
    kept = KeptStepped(room_for(parts))
    assert len(kept.words) == 7 + 2
    keep_parts(kept, parts)
    assert stepped_sum(kept) == 20.0 + 300.0


def test_a_keeper_writes_what_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def write(kept: Any, parts: Any) -> None:
        written.append(len(parts[1]))
        keep_parts(kept, parts)

    monkeypatch.setattr("indexes.compiled.kept.keep_parts", write)
    keeper = Keeper(Kept, 2)
    every: list[Parts] = [(columns((rows, 2), rows), np.ones(rows), 1.0) for rows in (5, 2, 3)]
    for at in (0, 1, 0, 1, 2, 0, 2):
        out = np.empty(len(every[at][1]))
        combined(keeper.kept(every[at]), 1.0, out)
        assert np.array_equal(out, wanted(*every[at], 1.0))
    assert written == [5, 2, 3, 5]
    other: Parts = every[2][0], np.zeros(3), 1.0
    assert keeper.kept(other) is not keeper.kept(every[2])
    first = every[0][0], 7
    assert keeper.kept(first, lambda: every[0]) is keeper.kept(first, lambda: every[1])
    keeper.clear()
    keeper.kept(every[0])
    assert written[-1] == 5


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_other_types_are_not_kept() -> None:
    parts = columns((3, 2)), np.ones(3, np.float32), 1.0
    with pytest.raises(TypingError, match="Kept keeps"):
        keep_parts(Kept(room_for(parts)), parts)
    with pytest.raises(TypingError, match="KeptAlone keeps"):
        keep_parts(KeptAlone(room_for(parts)), parts)


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_machine_code_depends_on_what_is_kept() -> None:
    """The words say nothing of their content, which is another one after a field is added."""
    args = tuple(map(typeof, (Kept(np.zeros(1, np.int64)), 1.0, np.zeros(1))))
    before = KernelCache(combined).path(args)
    declare(Kept, lambda: (columns((1, 1)), np.zeros(1), 1))
    after = KernelCache(combined).path(args)
    declare(Kept, lambda: (columns((1, 1)), np.zeros(1), 0.5))
    assert before != after
    assert KernelCache(combined).path(args) == before


def test_a_copy_of_what_is_kept_is_about_the_copied_arrays() -> None:
    class Holder:
        def __init__(self) -> None:
            self.keeper, self.parts = Keeper(Kept), (columns((3, 2)), np.ones(3), 1.0)

        def sums(self) -> Floats:
            out = np.empty(3)
            combined(self.keeper.kept(self.parts), 1.0, out)
            return out

    one = Holder()
    before = one.sums()
    other = deepcopy(one)
    assert np.array_equal(other.sums(), before)
    one.parts[0].table[:] += 10.0
    assert np.array_equal(other.sums(), before) and np.array_equal(one.sums(), before + 20.0)
