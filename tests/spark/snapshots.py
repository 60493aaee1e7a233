"""Snapshots and audits written by hand, and the true lists by sorting and scanning."""

from __future__ import annotations

import random
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from formats.folder import Folder

LSN = 12

OBJECTS = pa.schema(
    [
        ("row", pa.int32()), ("id", pa.string()), ("x", pa.float64()), ("y", pa.float64()), ("created", pa.int64()),
        ("payload", pa.binary()),
    ]
)  # fmt: skip
SUBSCRIPTIONS = pa.schema(
    [
        ("sid", pa.int32()), ("id", pa.string()), ("l", pa.float64()), ("r", pa.float64()), ("k", pa.int32()),
        ("ttl", pa.float64()),
    ]
)  # fmt: skip
LISTS = pa.schema([("sid", pa.int32()), ("rows", pa.list_(pa.int32()))])


class World:
    """A board: objects and subscriptions as rows of their files, and its order."""

    def __init__(self, order: str, objects: list[dict[str, Any]], subscriptions: list[dict[str, Any]]) -> None:
        self.order = order
        self.objects = objects
        self.subscriptions = subscriptions

    def best(self, subscription: dict[str, Any]) -> list[int]:
        """The rows of the objects in its true list."""
        sign = -1 if self.order == "desc" else 1
        inside = [one for one in self.objects if subscription["l"] <= one["x"] <= subscription["r"]]
        inside.sort(key=lambda one: (sign * one["y"], one["created"]))
        return [one["row"] for one in inside[: subscription["k"]]]

    def lists(self) -> list[dict[str, Any]]:
        """The rows of a true lists.parquet."""
        return [{"sid": one["sid"], "rows": self.best(one)} for one in self.subscriptions]

    def ids(self, rows: list[int]) -> list[str]:
        names = {one["row"]: one["id"] for one in self.objects}
        return [names[row] for row in rows]

    def write(self, root: Path, name: str = "delays", lists: list[dict[str, Any]] | None = None) -> Path:
        """The snapshot and the audit below `root`, with these lists or the true ones. Returns the board's audit."""
        resource = f"boards/{name}"
        about = {
            "seq": 7, "config": {"order": self.order, "ks": sorted({one["k"] for one in self.subscriptions})},
            "objects": len(self.objects), "subscriptions": len(self.subscriptions),
        }  # fmt: skip
        snapshot = {"objects": (OBJECTS, self.objects), "subscriptions": (SUBSCRIPTIONS, self.subscriptions)}
        audit = {"lists": (LISTS, self.lists() if lists is None else lists)}
        for kind, files in (("snapshot", snapshot), ("audit", audit)):
            draft = (Folder.at(root) / f"{kind}s" / str(LSN)).draft()
            for file, (schema, rows) in files.items():
                with draft.file(f"{resource}/{file}.parquet", rows=len(rows)) as out:
                    pq.write_table(pa.Table.from_pylist(rows, schema), out)
            draft.publish({"kind": kind, "lsn": LSN, "resources": {resource: about}})
        return root / "audits" / str(LSN) / resource


def make(order: str = "asc") -> World:
    """Twelve objects, with shared x and y, in rows with gaps; forty subscriptions, with unbounded and empty ranges."""
    rng = random.Random(3)
    objects = [
        {"row": 3 * i + 2, "id": f"o{i}", "x": float(rng.randrange(5)), "y": float(rng.randrange(4)), "created": 50 - i}
        for i in range(12)
    ]
    ends = [sorted((rng.choice([-inf, 0.0, 1.5, 2.0]), rng.choice([2.0, 3.5, 4.0, inf]))) for _ in range(38)]
    ends += [[7.0, 9.0], [-inf, inf]]
    subscriptions = [
        {"sid": i, "id": f"s{i}", "l": l, "r": r, "k": rng.choice([1, 2, 5, 100])} for i, (l, r) in enumerate(ends)
    ]
    return World(order, objects, subscriptions)
