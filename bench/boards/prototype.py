"""The prototype of boards behind the same calls as our kernels.

It is a sketch in one module, `rangetopk.py`, over static arrays. It is imported as it is, given the same objects,
subscriptions and events, and timed by loops like ours.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit

from bench import prototypes
from bench.boards.workload import World, make_ranges, new_y

MODULE = "rangetopk"

GATHER_RAISING, GATHER_LOWERING = 32, 128
"""So few subscriptions left in the square make the prototype's fastest Paint-Sparse go on with a list of them."""


class Prototype:
    """The prototype's kernels behind the same calls as ours. `objects` and `ranges` make its first state."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        dense, sparse = module.paint_dense, module.paint_sparse
        hybrid, unicast = module.paint_sparse_hybrid, module.unicast

        @njit(nogil=True)
        def run_dense(o: Any, events: Any, n: int, model: int, k: int, w: Any) -> int:
            made = 0
            for e in range(events.shape[0]):
                i = int(events[e, 0] * n)
                made += dense(o, i, new_y(o.y[i], events[e, 1], events[e, 2], model), k, 1, w)
            return made

        @njit(nogil=True)
        def run_sparse(o: Any, kd: Any, events: Any, n: int, model: int, k: int, w: Any) -> int:
            made = 0
            for e in range(events.shape[0]):
                i = int(events[e, 0] * n)
                made += sparse(o, kd, i, new_y(o.y[i], events[e, 1], events[e, 2], model), k, 1, w)
            return made

        @njit(nogil=True)  # nine arguments: those of the prototype
        def run_hybrid(o: Any, kd: Any, events: Any, n: int, model: int, k: int, w: Any, few: int, many: int) -> int:
            made = 0
            for e in range(events.shape[0]):
                i = int(events[e, 0] * n)
                made += hybrid(o, kd, i, new_y(o.y[i], events[e, 1], events[e, 2], model), k, w, few, many)
            return made

        @njit(nogil=True)
        def run_unicast(o: Any, kd: Any, events: Any, n: int, model: int, k: int, w: Any, out: Any) -> int:
            notified = 0
            for e in range(events.shape[0]):
                i = int(events[e, 0] * n)
                y = new_y(o.y[i], events[e, 1], events[e, 2], model)
                notified += unicast(o, kd, n, i, y, k, w, out[0], out[1], out[2], out[3], 1)
            return notified

        self._dense, self._sparse, self._hybrid, self._unicast = run_dense, run_sparse, run_hybrid, run_unicast

    def objects(self, world: World, k: int) -> tuple[Any, Any]:
        """Its object index in the world's first state, and its scratch."""
        o = self._module.build_obj(world.x, world.y)
        return o, self._module.make_work(o, k)

    def ranges(self, m: int) -> Any:
        """Its subscription index."""
        return self._module.build_kd(*make_ranges(m))

    def paint_dense(self, state: Any, world: World, events: Any, model: int, k: int) -> int:
        return int(self._dense(state[0], events, len(world.x), model, k, state[1]))

    def paint_sparse(self, state: Any, kd: Any, world: World, events: Any, model: int, k: int) -> int:
        return int(self._sparse(state[0], kd, events, len(world.x), model, k, state[1]))

    def paint_hybrid(self, state: Any, kd: Any, world: World, events: Any, model: int, k: int) -> int:
        few, many = GATHER_RAISING, GATHER_LOWERING
        return int(self._hybrid(state[0], kd, events, len(world.x), model, k, state[1], few, many))

    def unicast(self, state: Any, kd: Any, world: World, events: Any, model: int, k: int, buffers: Any) -> int:
        return int(self._unicast(state[0], kd, events, len(world.x), model, k, state[1], buffers))


def load(named: Path | None) -> Prototype | None:
    """The prototype, None where it does not exist."""
    found = prototypes.load(prototypes.BOARDS, named, MODULE)
    return Prototype(found[0]) if found else None
