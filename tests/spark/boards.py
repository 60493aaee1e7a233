"""Boards at rest with few different values, and snapshots of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from formats.boards import read_state, write_image, write_state
from formats.folder import Folder
from indexes.boards.config import BoardConfig
from indexes.boards.regions import ranges
from indexes.boards.state import BoardState, ObjectColumns, SubscriptionColumns, pack_board
from indexes.core.ids import pack

LSN = 12
NONE = np.empty(0, np.int32)


def make(
    seed: int, objects: int, counts: dict[int, int], order: Literal["asc", "desc"] = "desc", grid: int = 40
) -> BoardState:
    """A board with so many subscriptions by k. All values lie on a grid, some ends of ranges beyond all bounds."""
    rng = np.random.default_rng(seed)
    size = sum(counts.values())
    sid = rng.permutation(2 * size)[:size].astype(np.int32)
    both = np.sort(rng.integers(-grid, grid + 1, (size, 2)), axis=1).astype(np.float64)
    l = np.where(rng.random(size) < 0.1, -np.inf, both[:, 0])
    r = np.where(rng.random(size) < 0.1, np.inf, both[:, 1])
    l[rng.random(size) < 0.01] = np.inf
    r[rng.random(size) < 0.01] = -np.inf
    l[l == 0.0] *= -1.0
    k = rng.permutation(np.repeat(np.array(list(counts), np.int32), list(counts.values())))
    x = rng.integers(-grid, grid + 1, objects) * rng.choice([-1.0, 1.0], objects)
    return BoardState(
        BoardConfig(("x",), "y", order, tuple(counts)),
        9,
        2 * objects,
        objects,
        2 * size,
        NONE,
        NONE,
        ObjectColumns(
            np.arange(objects, dtype=np.int32),
            [f"o{i}" for i in range(objects)],
            x,
            rng.integers(-grid, grid + 1, objects) / 2,
            rng.permutation(2 * objects)[:objects],
            [None] * objects,
        ),
        SubscriptionColumns(
            pack(pa.array([f"s{i}" for i in range(size)], pa.string()), sid),
            ranges(l, r),
            k,
            np.full(size, np.nan),
            rng.integers(0, k).astype(np.int32),
        ),
    )


def snapshot(root: Path, states: dict[str, BoardState]) -> None:
    """Write a snapshot of these boards below a storage root."""
    draft = (Folder.at(root) / "snapshots" / str(LSN)).draft()
    about = {f"boards/{name}": write_state(draft, name, state) for name, state in states.items()}
    draft.publish({"kind": "snapshot", "lsn": LSN, "epoch": "e", "created": "now", "resources": about, "gone": {}})


def packed_here(root: Path, name: str, target: Path) -> None:
    """Write the image of a board of that snapshot as the service itself does."""
    folder = Folder.at(root) / "snapshots" / str(LSN)
    resource = f"boards/{name}"
    state = read_state(folder, name, folder.manifest()["resources"][resource])
    write_image(Folder.at(target), resource, LSN, pack_board(state))


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
