"""Relays at rest with equal boxes and shared ends, and snapshots of them."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formats.folder import Folder
from formats.parts import write_image
from formats.relays import read_state, write_state
from indexes.relays.commands import AddSubscriptions, DeleteSubscriptions
from indexes.relays.config import Link, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.state import State, packed_of
from tests.spark.boards import LSN
from tests.unit.relays.helpers import state

Float64 = npt.NDArray[np.float64]

NAMES = ("price", "volume")
LINKS = {name: Link(f"http://{name}.example", "market", "here") for name in ("west", "north")}


def boxes(seed: int, n: int, d: int, grid: int = 12) -> tuple[Float64, Float64]:
    """Boxes on a grid, larger ones among the younger; some ends are unbounded."""
    rng = np.random.default_rng(seed)
    lo = rng.integers(-grid, grid + 1, (n, d)).astype(np.float64)
    hi = lo + rng.integers(0, 2 + np.arange(n)[:, None] * grid // max(1, n), (n, d))
    return np.where(rng.random((n, d)) < 0.03, -inf, lo), np.where(rng.random((n, d)) < 0.03, inf, hi)


def make(seed: int, n: int, config: RelayConfig) -> State:
    """A relay of which n subscriptions are left and as many have gone. Some came over links."""
    rng, made = np.random.default_rng(seed), RelayEngine(config)
    keys = [f"s{i}" for i in rng.permutation(2 * n)]
    link = pa.array(rng.choice(np.array([None, *config.links], object), 2 * n), pa.string())
    made.apply(AddSubscriptions(pa.array(keys, pa.string()), *boxes(seed, 2 * n, len(config.attributes)), link))
    made.apply(DeleteSubscriptions(keys[::2]))
    return state(made)


def snapshot(root: Path, states: dict[str, State]) -> dict[str, dict[str, Any]]:
    """Write a snapshot of these relays below a storage root; returns what its manifest says of each."""
    draft = (Folder.at(root) / "snapshots" / str(LSN)).draft()
    about = {f"relays/{name}": write_state(draft, name, one) for name, one in states.items()}
    draft.publish({"kind": "snapshot", "lsn": LSN, "epoch": "e", "created": "now", "resources": about, "gone": {}})
    return about


def packed_here(root: Path, name: str, target: Path, lsn: int = LSN) -> State:
    """Write the image of a relay of a snapshot as the service itself does; returns its state."""
    folder = Folder.at(root) / "snapshots" / str(lsn)
    resource = f"relays/{name}"
    one = read_state(folder, name, folder.manifest()["resources"][resource])
    write_image(Folder.at(target), resource, lsn, packed_of(one))
    return one
