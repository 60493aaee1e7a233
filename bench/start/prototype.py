"""What the prototype's kernels take to compile: the yardstick of ours. Run as ``python -m bench.start.prototype``.

The job on its input names the folder; `NUMBA_CACHE_DIR` has to be an empty one. Nothing of ours is imported, so the
process takes what numba and compiling take.
"""

from __future__ import annotations

import importlib
import json
import sys
from types import ModuleType
from typing import Any

import numpy as np

MODULE = "rangetopk"


def compile_all(module: ModuleType) -> None:
    """Call once, on a small world, what the prototype's own tests call: 61 specialisations."""
    rng = np.random.default_rng(0)
    n, m, k = 64, 400, 3
    ends = np.sort(rng.random((m, 2)), 1)
    kd = module.build_kd(ends[:, 0], ends[:, 1])
    o = module.build_obj(np.sort(rng.random(n)), rng.random(n))
    w, heap = module.make_work(o, k), module.make_heap()
    found = np.empty(m), np.empty(m), np.empty(m, np.int32), np.empty(m, np.int64)

    def somewhere() -> tuple[int, float]:
        return int(rng.integers(n)), float(rng.random())

    module.set_y(o, *somewhere())
    module.min_y(o, 0, n - 1, 0.5)
    module.paint_dense(o, *somewhere(), k, 1, w)
    module.paint_dense_miny(o, *somewhere(), k, w)
    module.paint_dense_heap(o, *somewhere(), k, w, heap)
    module.paint_sparse(o, kd, *somewhere(), k, 1, w)
    module.paint_sparse_local(o, kd, *somewhere(), k, w, 1024)
    module.paint_sparse_hybrid(o, kd, *somewhere(), k, w, 32, 128)
    module.unicast(o, kd, n, *somewhere(), k, w, *found, 1)
    module.unicast_tiles(o, kd, *somewhere(), k, w, *found)
    for query in (module.snap, module.exists, module.count):
        query(kd, 0.1, 0.4, 0.6, 0.9)


def specialisations(module: ModuleType) -> int:
    """How many compiled functions there are."""
    return sum(len(getattr(one, "signatures", ())) for one in vars(module).values())


def main() -> None:
    job: dict[str, Any] = json.load(sys.stdin)
    sys.path.insert(0, job["folder"])
    module = importlib.import_module(MODULE)
    compile_all(module)
    json.dump({"specialisations": specialisations(module)}, sys.stdout)


if __name__ == "__main__":
    main()
