"""What makes numba's front end faster without changing what it does.

For each operator of a kernel numba looks up every overload of that operator in a cache whose key holds the compiler's
flags, and compares flags by making dictionaries of all their options, twice: a fifth of the time of compiling. It tries
them all again for each use of the operator: a twelfth. To find the variables of an instruction it asks of each of its
parts, most of which are names, whether it is one of six kinds of container: a tenth. A function that is copied into its
callers is translated again for each call of it: a twentieth. Each acquisition of LLVM's lock notifies two timers of
each kernel whose compilation is under way, which nobody reads: a twentieth. Copies of a function have copies of the
source location of each instruction, although locations never change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from numba.core import event, ir, types
from numba.core.cpu_options import AbstractOptionValue
from numba.core.inline_closurecall import InlineWorker
from numba.core.targetconfig import ConfigStack, TargetConfig


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


_resolved: dict[tuple[Any, ...], tuple[Any, ...]] = {}

_resolve: Any = types.Function.get_call_type


def _call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a call of a built-in function; found once for the same types of arguments under the same flags.
    Types are known by identity: numba shares those that are equal."""
    flags = ConfigStack.top_or_none()
    options = None if flags is None else _values(flags)
    key = (id(self), id(context), id(options), *map(id, args), *((name, id(kind)) for name, kind in kws.items()))
    known = _resolved.get(key)
    if known is None:
        signature = _resolve(self, context, args, kws)
        # What the key names by identity is held as long as the key is.
        held = self, context, options, args, tuple(kws.values())
        _resolved[key] = signature, self._impl_keys[signature.args], held
        return signature
    signature, implementation, _ = known
    self._impl_keys[signature.args] = implementation
    return signature


_inlinable: dict[tuple[Any, ...], Any] = {}


def _inline_function(
    self: InlineWorker, caller_ir: Any, block: Any, i: int, function: Any, arg_typs: Any = None
) -> Any:
    """As numba's, with a function's code read and prepared once, not for each call of it; `inline_ir` copies it."""
    self.flags.enable_ssa = False
    key = (function, id(_values(self.flags)))
    if key not in _inlinable:
        _inlinable[key] = self.run_untyped_passes(function)
    return self.inline_ir(caller_ir, block, i, _inlinable[key], function.__code__.co_freevars, arg_typs=arg_typs)


def _only_to_listeners(send: Callable[..., None]) -> Callable[..., None]:
    """The function that sends events, for kinds that have a listener; others are not even made."""

    def send_to_listeners(kind: str, *args: Any, **data: Any) -> None:
        if event._registered.get(kind):
            send(kind, *args, **data)

    return send_to_listeners


_NO_VARIABLES = frozenset({str, int, float, bool, type(None), ir.Loc})

_list_slowly = ir.Inst._rec_list_vars


def _list_variables(self: ir.Inst, part: Any) -> Any:
    kind = type(part)
    if kind is ir.Var:
        return [part]
    return [] if kind in _NO_VARIABLES else _list_slowly(self, part)


def _no_timer(kind: str, callback: Callable[[float], None]) -> AbstractContextManager[None]:
    """In place of a timer that nobody reads, nothing."""
    return nullcontext()


def _shared(self: ir.Loc, memo: Any) -> ir.Loc:
    """In place of a copy of a source location, which never changes, the location itself."""
    return self


def install() -> None:
    """Replace these parts of numba."""
    TargetConfig.__init__ = _make  # type: ignore[method-assign]
    TargetConfig.__eq__ = _equal  # type: ignore[method-assign]
    TargetConfig.__hash__ = _hash  # type: ignore[method-assign]
    ir.Inst._rec_list_vars = _list_variables  # type: ignore[method-assign]
    types.Function.get_call_type = _call_type  # type: ignore[method-assign]
    InlineWorker.inline_function = _inline_function  # type: ignore[method-assign]
    event.install_timer = _no_timer  # type: ignore[assignment]
    event.start_event = _only_to_listeners(event.start_event)
    event.end_event = _only_to_listeners(event.end_event)
    ir.Loc.__deepcopy__ = _shared  # type: ignore[attr-defined]
