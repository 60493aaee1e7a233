"""Which edits change what kernels are compiled to."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from indexes.compiled.fingerprint import fingerprint
from tests.support.values import UNCOMPILED
from tests.unit.indexes.compiled.conftest import Workshop

pytestmark = pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")

SOURCE = '''
"""A module."""

from enum import Enum
from typing import NamedTuple

import numpy as np
from numba import types

from indexes.compiled.dispatch import Protocol
from indexes.compiled.jit import expanded, allocating_kernel
from indexes.compiled.jit import kernel, vectorized
from tests.support.values import UNCOMPILED

STEP = 3
TABLE = np.array([1, 2, 3])
CHOSEN = (1, (2.0, "a"))
DTYPE = np.dtype("int32")
KIND = types.int64


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    first: int
    second: int = 2


class Other(NamedTuple):
    first: int


FIRST = Protocol()


@FIRST.declare()
def first(pair):
    """The first."""


@allocating_kernel
def own_first(pair):
    return pair.first


@allocating_kernel
def other_first(pair):
    return -pair.first


FIRST.implement(Pair, {"first": own_first})
FIRST.implement(Other, {"first": other_first})


@kernel
def deepest(x):
    return x + STEP


@allocating_kernel
def callee(x):
    """A callee."""
    return deepest(x) * 2


@allocating_kernel
def entry(x, y=1):
    """An entry point."""
    for i in range(3):  # thrice
        x += TABLE[i] + CHOSEN[0]
    if x in {1, 2, 3}:
        return callee(x)
    made = Pair(x)
    return DTYPE.itemsize + made.second + (Colour.RED.value if KIND else y)


@allocating_kernel
def chooses(pair):
    return first(pair)


def view(x):
    """Called by Python alone."""
    return entry(x)
'''

_numbers = itertools.count()


def module(edit: Callable[[str], str] = lambda source: source) -> Any:
    made = ModuleType("edited_kernels")
    sys.modules[made.__name__] = made
    try:
        exec(compile(edit(dedent(SOURCE)), f"edited{next(_numbers)}.py", "exec"), made.__dict__)
    finally:
        del sys.modules[made.__name__]
    return made


def replaced(old: str, new: str) -> Callable[[str], str]:
    def edit(source: str) -> str:
        assert old in source
        return source.replace(old, new, 1)

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        replaced('"""A module."""', '"""Another module."""\n\n\n'),
        replaced("# thrice", "# three times"),
        replaced('"""An entry point."""', '"""A point of entry."""'),
        replaced('"""A callee."""', '"""What is called."""\n    # by whom'),
        replaced('"""Called by Python alone."""\n    return entry(x)', "return entry(x + 1)"),
        replaced("return -pair.first", "return -pair.first - 1"),
        replaced("return pair.first", "return pair.first - 1"),
    ],
)
def test_an_edit_of_what_a_kernel_does_not_reach_leaves_it(edit: Callable[[str], str]) -> None:
    assert fingerprint(module(edit).entry) == fingerprint(module().entry)


@pytest.mark.parametrize(
    "edit",
    [
        replaced("STEP = 3", "STEP = 4"),
        replaced("STEP = 3", "STEP = 3.0"),
        replaced("[1, 2, 3])", "[1, 2, 4])"),
        replaced("[1, 2, 3])", "[1, 2, 3], np.int32)"),
        replaced('(2.0, "a")', '(2.0, "b")'),
        replaced('(1, (2.0, "a"))', '(1, 2.0, "a")'),
        replaced('np.dtype("int32")', 'np.dtype("int64")'),
        replaced("types.int64", "types.int32"),
        replaced("RED = 1", "RED = 2"),
        replaced("second: int = 2", "second: int = 3"),
        replaced("first: int\n    second: int", "first: int\n    third: int = 1\n    second: int"),
        replaced("x + STEP", "x - STEP"),
        replaced("* 2", "* 3"),
        replaced("y=1", "y=2"),
        replaced("range(3)", "range(2)"),
        replaced("{1, 2, 3}", "{1, 2, 4}"),
        replaced("@kernel\ndef deepest", "@vectorized\ndef deepest"),
        replaced("@allocating_kernel\ndef entry", "@expanded\ndef entry"),
        replaced("x += TABLE", "x -= TABLE"),
    ],
)
def test_an_edit_of_what_a_kernel_reaches_changes_it(edit: Callable[[str], str]) -> None:
    assert fingerprint(module(edit).entry) != fingerprint(module().entry)


def test_the_types_of_the_arguments_say_which_implementation_a_kernel_reaches() -> None:
    before, after = module(), module(replaced("return pair.first", "return pair.first - 1"))
    assert fingerprint(after.chooses, [after.Pair]) != fingerprint(before.chooses, [before.Pair])
    assert fingerprint(after.chooses, [after.Other]) == fingerprint(before.chooses, [before.Other])
    assert fingerprint(before.chooses, [before.Pair]) != fingerprint(before.chooses, [before.Other])


def test_a_structure_that_a_kernel_makes_says_which_implementation_it_reaches() -> None:
    makes = replaced("return first(pair)", "return first(Other(pair))")
    edit = replaced("return -pair.first", "return -pair.first - 1")
    before, after = module(makes), module(lambda source: edit(makes(source)))
    assert fingerprint(after.chooses) != fingerprint(before.chooses)


def test_a_fingerprint_is_the_same_in_each_process(workshop: Workshop) -> None:
    workshop.write("edited_kernels", SOURCE)
    program = """
        from indexes.compiled.fingerprint import fingerprint
        import edited_kernels as made
        tell(found=[fingerprint(made.entry), fingerprint(made.chooses, [made.Pair])])
    """
    one, other = (workshop.run(program, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert one["found"] == other["found"]
    assert one["found"][0] == fingerprint(module().entry)
