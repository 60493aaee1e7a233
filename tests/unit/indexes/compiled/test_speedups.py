"""What is done less often by numba's front end gives the same kernels."""

from __future__ import annotations

import operator

import pytest
from numba.core import types
from numba.core.registry import cpu_target

from indexes.compiled import library
from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop

compiled = pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")

KERNELS = """
    from indexes.compiled.jit import expanded, kernel, vectorized

    @expanded
    def total(n, step):
        found = 0
        for i in range(n):
            if i % step == 0:
                found += i
        return found

    @expanded
    def twice(n):
        return total(n, 2) + total(n, 1)

    @kernel
    def first(n):
        found = total(n, 3)
        for i in range(n):
            found += total(i, 2) * twice(n)
        return found + total(n, 5)

    @vectorized
    def second(n):
        return twice(n) - total(n, 7)
"""


@compiled
def test_a_function_is_copied_into_many_places(workshop: Workshop) -> None:
    workshop.write("some_kernels", KERNELS)
    program = "import some_kernels; tell(found=[(some_kernels.first(n), some_kernels.second(n)) for n in range(40)])"
    plain = workshop.run(program, NUMBA_DISABLE_JIT="1")["found"]
    assert workshop.run(program) == {"found": plain, "compiled": ["first", "second"]}


@compiled
def test_the_implementation_of_an_operator_is_that_of_the_last_call() -> None:
    library.target_codegen()
    context = cpu_target.typing_context
    context.refresh()
    added = context.resolve_value_type(operator.add)
    signature = added.get_call_type(context, (types.int64, types.float64), {})
    implementation = added._impl_keys[signature.args]
    added._impl_keys[signature.args] = None
    assert added.get_call_type(context, (types.int64, types.float64), {}) is signature
    assert added._impl_keys[signature.args] is implementation
    assert added.get_call_type(context, (types.int64, types.int64), {}) is not signature
