"""States of boards, and files that are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

from formats.folder import Folder
from indexes.boards.config import BoardConfig
from indexes.boards.regions import ranges
from indexes.boards.state import BoardState, ObjectColumns, SubscriptionColumns
from indexes.core.ids import pack


def a_state(n: int = 40, m: int = 90) -> BoardState:
    rng = np.random.default_rng(3)
    both = np.sort(rng.random((m, 2)))
    return BoardState(
        BoardConfig(("x",), "y", "desc", (3, 4, 7)),
        n + m,
        n,
        n + 1,
        m + 2,
        np.array([n], np.int32),
        np.array([m + 1, m], np.int32),
        ObjectColumns(
            np.arange(n, dtype=np.int32),
            [f"o{i}" for i in range(n)],
            rng.random(n),
            rng.random(n),
            np.arange(n),
            [None if i % 3 else f'{{"n":{i}}}'.encode() for i in range(n)],
        ),
        SubscriptionColumns(
            pack(pa.array([f"s{i}" for i in range(m)]), np.arange(m, dtype=np.int32)),
            ranges(*both.T),
            rng.choice(np.array([3, 7], np.int32), m),
            np.full(m, np.nan),
            rng.integers(0, 3, m).astype(np.int32),
        ),
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def elsewhere(path: Path) -> Folder:
    """A folder of a filesystem that is not the local one, as far as anyone can tell."""
    path.mkdir(parents=True, exist_ok=True)
    return Folder(fs.SubTreeFileSystem(str(path), fs.LocalFileSystem()), "root")


def harm(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
        return
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    harmed: dict[str, bytes] = {"cut": bytes(data[: len(data) // 2]), "empty": b"", "another": b"PK\x03\x04 foreign"}
    path.write_bytes(harmed.get(damage, bytes(data)))
