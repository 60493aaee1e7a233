"""Arguments that a kernel is called with again and again, kept as compiled code has them.

Python hands over an array by asking its object where it lies and how long it is. For the hundred arrays of the
NamedTuples of a small command that takes longer than its work, the more so as their objects are cold. What stays the
same from call to call is asked once: `keep` writes it to memory, and `take` reads it from there, in another kernel.

The memory has the arguments one after the other, eight bytes each, as kernels hand them to each other
(`indexes.compiled.arguments`). It counts no references: `Held` has the values, and says whether they are still the
same. Uncompiled (``NUMBA_DISABLE_JIT=1``) it is a list of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, Generic, TypeVar

import numba
import numpy as np

from indexes.compiled.arguments import PlainArrays
from indexes.compiled.simd import primitive, replace

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.core.errors import TypingError  # isort: skip

T = TypeVar("T")


def kind_of(example: Any) -> Any:
    """The type of a value, as kernels are compiled for it."""
    return numba.typeof(example)


@primitive
def _keep(typing: Any, memory: Any, value: Any, kind: Any) -> Any:
    if value != kind.instance_type:
        # It would be read as something else.
        raise TypingError(f"{value} is not what is held here")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        packer = context.get_arg_packer(PlainArrays([signature.args[1]]))
        for at, part in enumerate(_flat(packer.as_arguments(builder, [args[1]]))):
            builder.store(part, _place(context, builder, signature.args[0], args[0], at, part.type))
        return context.get_dummy_value()

    return types.none(memory, value, kind), codegen


@primitive
def _take(typing: Any, memory: Any, kind: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        packer = context.get_arg_packer(PlainArrays([kind.instance_type]))
        parts = [
            builder.load(_place(context, builder, signature.args[0], args[0], at, part))
            for at, part in enumerate(_flat(packer.argument_types))
        ]
        return packer.from_arguments(builder, parts)[0]

    return kind.instance_type(memory, kind), codegen


def _flat(parts: Any) -> list[Any]:
    return [one for part in parts for one in (_flat(part) if isinstance(part, tuple | list) else [part])]


def _place(context: Any, builder: Any, array_type: Any, array: Any, at: int, kind: Any) -> Any:
    data = context.make_array(array_type)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [ir.Constant(ir.IntType(64), at)]), kind.as_pointer())


def keep(memory: Any, value: Any, kind: Any) -> None:
    """Write a value of this type to memory."""
    memory[0] = value


def take(memory: Any, kind: Any) -> Any:
    """Read a value of this type from memory."""
    return memory[0]


replace(keep, lambda memory, value, kind: _keep(memory, value, kind))
replace(take, lambda memory, kind: _take(memory, kind))


def _room(kind: Any) -> int:
    """Arguments of a value of this type, at most."""
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind
        return sum(map(_room, parts))
    return 5 + 2 * kind.ndim if isinstance(kind, types.Array) else 1


class Held(Generic[T]):
    """The memory of a few values of one type: those that were used last, which are kept alive."""

    def __init__(self, kind: Any, write: Callable[[Any, T], None], most: int) -> None:
        """`write` is a kernel that calls `keep`; `most` values are held."""
        self._room, self._write, self._most = _room(kind), write, most
        self._held: list[tuple[tuple[Any, ...], Any]] = []

    def memory(self, *value: Any) -> Any:
        """The memory of a tuple. It is written unless one of the same objects is held."""
        for held, memory in self._held:
            if all(map(is_, held, value)):
                return memory
        memory = [None] if numba.config.DISABLE_JIT else np.empty(self._room, np.int64)  # type: ignore[attr-defined]
        self._write(memory, value)  # type: ignore[arg-type]
        self._held = [(value, memory), *self._held[: self._most - 1]]
        return memory

    def clear(self) -> None:
        """Hold nothing."""
        self._held = []
