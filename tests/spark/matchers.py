"""Matchers at rest with ties and shared ends, and snapshots of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from formats.folder import Folder
from formats.matchers import read_state, write_state
from formats.parts import write_image
from indexes.core.ids import pack
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.packing import pack_indexes
from indexes.matchers.state import MatcherState, indexes_of
from tests.spark.boards import LSN

NAMES = ("age", "credit", "zip")


def make(seed: int, n: int, config: MatcherConfig, grid: int = 12) -> MatcherState:
    """A matcher of n subscriptions on a grid, with short intervals on a finer one in the first dimension.

    Some ends are unbounded, and ids are not in order of age.
    """
    rng = np.random.default_rng(seed)
    shape = n, len(config.dimensions)
    ends = np.sort(rng.integers(-grid, grid + 1, (2, *shape)), axis=0).astype(np.float64)
    ends[0, :, 0] += rng.integers(0, 16, n) / 16
    ends[1, :, 0] = ends[0, :, 0] + rng.integers(0, 2, n) / 16
    open_ = np.where(np.arange(shape[1]), 0.1, 0.003)
    lo = np.where(rng.random(shape) < open_, -np.inf, ends[0])
    hi = np.where(rng.random(shape) < open_, np.inf, ends[1])
    scores = rng.integers(0, 4, (n, config.scores)) / 2
    if config.relaxed:
        absent = rng.random(shape) < 0.2
        absent[:, 0] = False
        lo, hi, scores = np.where(absent, np.inf, lo), np.where(absent, -np.inf, hi), np.where(absent, 0.0, scores)
    ids = pack(pa.array([f"s{i}" for i in range(n)], pa.string()), rng.permutation(n).astype(np.int32))
    ttl = np.where(rng.random(n) < 0.1, 60.0, np.nan)
    return MatcherState(config, 2 * n, ids, Subscriptions(lo, hi, scores), ttl)


def snapshot(root: Path, states: dict[str, MatcherState]) -> dict[str, dict[str, Any]]:
    """Write a snapshot of these matchers below a storage root; returns what its manifest says of each."""
    draft = (Folder.at(root) / "snapshots" / str(LSN)).draft()
    about = {f"matchers/{name}": write_state(draft, name, state) for name, state in states.items()}
    draft.publish({"kind": "snapshot", "lsn": LSN, "epoch": "e", "created": "now", "resources": about, "gone": {}})
    return about


def packed_here(root: Path, name: str, target: Path) -> None:
    """Write the image of a matcher of that snapshot as the service itself does."""
    folder = Folder.at(root) / "snapshots" / str(LSN)
    resource = f"matchers/{name}"
    state = read_state(folder, name, folder.manifest()["resources"][resource])
    write_image(Folder.at(target), resource, LSN, pack_indexes(indexes_of(state)))
