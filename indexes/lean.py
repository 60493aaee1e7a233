"""Kernels without reference counts.

Numba counts references to every array that passes between kernels, an atomic instruction each way; for a NamedTuple of
a dozen arrays that costs several times a small kernel's own work. A kernel that neither makes nor returns arrays does
not need the counts: its caller holds the arrays anyway. Such kernels, and the loops that call them, are lean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from indexes.jit import kernel  # noqa: F401  (sets the cache folder before numba is imported)

from numba import njit  # isort: skip

F = TypeVar("F", bound=Callable[..., Any])

_lean = njit(cache=True, nogil=True, _nrt=False)
_inner = njit(cache=True, nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
_vector = njit(cache=True, nogil=True, _nrt=False, fastmath={"nnan", "nsz"})


def lean_kernel(function: F) -> F:
    """As `indexes.jit.kernel`, for functions that make no arrays; numba refuses one that does."""
    return _lean(function)  # type: ignore[no-any-return]


def inner_kernel(function: F) -> F:
    """As `lean_kernel`, for functions that only kernels call: what lets Python call them is left out, which for a
    NamedTuple of many arrays is most of the time it takes to compile."""
    return _inner(function)  # type: ignore[no-any-return]


def vector_kernel(function: F) -> F:
    """As `lean_kernel`, for loops over columns without NaN: least and greatest values are found several at a time."""
    return _vector(function)  # type: ignore[no-any-return]
