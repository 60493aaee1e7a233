"""Kernels without reference counts.

Numba counts references to every array that passes between kernels, an atomic instruction each way; for a NamedTuple of
a dozen arrays that costs several times a small kernel's own work. A kernel that neither makes nor returns arrays does
not need the counts: its caller holds the arrays anyway. Such kernels, and the loops that call them, are lean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from indexes.jit import compiler

F = TypeVar("F", bound=Callable[..., Any])

_lean = compiler(_nrt=False)
_inner = compiler(_nrt=False, no_cpython_wrapper=True)
_pasted = compiler(_nrt=False, no_cpython_wrapper=True, forceinline=True)
_vector = compiler(_nrt=False, fastmath={"nnan", "nsz"})


def lean_kernel(function: F) -> F:
    """As `indexes.jit.kernel`, for functions that make no arrays; numba refuses one that does."""
    return _lean(function)


def inner_kernel(function: F) -> F:
    """As `lean_kernel`, for functions that only kernels call: what lets Python call them is left out, which for a
    NamedTuple of many arrays is most of the time it takes to compile."""
    return _inner(function)


def pasted_kernel(function: F) -> F:
    """As `inner_kernel`, and its machine code becomes part of the caller's: for what is called from one or two places
    with NamedTuples of many arrays, whose every field would be an argument of the call."""
    return _pasted(function)


def vector_kernel(function: F) -> F:
    """As `lean_kernel`, for loops over columns without NaN: least and greatest values are found several at a time."""
    return _vector(function)
