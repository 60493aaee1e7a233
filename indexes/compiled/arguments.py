"""How kernels hand arrays to each other: a pointer and the shape.

Numba passes each array as seven or more arguments (owner, parent, size, item size, data, shape, strides), so a
NamedTuple of twenty arrays is a hundred and forty, all of them stored to the stack for each call that is not inlined.
A kernel that counts no references (`_nrt=False`) needs only where a contiguous array lies and its shape; the rest
follows from them.

A descriptor whose `argtypes` are a `PlainArrays` has this convention, for its callers and for itself.
"""

from __future__ import annotations

from functools import cache
from types import MethodType
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel.models import ArrayModel
from numba.core.datamodel.packer import ArgPacker
from numba.core.datamodel.registry import default_manager
from numba.np.numpy_support import as_dtype


class PlainArrays(tuple[Any, ...]):
    """Argument types whose contiguous arrays are passed as pointer and shape."""

    __slots__ = ()


class PlainArrayModel(ArrayModel):
    """An array whose arguments are its data and its shape, if it is contiguous."""

    def __init__(self, manager: Any, array_type: Any) -> None:
        super().__init__(manager, array_type)
        self._plain = array_type.layout == "C"
        self._ndim = array_type.ndim
        self._itemsize = as_dtype(array_type.dtype).itemsize if self._plain else 0

    def get_argument_type(self) -> Any:
        if not self._plain:
            return super().get_argument_type()
        members = dict(zip(self._fields, self._models, strict=True))
        return (members["data"].get_argument_type(), *[ir.IntType(64)] * self._ndim)

    def as_argument(self, builder: Any, value: Any) -> Any:
        if not self._plain:
            return super().as_argument(builder, value)
        shape = self.get(builder, value, "shape")
        return (self.get(builder, value, "data"), *(builder.extract_value(shape, [i]) for i in range(self._ndim)))

    def from_argument(self, builder: Any, value: Any) -> Any:
        if not self._plain:
            return super().from_argument(builder, value)
        data, *shape = value
        integer = ir.IntType(64)
        strides: list[Any] = [ir.Constant(integer, self._itemsize)]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length, flags=["nsw"]))
        items = shape[0]
        for length in shape[1:]:
            items = builder.mul(items, length, flags=["nsw"])
        made = ir.Constant(self.get_value_type(), ir.Undefined)
        for name, part in (
            ("meminfo", None),
            ("parent", None),
            ("nitems", items),
            ("itemsize", ir.Constant(integer, self._itemsize)),
            ("data", data),
            ("shape", _packed(builder, shape)),
            ("strides", _packed(builder, strides)),
        ):
            position = self._fields.index(name)
            kind = self._models[position].get_value_type()
            made = self.set(builder, made, ir.Constant(kind, None) if part is None else part, position)
        return made


def _packed(builder: Any, parts: list[Any]) -> Any:
    made = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for i, part in enumerate(parts):
        made = builder.insert_value(made, part, [i])
    return made


_plain_manager = default_manager.copy()
_plain_manager.register(types.Array, PlainArrayModel)


@cache
def plain_packer(args: PlainArrays) -> Any:
    """What turns arguments of these types into what is passed, and back."""
    return ArgPacker(_plain_manager, args)


def _arg_packer(context: Any, args: Any) -> Any:
    if isinstance(args, PlainArrays):
        return plain_packer(args)
    return type(context).get_arg_packer(context, args)


def install(context: Any) -> None:
    """Let a target context of numba's pass the arguments of `PlainArrays` in this way."""
    context.get_arg_packer = MethodType(_arg_packer, context)
