"""Calls that choose their kernel by the type of their first argument."""

from __future__ import annotations

import pytest

from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop

KERNELS = """
    from typing import NamedTuple

    from indexes.compiled.dispatch import Protocol
    from indexes.compiled.jit import allocating_kernel

    class Sum(NamedTuple):
        a: int

    class Product(NamedTuple):
        a: int

    class Neither(NamedTuple):
        a: int

    WAYS = Protocol()

    @WAYS.declare()
    def combine(way, x, y):
        '''Combines two numbers.'''

    @allocating_kernel
    def add(way, x, y):
        return way.a + x + y

    @allocating_kernel
    def multiply(way, x, y):
        return way.a * x * y

    WAYS.implement(Sum, {"combine": add})
    WAYS.implement(Product, {"combine": multiply})

    @allocating_kernel
    def entry(way, x):
        return combine(way, x, 3)

    def call():
        return [each(way(5), 2, *more) for way in (Sum, Product) for each, more in ((entry, ()), (combine, (3,)))]
"""


@pytest.mark.parametrize("jit", ["0", "1"])
def test_a_call_goes_to_the_kernel_of_the_type(workshop: Workshop, jit: str) -> None:
    workshop.write("some_kernels", KERNELS)
    program = "import some_kernels; tell(found=some_kernels.call())"
    assert workshop.run(program, NUMBA_DISABLE_JIT=jit)["found"] == [10, 10, 30, 30]
    assert workshop.run(program, NUMBA_DISABLE_JIT=jit) == {"found": [10, 10, 30, 30], "compiled": []}


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_an_edit_of_one_implementation_leaves_the_callers_with_another(workshop: Workshop) -> None:
    workshop.write("some_kernels", KERNELS)
    program = "import some_kernels; tell(found=some_kernels.call())"
    workshop.run(program)
    workshop.write("some_kernels", KERNELS.replace("way.a * x * y", "way.a * x * y * 2"))
    again = workshop.run(program)
    assert again["found"] == [10, 10, 60, 60]
    assert again["compiled"] == ["entry", "multiply"]


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_a_type_without_an_implementation_is_an_error_of_types(workshop: Workshop) -> None:
    workshop.write("some_kernels", KERNELS)
    told = workshop.run("""
        import some_kernels
        from numba.core.errors import TypingError
        try:
            some_kernels.entry(some_kernels.Neither(5), 2)
            tell(error=None)
        except TypingError as error:
            tell(error=str(error))
    """)
    assert "combine" in told["error"]
