"""What a kernel's machine code depends on, as a hash: its own code and all that it can reach.

The walk starts at a function and follows the names that its bytecode mentions: kernels, constants, NamedTuples,
functions that numba replaces when it compiles. Comments, docstrings, line numbers and code that no kernel reaches
leave it as it is, so that an edit to them compiles nothing."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.types import Type

CHOICES = "__kernels_by_type__"
"""The attribute of a function dispatched by type that holds its kernels, {type of the argument: kernel}."""

KEPT = "__kept_arguments__"
"""The attribute of a kind of kept arguments (`indexes.compiled.kept`) that gives the numba type of what they are."""


@dataclass(slots=True)
class _Reach:
    """What one function mentions: a hash of its own, the kernels that it may call, those by type of argument, and the
    NamedTuples that it may make."""

    own: str
    kernels: list[Any] = field(default_factory=list)
    choices: list[dict[type, Any]] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)


def fingerprint(kernel: Any, classes: Iterable[type] = ()) -> str:
    """The hash of a kernel for arguments that hold instances of these classes, as 20 hexadecimal digits.

    The classes say which kernels a call that is dispatched by type can reach. O(size of all that it reaches), less what
    was looked at before.
    """
    wanted = set(classes)
    choices: list[dict[type, Any]] = []
    found: dict[int, str] = {}
    waiting = [kernel]
    while waiting:
        each = waiting.pop()
        if id(each) not in found:
            reach = _reach(each)
            found[id(each)] = reach.own
            waiting += reach.kernels
            wanted.update(reach.classes)
            choices += reach.choices
        if not waiting:
            chosen = (choice[one] for choice in choices for one in wanted if one in choice)
            waiting += [kernel for kernel in chosen if id(kernel) not in found]
    return hashlib.sha256("\n".join(sorted(found.values())).encode()).hexdigest()[:20]


_reaches: dict[int, tuple[Any, _Reach]] = {}


def _reach(kernel: Any) -> _Reach:
    known = _reaches.get(id(kernel))
    if known is None:
        known = _reaches[id(kernel)] = (kernel, _look(kernel))
    return known[1]


def _look(kernel: Any) -> _Reach:
    function = kernel.py_func if isinstance(kernel, Dispatcher) else kernel
    reach = _Reach("")
    said = [f"{function.__module__}.{function.__qualname__}"]
    if isinstance(kernel, Dispatcher):
        said.append(repr(sorted((name, _stable(value)) for name, value in kernel.targetoptions.items())))
    said += _describe(function.__defaults__ or (), (), reach)
    for code in _codes(function.__code__):
        said += [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames[: code.co_argcount])]
        said += [_stable(each) for each in _constants(code, function.__doc__)]
        for name in code.co_names:
            if name in function.__globals__:
                said += (f"{name}={each}" for each in _describe(function.__globals__[name], code.co_names, reach))
    for cell in function.__closure__ or ():
        said += _describe(cell.cell_contents, (), reach)
    reach.own = hashlib.sha256("\0".join(said).encode()).hexdigest()
    return reach


def _stable(value: Any) -> str:
    """The value as text, whatever the order in which a set gives its elements."""
    return f"set{sorted(map(repr, value))}" if isinstance(value, set | frozenset) else repr(value)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _constants(code: CodeType, doc: str | None) -> Iterator[Any]:
    for constant in code.co_consts:
        if not isinstance(constant, CodeType) and (doc is None or constant != doc):
            yield constant


def _describe(value: Any, names: tuple[str, ...], reach: _Reach) -> Iterator[str]:
    """What a value that a kernel mentions says of its machine code; notes in `reach` what there is to follow."""
    if isinstance(value, Dispatcher):
        reach.kernels.append(value)
        yield value.py_func.__qualname__
    elif hasattr(value, CHOICES):
        reach.choices.append(getattr(value, CHOICES))
        yield value.__qualname__
    elif isinstance(value, ModuleType):
        yield value.__name__
        if _is_ours(value.__name__):
            for name in names:
                if hasattr(value, name):
                    yield from _describe(getattr(value, name), (), reach)
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
        if issubclass(value, Enum):
            yield repr([(each.name, each.value) for each in value])
        elif hasattr(value, "_field_defaults"):
            reach.classes.append(value)
            yield from _describe(tuple(value._field_defaults.items()), (), reach)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    elif isinstance(value, bool | int | float | complex | str | bytes | None | np.generic | np.dtype | Type):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple | list):
        yield f"{type(value).__qualname__} of {len(value)}"
        for each in value:
            yield from _describe(each, (), reach)
    elif isinstance(value, set | frozenset):
        yield _stable(value)
    else:
        # A function that numba replaces (`overload`, `intrinsic`): its module says by what.
        home = getattr(value, "__module__", None) or type(value).__module__
        yield f"{home}.{getattr(value, '__qualname__', type(value).__qualname__)}"
        if isinstance(value, FunctionType) or type(value).__name__ == "_Intrinsic":
            if _is_ours(home):
                yield _source(home)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("indexes", "bench", "tests")


@cache
def _source(module: str) -> str:
    file = sys.modules[module].__file__
    return hashlib.sha256(Path(file or "").read_bytes()).hexdigest() if file else module
