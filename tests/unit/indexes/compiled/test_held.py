"""Arguments of kernels that are kept in memory."""

from __future__ import annotations

import pytest

from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop

KERNELS = """
    from typing import NamedTuple

    import numpy as np

    from indexes.compiled.held import Held, keep, kind_of, take
    from indexes.compiled.jit import kernel

    class Inner(NamedTuple):
        column: np.ndarray
        grid: np.ndarray

    class Outer(NamedTuple):
        stepped: np.ndarray
        inner: Inner
        factor: float
        shift: int

    def outer(rows, factor=0.5, dtype=np.int64, step=3):
        column = np.arange(rows, dtype=dtype)
        return Outer(np.arange(step * rows, dtype=np.int16)[::step], Inner(column, np.ones((rows, 4))), factor, rows)

    KIND = kind_of((outer(2), np.zeros(1, np.int32)))

    @kernel
    def hold(memory, value):
        keep(memory, value, KIND)

    @kernel
    def total(memory, more):
        made, last = take(memory, KIND)
        found = made.factor * (made.shift + more)
        for i in range(made.stepped.size):
            made.inner.column[i] += 1
            found += made.stepped[i] * made.inner.column[i] + made.inner.grid[i, 3]
        last[0] += 1
        return found + made.inner.grid.shape[1] * made.inner.grid.shape[0]
"""

CALLS = """
import numpy as np
import some_kernels as kernels

held = kernels.Held(kernels.KIND, kernels.hold, 2)
values = [(kernels.outer(rows), np.zeros(1, np.int32)) for rows in (5, 2, 3, 7)]
found = []
for at in (0, 1, 0, 1, 2, 3, 0):
    found.append(float(kernels.total(held.memory(*values[at]), at)))
memories = [held.memory(*values[at]) for at in (0, 3, 0, 3)]
kept = [one is two for one, two in zip(memories, memories[2:])]
other = held.memory(values[0][0], values[1][1]) is not memories[0]
held.clear()
anew = held.memory(*values[3]) is not memories[1]
changed = [[one.inner.column.tolist(), last.tolist()] for one, last in values]
tell(found=found, changed=changed, same=[*kept, other, anew])
"""


def test_what_is_held_is_what_was_given(workshop: Workshop) -> None:
    workshop.write("some_kernels", KERNELS)
    plain = workshop.run(CALLS, NUMBA_DISABLE_JIT="1")
    compiled = workshop.run(CALLS)
    for one in (plain, compiled):
        assert one["same"] == [True] * 4
    assert compiled["found"] == plain["found"] and compiled["changed"] == plain["changed"]
    again = workshop.run(CALLS)
    assert again["compiled"] == [] and again["found"] == plain["found"]


@pytest.mark.skipif(UNCOMPILED, reason="nothing has a type")
@pytest.mark.parametrize("other", ["dtype=np.int32", "step=1"])
def test_another_type_is_refused(workshop: Workshop, other: str) -> None:
    workshop.write("some_kernels", KERNELS)
    program = f"""
import numpy as np
import some_kernels as kernels

held = kernels.Held(kernels.KIND, kernels.hold, 2)
value = kernels.outer(2, {other}), np.zeros(1, np.int32)
try:
    held.memory(*value)
except Exception as error:
    tell(refused="is not what is held" in str(error))
else:
    tell(refused=False)
"""
    assert workshop.run(program)["refused"]
