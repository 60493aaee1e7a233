"""The decorators that make a function a kernel.

An entry point of the kernels is a `kernel`; what only other kernels call is `internal`, or `inlined` where the call
would cost more than the work. `vectorized` is a `kernel` for loops over columns, `allocating_kernel` one that makes
arrays, and `expanded` copies a few lines into each caller before types are inferred. All but a `short_kernel` release
the GIL while they run, and what they are compiled to is kept on disk (`indexes.compiled.cache`).

Numba counts references to every array that passes between kernels, an atomic instruction each way; for a NamedTuple of
a dozen arrays that costs several times a small kernel's own work. A kernel that neither makes nor returns arrays does
not need the counts: its caller holds the arrays anyway. So all but `allocating_kernel` and `expanded` do without, and
numba refuses one that makes an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

# Registers types of arguments, and would be loaded by the first call of a kernel, while another thread may be looking a
# type up: `functools.singledispatch` then raises RuntimeError.
import numba.experimental.function_type
from numba import types
from numba.core.registry import CPUDispatcher

from indexes.compiled import cache, library

F = TypeVar("F", bound=Callable[..., Any])


_OWN: dict[str, Any] = {"_nrt": True, "fastmath": False, "error_model": "python", "forceinline": False}
"""Options that a kernel would otherwise take from the first kernel that calls it."""


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel that is compiled for the kinds of its arguments, not for each constant and each width of integer that
    some caller gives it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As numba's: what a call from a kernel with arguments of these types resolves to."""
        wide = {name: _widened(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(_widened, args)), wide)


def _widened(kind: Any) -> Any:
    """The type that a kernel is compiled for when it is called with an argument of this type from another one."""
    plain = types.unliteral(kind)
    return types.int64 if plain in _NARROW else plain


_NARROW = frozenset({types.int8, types.int16, types.int32, types.uint8, types.uint16, types.uint32})

# Settles the target: numba asks for it when the first kernel is defined.
cache.folder()


def compiler(**options: Any) -> Callable[[F], F]:
    """A decorator as `numba.njit` with these options, which keeps the machine code on disk."""
    chosen = {"nogil": True, **_OWN, **options}
    compile_ = numba.njit(no_cfunc_wrapper=True, pipeline_class=library.KernelCompiler, **chosen)

    def decorate(function: F) -> F:
        compiled = compile_(function)
        if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            compiled.__class__ = _Kernel
            cache.keep(compiled)
        return compiled  # type: ignore[no-any-return]

    return decorate


_kernel = compiler(_nrt=False)
_short = compiler(_nrt=False, nogil=False)
_internal = compiler(_nrt=False, no_cpython_wrapper=True)
_inlined = compiler(_nrt=False, no_cpython_wrapper=True, forceinline=True)
_vectorized = compiler(_nrt=False, fastmath={"nnan", "nsz"})
_allocating = compiler()
_expanded = compiler(inline="always")


def kernel(function: F) -> F:
    """Compile an entry point that makes no arrays: Python and other kernels may call it."""
    return _kernel(function)


def short_kernel(function: F) -> F:
    """As `kernel`, for some microseconds of work: it keeps the GIL. To get it back takes longer where another thread
    has something to do."""
    return _short(function)


def internal(function: F) -> F:
    """Compile a function that only kernels call. The wrapper that lets Python call it is left out, which for a
    NamedTuple of many arrays is most of the time it takes to compile."""
    return _internal(function)


def inlined(function: F) -> F:
    """As `internal`, and its machine code becomes part of the caller's: for what is called from one or two places with
    NamedTuples of many arrays, whose every field would be an argument of the call."""
    return _inlined(function)


def vectorized(function: F) -> F:
    """As `kernel`, for loops over columns without NaN: minima and maxima are found several at a time."""
    return _vectorized(function)


def allocating_kernel(function: F) -> F:
    """As `kernel`, for functions that make or return arrays."""
    return _allocating(function)


def expanded(function: F) -> F:
    """As `allocating_kernel`, copied into its callers before types are inferred: for primitives of a few lines only."""
    return _expanded(function)
