"""Commands for one board."""

from __future__ import annotations

import numpy as np

from indexes.boards.commands import UPSERT, Events
from indexes.boards.config import BoardConfig

CONFIG = BoardConfig(("x",), "y", ks=(2,))


def upsert(*objects: tuple[str, float, float], op: int = UPSERT) -> Events:
    ids, x, y = zip(*objects, strict=True)
    return Events(np.full(len(ids), op, np.uint8), list(ids), np.array(x), np.array(y))


def many(n: int, start: int = 0) -> Events:
    rng = np.random.default_rng(start)
    ids = [f"o{i}" for i in range(start, start + n)]
    return Events(np.zeros(n, np.uint8), ids, rng.random(n), rng.random(n))
