"""What kernels hand to each other arrives as it was, whatever it is."""

from __future__ import annotations

import pytest

from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop
from tests.unit.indexes.compiled.helpers import LARGE

pytestmark = pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")

KERNELS = f"""
    from typing import NamedTuple, Optional

    import numpy as np

    from indexes.compiled.dispatch import Protocol
    from indexes.compiled.jit import allocating_kernel
    from indexes.compiled.jit import internal, kernel

    class Inner(NamedTuple):
        xs: np.ndarray
        flags: np.ndarray

    class Outer(NamedTuple):
        inner: Inner
        grid: np.ndarray
        extra: Optional[Inner]
        some: tuple
        n: int

    class Turned(NamedTuple):
        xs: np.ndarray

    SIZES = Protocol()

    @SIZES.declare()
    def size(arrays, by):
        '''A number of the arrays.'''

    @internal
    def plain_size(arrays, by):
        total, x, y = 0, by, 7
        {LARGE}
        return len(arrays.xs) * 1000 + total % 100

    @internal
    def turned_size(arrays, by):
        total, x, y = 0, by + 1, 5
        {LARGE}
        return -len(arrays.xs) * 1000 + total % 100

    SIZES.implement(Inner, {{"size": plain_size}})
    SIZES.implement(Turned, {{"size": turned_size}})

    @internal
    def ballast(x, y):
        total = 0
        {LARGE}
        return total

    @internal
    def sum1(xs):
        total = ballast(len(xs), 3) % 7 + xs.size + xs.shape[0] * 3 + xs.itemsize
        for i in range(len(xs)):
            total += xs[i] * (i + 1)
        return total

    @internal
    def sum2(grid):
        total = ballast(grid.shape[0], 3) % 7 + grid.size * 2.0 + grid.shape[1] * 5
        for i in range(grid.shape[0]):
            for j in range(grid.shape[1]):
                total += grid[i, j] * (i * 10 + j + 1)
            total += sum1(grid[i])
        return total

    @internal
    def sum3(cube):
        total = 0.0
        for i in range(cube.shape[0]):
            total = total * 3 + sum2(cube[i])
        return total

    @internal
    def write(xs, value):
        for i in range(len(xs)):
            xs[i] = value + i
        return ballast(len(xs), 5) % 11

    @internal
    def walk(outer, extra, by):
        total = sum1(outer.inner.xs) + sum2(outer.grid) + outer.n + outer.some[0] + sum1(outer.some[1])
        for i in range(len(outer.inner.flags)):
            if outer.inner.flags[i]:
                total += by
        if extra is not None:
            total += sum1(extra.xs) * 100 + size(extra, by)
        return total + size(outer.inner, by) + ballast(by, 9) % 13

    @kernel
    def first(xs):
        return sum1(xs)

    @kernel
    def second(grid):
        return sum2(grid)

    @kernel
    def third(cube):
        return sum3(cube)

    @kernel
    def filled(xs, value):
        return write(xs[1:], value)

    @kernel
    def strided(xs):
        return sum1(xs[::2]) + sum1(xs[1:-1])

    @kernel
    def column(grid):
        return sum1(grid[:, 1]) + sum2(grid.T)

    @kernel
    def structure(outer, by):
        return walk(outer, outer.extra, by)

    @kernel
    def chosen(arrays, by):
        return size(arrays, by)

    @allocating_kernel
    def with_references(xs):
        made = np.empty(len(xs) + 1, xs.dtype)
        made[0] = 4
        made[1:] = xs
        return sum1(made) + sum1(made[1:])

    @allocating_kernel
    def gives_back(xs):
        return xs[1:], xs.copy()
"""

CALLS = """
import some_kernels as kernels, numpy as np
from some_kernels import Inner, Outer, Turned
from tests.support.values import UNCOMPILED

found = {}
def note(name, value):
    found[name] = value.tolist() if hasattr(value, "tolist") else value

line = np.arange(7)
for kind in ("i1", "u1", "i2", "i4", "u4", "i8", "f4", "f8", "?"):
    xs = (line % 5).astype(kind)
    note("1-d " + kind, float(kernels.first(xs)))
    note("strided " + kind, float(kernels.strided(xs)))
    note("sliced " + kind, float(kernels.first(xs[1::2])))
    note("empty " + kind, float(kernels.first(xs[:0])))
    if len(kind) == 2 and kind[1] in "48":
        note("references " + kind, float(kernels.with_references(xs)))
still = np.arange(5.0)
still.flags.writeable = False
note("read-only", kernels.first(still))
grid = np.arange(12.0).reshape(3, 4)
for name, each in {"C": grid, "F": np.asfortranarray(grid), "T": grid.T, "A": grid[::2, ::3], "rows": grid[1:],
                   "empty": grid[:0], "no columns": grid[:, :0]}.items():
    note("2-d " + name, kernels.second(each))
note("column", kernels.column(grid))
note("3-d", kernels.third(np.arange(24.0).reshape(2, 3, 4)))
xs = np.zeros(5)
note("written", kernels.filled(xs, 2.5))
note("what was written", xs)
inner = Inner(np.arange(4.0), np.array([True, False, True]))
stepped = Inner(np.arange(8.0)[::2], np.array([True, False, True]))
for name, each in {"plain": inner, "stepped": stepped}.items():
    for extra in (None, inner):
        outer = Outer(each, grid, extra, (3, line), 9)
        note(f"structure {name} {extra is None}", kernels.structure(outer, 2))
note("chosen", [kernels.chosen(inner, 3), kernels.chosen(Turned(np.arange(3)), 3)])
note("given back", [each.tolist() for each in kernels.gives_back(line)])
tell(found=found)
"""


def test_arguments_arrive_as_they_were(workshop: Workshop) -> None:
    workshop.write("some_kernels", KERNELS)
    plain = workshop.run(CALLS, NUMBA_DISABLE_JIT="1")["found"]
    cold = workshop.run(CALLS)
    assert cold["found"] == plain
    assert {"sum1", "sum2", "walk", "plain_size", "turned_size"} <= set(cold["compiled"])
    assert workshop.run(CALLS) == {"found": plain, "compiled": []}
