"""The decorators that make a function a kernel.

`kernel` and `inline_kernel` are for kernels that may make arrays; those of `indexes.lean` are for the others. What they
are compiled to is kept on disk (`indexes.compiled.cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
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
    chosen = {**_OWN, **options}
    compile_ = numba.njit(nogil=True, no_cfunc_wrapper=True, pipeline_class=library.KernelCompiler, **chosen)

    def decorate(function: F) -> F:
        compiled = compile_(function)
        if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            compiled.__class__ = _Kernel
            cache.keep(compiled)
        return compiled  # type: ignore[no-any-return]

    return decorate


_compile = compiler()
_inline = compiler(inline="always")


def kernel(function: F) -> F:
    """Compile on first call, release the GIL while running, keep the machine code on disk."""
    return _compile(function)


def inline_kernel(function: F) -> F:
    """As `kernel`, pasted into its callers: for primitives of a few lines only."""
    return _inline(function)
