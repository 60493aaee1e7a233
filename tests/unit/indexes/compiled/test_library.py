"""Kernels that call each other by symbol, each compiled once."""

from __future__ import annotations

import pytest

from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop
from tests.unit.indexes.compiled.helpers import LARGE

pytestmark = pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")

KERNELS = f"""
    from indexes.compiled.jit import expanded, allocating_kernel
    from indexes.compiled.jit import internal, kernel, inlined

    @internal
    def small(x):
        return x * 3

    @expanded
    def pasted(x):
        return x + 1

    @inlined
    def merged(x, y):
        total = 0
        {LARGE}
        return total

    @internal
    def large(x, y):
        total = small(x)
        {LARGE}
        if total < 0:
            raise ValueError("below zero")
        return total

    @kernel
    def middle(x):
        total, y = large(x, x + 7), x + 11
        {LARGE}
        return pasted(total)

    @allocating_kernel
    def entry(x):
        return middle(x) + large(x, x + 3) + merged(x, x + 2)

    @allocating_kernel
    def newcomer(x):
        return middle(x) - large(x, x + 3)
"""


def as_python(program: str) -> str:
    return f"import some_kernels\n{program}"


@pytest.fixture
def kernels(workshop: Workshop) -> Workshop:
    workshop.write("some_kernels", KERNELS)
    return workshop


CALL = as_python("tell(found=[some_kernels.entry(x) for x in (1, 5, 2**20)])")


def test_a_chain_of_calls_is_the_same_cold_warm_and_uncompiled(kernels: Workshop) -> None:
    plain = kernels.run(CALL, NUMBA_DISABLE_JIT="1")["found"]
    cold = kernels.run(CALL)
    assert cold["found"] == plain
    assert cold["compiled"] == ["entry", "large", "merged", "middle", "small"]
    assert kernels.run(CALL) == {"found": plain, "compiled": []}


def test_a_new_caller_compiles_none_of_its_callees(kernels: Workshop) -> None:
    program = as_python("tell(found=some_kernels.newcomer(5))")
    plain = kernels.run(program, NUMBA_DISABLE_JIT="1")["found"]
    kernels.run(CALL)
    assert kernels.run(program) == {"found": plain, "compiled": ["newcomer"]}
    assert kernels.run(program) == {"found": plain, "compiled": []}


def test_a_caller_is_loaded_with_what_it_calls(kernels: Workshop) -> None:
    kernels.run(CALL)
    told = kernels.run(
        as_python("""
cache.used = set()
some_kernels.entry(5)
tell(loaded=sorted(one.qualname for one in cache.used))
""")
    )
    assert told == {"loaded": ["entry", "large", "middle"], "compiled": []}


def test_a_large_callee_is_code_of_its_own_and_a_small_one_is_not(kernels: Workshop) -> None:
    told = kernels.run(
        as_python("""
some_kernels.entry(5)
about = {}
for name in ("small", "large", "merged", "middle", "entry"):
    (overload,) = getattr(some_kernels, name).overloads.values()
    about[name] = [overload.library.shared, sorted(call.qualname for _, call in overload.library.calls)]
tell(about=about, code={name: overload.library._emitted for name in about
     for overload in getattr(some_kernels, name).overloads.values()})
""")
    )
    assert told["about"]["small"] == [False, []]
    assert told["about"]["large"] == [True, []]
    assert told["about"]["merged"] == [False, []]
    assert told["about"]["middle"] == [True, ["large"]]
    assert told["about"]["entry"][1] == ["large", "middle"]
    assert told["code"] == {"small": False, "large": True, "merged": False, "middle": True, "entry": True}


RAISES = as_python("""
found = []
for x in (3, 5, 3):
    try:
        found.append(some_kernels.middle(x))
    except ValueError as error:
        found.append(str(error))
tell(found=found)
""")


def test_what_a_callee_raises_reaches_the_caller(kernels: Workshop) -> None:
    kernels.write("some_kernels", KERNELS.replace("if total < 0:", "if x == 3:"))
    plain = kernels.run(RAISES, NUMBA_DISABLE_JIT="1")["found"]
    assert plain[0] == plain[2] == "below zero" and isinstance(plain[1], int)
    assert kernels.run(RAISES)["found"] == plain
    assert kernels.run(RAISES) == {"found": plain, "compiled": []}


def test_a_small_kernel_can_be_called_from_python_too(kernels: Workshop) -> None:
    kernels.write("some_kernels", KERNELS.replace("@internal\n    def small", "@kernel\n    def small"))
    program = as_python("tell(found=[some_kernels.small(4), some_kernels.middle(4)])")
    plain = kernels.run(program, NUMBA_DISABLE_JIT="1")["found"]
    assert kernels.run(program)["found"] == plain
    assert kernels.run(program) == {"found": plain, "compiled": []}
