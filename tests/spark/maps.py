"""Maps at rest with ties, equal places and negative zeros, and snapshots of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from formats.folder import Folder
from formats.maps import read_state, write_state
from formats.parts import write_image
from indexes.core.ids import pack
from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig
from indexes.maps.packing import pack_index
from indexes.maps.state import MapState, tree_of
from tests.spark.boards import LSN

FOOD = MapConfig((Attribute("price", False, (0.0, 4.0)), Attribute("rating", True, (0.0, 5.0))), (0.0, 0.0, 8.0, 8.0))


def make(seed: int, n: int, config: MapConfig, grid: int = 8) -> MapState:
    """A map of n objects, half of them on a grid, whose ids are not in order of age and some of which have payloads."""
    rng = np.random.default_rng(seed)
    points = np.where(rng.random((n, 1)) < 0.5, rng.integers(0, grid, (n, 2)), rng.random((n, 2)) * grid)
    values = rng.integers(0, 5, (n, len(config.attributes))).astype(float)
    statics = values * [-1.0 if attribute.high else 1.0 for attribute in config.attributes] + 0.0
    ids = pack(pa.array([f"o{i}" for i in range(n)], pa.string()), rng.permutation(n).astype(np.int32))
    created = np.sort(rng.permutation(2 * n)[:n])
    payloads = dict.fromkeys(range(0, n, 7), b'{"open":true}')
    nobody = pack(pa.array([], pa.string()), np.empty(0, np.int32))
    return MapState(config, 3 * n, 2 * n, ids, points + 0.0, statics, created, payloads, nobody, [], [], np.empty(0))


def ids_of(state: MapState) -> list[str]:
    """The ids of a map's objects in order of age."""
    text, offset, rows = state.ids
    found = {row: text[offset[i] : offset[i + 1]].tobytes().decode() for i, row in enumerate(rows.tolist())}
    return [found[row] for row in range(len(found))]


def snapshot(root: Path, states: dict[str, MapState]) -> dict[str, dict[str, Any]]:
    """Write a snapshot of these maps below a storage root; returns what its manifest says of each."""
    draft = (Folder.at(root) / "snapshots" / str(LSN)).draft()
    about = {f"maps/{name}": write_state(draft, name, state) for name, state in states.items()}
    draft.publish({"kind": "snapshot", "lsn": LSN, "epoch": "e", "created": "now", "resources": about, "gone": {}})
    return about


def packed_here(root: Path, name: str, target: Path) -> None:
    """Write the image of a map of that snapshot as the service itself does."""
    folder = Folder.at(root) / "snapshots" / str(LSN)
    resource = f"maps/{name}"
    state = read_state(folder, name, folder.manifest()["resources"][resource])
    write_image(Folder.at(target), resource, LSN, pack_index(tree_of(state)))
