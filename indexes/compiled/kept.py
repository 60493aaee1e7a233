"""Arguments of kernels that are unpacked once, for many calls.

To take an array from Python numba asks the object for its type, address and shape, a seventh of a microsecond each, and
a kernel that works on a whole index takes a hundred of them: several times what a small change costs. What changes
rarely is therefore put into an array of words by one call (`keep_parts`), and the kernels that are called often take
that array alone and read the rest from it (`unpacked`).

A kind of kept arguments is a NamedTuple with the one field `words`, which `declare` gives an example of what is kept.
The words count no references: a `Keeper` has the arrays, and says whether they are still the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import is_
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.arguments import PlainArrays, plain_packer
from indexes.compiled.fingerprint import KEPT
from indexes.compiled.jit import kernel
from indexes.compiled.simd import primitive, replace

from llvmlite import ir  # isort: skip
from numba import types, typeof  # isort: skip
from numba.core.errors import TypingError  # isort: skip

Words = NDArray[np.int64]

KeptT = TypeVar("KeptT")

_uncompiled: dict[int, tuple[Any, ...]] = {}
"""What is kept in words at these addresses, where nothing is compiled."""


def declare(kind: Any, example: Callable[[], tuple[Any, ...]]) -> None:
    """Say what a kind of kept arguments holds: arguments of the same types as these."""
    setattr(kind, KEPT, staticmethod(cache(lambda: types.Tuple(tuple(map(typeof, example()))))))


def room_for(parts: Any) -> Words:
    """Words for these arguments."""
    return np.zeros(_count(parts), np.int64)


def _count(part: Any) -> int:
    if isinstance(part, tuple):
        return sum(map(_count, part))
    if not isinstance(part, np.ndarray):
        return 1
    # Only a contiguous one is passed without owner, parent, sizes and strides.
    return 1 + part.ndim if part.flags.c_contiguous else 5 + 2 * part.ndim


def _parts_of(kind: Any) -> Any:
    """The type of what is kept by arguments of this type."""
    return getattr(kind.instance_class, KEPT)()


def _slots(context: Any, builder: Any, kind: Any, kept: Any, packer: Any) -> list[Any]:
    """The address of each of the words, as a pointer to what is in it."""
    words = context.make_array(kind[0])(context, builder, value=builder.extract_value(kept, 0)).data
    return [
        builder.bitcast(builder.gep(words, [ir.Constant(ir.IntType(64), at)]), one.as_pointer())
        for at, one in enumerate(packer.argument_types)
    ]


@primitive
def _keep(typing: Any, kept: Any, parts: Any) -> Any:
    wanted = _parts_of(kept)
    if parts != wanted:
        raise TypingError(f"{kept.instance_class.__name__} keeps {wanted}, not {parts}")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        packer = plain_packer(PlainArrays(wanted.types))
        values = [builder.extract_value(args[1], at) for at in range(len(wanted))]
        slots = _slots(context, builder, signature.args[0], args[0], packer)
        for slot, value in zip(slots, packer.as_arguments(builder, values), strict=True):
            builder.store(value, slot)
        return context.get_dummy_value()

    return types.void(kept, parts), codegen


@primitive
def _unpacked(typing: Any, kept: Any) -> Any:
    held = _parts_of(kept)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        packer = plain_packer(PlainArrays(held.types))
        slots = _slots(context, builder, signature.args[0], args[0], packer)
        values = packer.from_arguments(builder, [builder.load(slot) for slot in slots])
        return context.make_tuple(builder, held, values)

    return held(kept), codegen


def keep(kept: Any, parts: Any) -> None:
    """In a kernel: put arguments into words of their kind. Whoever has the words holds the arrays as well."""
    _uncompiled[kept.words.ctypes.data] = parts


def unpacked(kept: Any) -> Any:
    """In a kernel: the arguments that are kept."""
    return _uncompiled[kept.words.ctypes.data]


replace(keep, _keep)
replace(unpacked, _unpacked)


@kernel
def keep_parts(kept: Any, parts: Any) -> None:
    """`keep`, called from Python."""
    keep(kept, parts)


class Keeper(Generic[KeptT]):
    """Arguments of one kind, kept in words of their own: those `most` that were used last."""

    def __init__(self, kind: type[KeptT], most: int = 1) -> None:
        self._kind, self._most = kind, most
        self._held: list[tuple[tuple[Any, ...], KeptT]] = []

    def kept(self, parts: tuple[Any, ...], whole: Callable[[], tuple[Any, ...]] | None = None) -> KeptT:
        """The words of these arguments, which are written unless those of the same objects are held. What is `whole` is
        kept in place of `parts`, where it is made of them."""
        for held, known in self._held:
            if all(map(is_, held, parts)):
                return known
        arguments = parts if whole is None else whole()
        kept: KeptT = self._kind(room_for(arguments))  # type: ignore[call-arg]  # a NamedTuple of the words
        keep_parts(kept, arguments)
        self._held = [(parts, kept), *self._held[: self._most - 1]]
        return kept

    def __deepcopy__(self, memo: dict[int, Any]) -> Keeper[KeptT]:
        """One that holds nothing: the words of this one are about arrays that are not copied."""
        return Keeper(self._kind, self._most)

    def clear(self) -> None:
        """Hold nothing."""
        self._held = []
