"""Calls that choose their kernel by the type of their first argument.

A `Protocol` is a set of declarations, functions without a body; each structure that implements it names its kernels.
Compiled callers resolve the call when they are compiled, to the structure's own kernel and at no cost; uncompiled
(``NUMBA_DISABLE_JIT=1``) the type is looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from numba import config, types
from numba.core.typing.templates import AbstractTemplate, infer_global

from indexes.compiled.fingerprint import CHOICES

F = TypeVar("F", bound=Callable[..., Any])


class _Declaration(NamedTuple):
    """By type: `kernels` for compiled callers, `plain` for Python."""

    kernels: dict[type, Any]
    plain: dict[type, Any]
    adapt: Callable[[Any], Any]


class Protocol:
    """Declarations by name, and for each the kernel of each type that implements it."""

    def __init__(self) -> None:
        self._declared: dict[str, _Declaration] = {}

    def declare(self, adapt: Callable[[Any], Any] = lambda kernel: kernel) -> Callable[[F], F]:
        """Make a declaration callable, from kernels and from Python.

        `adapt` turns the kernel that a structure names into the one that compiled callers get.
        """

        def declare(function: F) -> F:
            kernels: dict[type, Any] = {}
            for_python: dict[type, Any] = {}
            self._declared[function.__name__] = _Declaration(kernels, for_python, adapt)

            @wraps(function)
            def plain(arrays: Any, *args: Any) -> Any:
                return for_python[type(arrays)](arrays, *args)

            setattr(plain, CHOICES, kernels)
            infer_global(plain, types.Function(_template(plain, kernels)))
            return plain  # type: ignore[return-value]

        return declare

    def implement(self, arrays: type, kernels: dict[str, Callable[..., Any]]) -> None:
        """Let calls whose first argument is of type `arrays`, a NamedTuple, go to these kernels, by declared name."""
        for name, kernel in kernels.items():
            declared = self._declared[name]
            declared.plain[arrays] = kernel
            declared.kernels[arrays] = kernel if config.DISABLE_JIT else declared.adapt(kernel)  # type: ignore[attr-defined]


def _template(plain: Any, kernels: dict[type, Any]) -> type:
    """What numba asks for the type and the code of a call of `plain`."""

    class Chosen(AbstractTemplate):
        key = plain
        _entry_points: dict[Any, Any] = {}  # noqa: RUF012  (shared by what numba derives from this class)

        def generic(self, args: Any, kws: Any) -> Any:
            kernel = kernels.get(getattr(args[0], "instance_class", type(None))) if args else None
            if kernel is None:
                return None
            _, _, folded, _ = kernel.get_call_template(args, kws)
            overload = kernel.overloads[tuple(folded)]
            self._entry_points[overload.signature.args] = overload.entry_point
            return overload.signature

        def get_impl_key(self, sig: Any) -> Any:
            return self._entry_points[sig.args]

    return Chosen
