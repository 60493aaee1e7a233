"""Signatures of functions, which numba asks for twice in a row for each kernel that is defined: a quarter of what that
takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba.core import utils

_last: tuple[Any, inspect.Signature | None] = (None, None)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, which is asked once for the same function in a row."""
    global _last
    seen, known = _last
    if seen is function and known is not None:
        return known
    found = inspect.signature(function)
    if type(function) is FunctionType:
        _last = (function, found)
    return found


def install() -> None:
    """Let numba ask here."""
    utils.pysignature = _signature  # type: ignore[assignment, attr-defined]
