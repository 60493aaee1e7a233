"""Numbers that several threads change at once."""

from __future__ import annotations

import threading
from typing import Any

from indexes.compiled.simd import primitive, replace

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

_uncompiled = threading.Lock()


@primitive
def _fetch_add(typing: Any, a: Any, amount: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=args[0]).data
        # Nothing else is handed over by it: no order is asked for.
        return builder.atomic_rmw("add", builder.gep(data, [ir.Constant(ir.IntType(64), 0)]), args[1], "monotonic")

    return types.int64(a, types.int64), codegen


def fetch_add(a: Any, amount: int) -> int:
    """Add to a[0] of an array of int64, in one step for all threads; returns what it was."""
    with _uncompiled:
        before = int(a[0])
        a[0] = before + amount
    return before


replace(fetch_add, _fetch_add)
