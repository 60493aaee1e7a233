"""Arguments of kernels that are unpacked once, for many calls.

To take an array from Python numba asks the object for its type, address and shape, a seventh of a microsecond each, and
a kernel that works on a whole index takes a hundred of them: several times what a small change costs. What changes
rarely is therefore put into an array of words by one call (`keep`), and the kernels that are called often take that
array alone and read the rest from it (`unpacked`).

A kind of kept arguments is a NamedTuple with the one field `words`, which `declare` gives an example of what is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.arguments import PlainArrays, plain_packer
from indexes.compiled.fingerprint import KEPT
from indexes.compiled.simd import primitive, replace

from llvmlite import ir  # isort: skip
from numba import types, typeof  # isort: skip
from numba.core.errors import TypingError  # isort: skip

Words = NDArray[np.int64]

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
    return 1 + part.ndim if isinstance(part, np.ndarray) else 1


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


replace(keep, lambda kept, parts: _keep(kept, parts))
replace(unpacked, lambda kept: _unpacked(kept))
