"""What makes numba's front end faster without changing what it does.

For each operator of a kernel numba looks up every overload of that operator in a cache whose key holds the compiler's
flags, and compares flags by making dictionaries of all their options, twice: a fifth of the time of compiling. To find
the variables of an instruction it asks of each of its parts, most of which are names, whether it is one of six kinds of
container: a tenth.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir
from numba.core.cpu_options import AbstractOptionValue
from numba.core.targetconfig import TargetConfig


class _Options(dict[str, Any]):
    """The options that flags set, with all options in their order once somebody asked."""

    __slots__ = ("all",)

    all: tuple[Any, ...] | None

    def __setitem__(self, name: str, value: Any) -> None:
        self.all = None
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.all = None
        super().__delitem__(name)

    def pop(self, name: str, *default: Any) -> Any:
        self.all = None
        return super().pop(name, *default)


_known: dict[Any, tuple[Any, ...]] = {}


def _make(self: TargetConfig, copy_from: TargetConfig | None = None) -> None:
    self._values = _Options()
    self._values.all = None
    if copy_from is not None:
        self._values.update(copy_from._values)


def _values(config: TargetConfig) -> tuple[Any, ...]:
    """All options of flags in their order; flags that amount to the same share the tuple."""
    options: Any = config._values
    if options.all is None:
        found = tuple(getattr(config, name) for name in config.options)  # type: ignore[attr-defined]
        key = (type(config), *map(_hashable, found))
        options.all = _known.setdefault(key, found)
    found_all: tuple[Any, ...] = options.all
    return found_all


def _hashable(value: Any) -> Any:
    return (type(value), value.encode()) if isinstance(value, AbstractOptionValue) else value


def _equal(self: TargetConfig, other: object) -> Any:
    if self is other:
        return True
    return _values(self) is _values(other) if isinstance(other, TargetConfig) else NotImplemented


def _hash(self: TargetConfig) -> int:
    return id(_values(self))


_NO_VARIABLES = frozenset({str, int, float, bool, type(None), ir.Loc})

_list_slowly = ir.Inst._rec_list_vars


def _list_variables(self: ir.Inst, part: Any) -> Any:
    kind = type(part)
    if kind is ir.Var:
        return [part]
    return [] if kind in _NO_VARIABLES else _list_slowly(self, part)


def install() -> None:
    """Compare and hash flags by identity of what they amount to, and pass over names when variables are looked for."""
    TargetConfig.__init__ = _make  # type: ignore[method-assign]
    TargetConfig.__eq__ = _equal  # type: ignore[method-assign]
    TargetConfig.__hash__ = _hash  # type: ignore[method-assign]
    ir.Inst._rec_list_vars = _list_variables  # type: ignore[method-assign]
