"""The object index of a board: one protocol, two structures behind it (`range_tree`, `kd_tree`).

An index is a NamedTuple of arrays indexed by *slot*: ``x``, ``y`` float64, ``c`` int64 (created), ``row`` int32 (the
caller's number of the object), and ``pos`` int32[rows], the slot of each row or -1. Slots may change when objects come, go
or move; rows never do. Objects are ordered by position (x, created) and ranked by (y, created), smaller is better;
``created`` is unique, so both orders are total. An object with y = +inf is there, but no query sees it.

The functions at the top are what kernels call. Compiled, they resolve to the structure's own kernel by the type of ``o``,
in kernels cached on disk as well; uncompiled (``NUMBA_DISABLE_JIT=1``) they look the type up. A structure names its
kernels once, with `implement`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from indexes.jit import kernel  # noqa: F401  (sets the cache folder before numba is imported)

from numba.extending import overload  # isort: skip

MAX = float(np.finfo(np.float64).max)
"""An unbounded end of a range, and the threshold below which every present object lies."""

F = TypeVar("F", bound=Callable[..., Any])

_kernels: dict[type, dict[str, Callable[..., Any]]] = {}


def implement(arrays: type, *kernels: Callable[..., Any]) -> None:
    """Serve the protocol for NamedTuples of type `arrays` with the kernels of the same names."""
    _kernels[arrays] = {function.__name__: function for function in kernels}


def _dispatched(inline: bool) -> Callable[[F], F]:
    """Make a declaration callable; `inline` pastes the machine code into callers (small, hot primitives only).

    No function of the protocol allocates, so none counts references.
    """

    def declare(function: F) -> F:
        name = function.__name__

        @wraps(function)
        def plain(o: Any, *args: Any) -> Any:
            return _kernels[type(o)][name](o, *args)

        @overload(plain, jit_options={"nogil": True, "forceinline": inline, "_nrt": False}, strict=False)
        @wraps(function)
        def choose(o: Any, *args: Any) -> Any:
            chosen = _kernels.get(getattr(o, "instance_class", type(None)), {}).get(name)
            return getattr(chosen, "py_func", chosen)

        return plain  # type: ignore[return-value]

    return declare


@_dispatched(inline=True)
def next_west(o: Any, s: int, T: float, Tc: int) -> int:
    """The nearest slot before `s` in position order whose (y, created) < (T, Tc), or -1."""
    raise NotImplementedError


@_dispatched(inline=True)
def next_east(o: Any, s: int, T: float, Tc: int) -> int:
    """The nearest slot after `s` in position order whose (y, created) < (T, Tc), or -1."""
    raise NotImplementedError


@_dispatched(inline=True)
def set_y(o: Any, s: int, y: float) -> None:
    """Give slot `s` a new y; +inf hides the object and keeps its place."""
    raise NotImplementedError


@_dispatched(inline=False)
def insert(o: Any, row: int, x: float, y: float, c: int) -> int:
    """Add an object under an absent row and answer its slot; -1 if there is no room (see `ObjectIndex.reserve`)."""
    raise NotImplementedError


@_dispatched(inline=False)
def delete(o: Any, row: int) -> None:
    """Take out the object of a present row."""
    raise NotImplementedError
