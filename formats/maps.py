"""A map on disk: its part of a snapshot, two Parquet files; its image is parts (`formats.parts`).

A snapshot holds what the map is (`MapState`), objects and queries each in order of id; `docs/operations.md` names the
columns. An image holds its objects packed afresh, column by column as kernels take them, so that it is mapped into
memory as it is.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formats.columns import joined, read_table, strings, write_table
from formats.folder import Damaged, Draft, Folder
from formats.map_fields import config_fields, config_of, question_fields, question_of
from indexes.core.ids import Packed
from indexes.maps.config import MapConfig
from indexes.maps.state import MapState

RESOURCE = "maps/"

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

QUERIES = pa.schema(
    [
        pa.field("id", pa.large_string(), nullable=False),
        pa.field("question", pa.binary(), nullable=False),
        pa.field("x", pa.float64(), nullable=False),
        pa.field("y", pa.float64(), nullable=False),
        pa.field("ttl", pa.float64()),
    ]
)
"""Standing queries: `question` is msgpack, (`x`, `y`) where the client is, `ttl` in seconds."""


def object_schema(config: MapConfig) -> pa.Schema:
    """The columns of objects: `row` counts by age, `value<j>` is attribute j, counted from 0, with the user's sign."""
    return pa.schema(
        [
            pa.field("row", pa.int32(), nullable=False),
            pa.field("id", pa.large_string(), nullable=False),
            *(pa.field(name, pa.float64(), nullable=False) for name in place_names(config)),
            pa.field("created", pa.int64(), nullable=False),
            pa.field("payload", pa.binary()),
        ]
    )


def place_names(config: MapConfig) -> list[str]:
    """The names of the columns of places and values."""
    return ["x", "y", *(f"value{j}" for j in range(len(config.attributes)))]


def write_state(draft: Draft, name: str, state: MapState) -> dict[str, Any]:
    """Write a map's part of a snapshot; returns its entry in the manifest."""
    row = state.ids.row
    values = state.statics[row] * _signs(state.config) + 0.0
    payloads = pa.array([state.payloads.get(i) for i in row.tolist()], pa.binary()) if state.payloads else None
    objects = [
        row,
        strings(state.ids),
        *state.points[row].T,
        *values.T,
        state.created[row],
        payloads if payloads is not None else pa.nulls(len(row), pa.binary()),
    ]
    write_table(draft, objects_at(name), object_schema(state.config), objects)
    x, y = np.array(state.at, np.float64).reshape(-1, 2).T
    queries = [
        strings(state.query_ids),
        pa.array([msgpack.packb(question_fields(question)) for question in state.questions], pa.binary()),
        x,
        y,
        pa.array(state.ttl, pa.float64(), mask=np.isnan(state.ttl)),
    ]
    write_table(draft, queries_at(name), QUERIES, queries)
    return {
        "seq": state.seq,
        "config": config_fields(state.config),
        "objects": len(row),
        "queries": len(state.questions),
        "next_created": state.next_created,
    }


def read_state(folder: Folder, name: str, about: dict[str, Any]) -> MapState:
    """Read a map's part of a snapshot; `about` is its entry in the manifest. Raises `Damaged`."""
    config = config_of(about["config"])
    table = read_table(folder, objects_at(name), object_schema(config))
    by_age = _by_age(folder, name, table, about)
    points, statics = _places(config, table, by_age)
    queries = read_table(folder, queries_at(name), QUERIES)
    n = len(queries)
    if n != about["queries"]:
        raise Damaged(f"{folder}/{queries_at(name)} holds other numbers of rows than its manifest says")
    row = table["row"].to_numpy().copy()
    present = np.flatnonzero(table["payload"].is_valid().to_numpy())
    payloads = table["payload"].take(pa.array(present)).to_pylist()
    asked: dict[bytes, Any] = {}
    for one in queries["question"].to_pylist():
        if one not in asked:
            try:
                asked[one] = question_of(msgpack.unpackb(one))
            except (ValueError, KeyError, TypeError, msgpack.UnpackException) as error:
                raise Damaged(f"{folder}/{queries_at(name)} holds a question that cannot be read: {error}") from error
    return MapState(
        config,
        about["seq"],
        about["next_created"],
        Packed(*joined(table["id"]), row),
        points,
        statics,
        table["created"].to_numpy()[by_age],
        dict(zip(row[present].tolist(), payloads, strict=True)),
        Packed(*joined(queries["id"]), np.arange(n, dtype=np.int32)),
        [asked[one] for one in queries["question"].to_pylist()],
        list(zip(queries["x"].to_pylist(), queries["y"].to_pylist(), strict=True)),
        queries["ttl"].to_numpy().copy(),
    )


def read_places(folder: Folder, name: str, about: dict[str, Any]) -> tuple[Float64, Float64]:
    """Where the objects of a snapshot are, (n, 2), and their values, (n, d), smaller being better, in order of age; of
    the file nothing else is read. Raises `Damaged`."""
    config = config_of(about["config"])
    schema = object_schema(config)
    some = pa.schema([schema.field(key) for key in ("row", *place_names(config))])
    table = read_table(folder, objects_at(name), some, only=True)
    return _places(config, table, _by_age(folder, name, table, about))


def read_names(folder: Folder, name: str, about: dict[str, Any]) -> tuple[pa.LargeStringArray, Int64]:
    """The ids of the objects of a snapshot, and their order of creation, in order of age; of the file nothing else is
    read. Raises `Damaged`."""
    schema = object_schema(config_of(about["config"]))
    some = pa.schema([schema.field(key) for key in ("row", "id", "created")])
    table = read_table(folder, objects_at(name), some, only=True)
    by_age = _by_age(folder, name, table, about)
    return table["id"].combine_chunks().take(pa.array(by_age)), table["created"].to_numpy()[by_age]


def objects_at(name: str) -> str:
    """The path in a snapshot of the objects of a map."""
    return f"{RESOURCE}{name}/objects.parquet"


def queries_at(name: str) -> str:
    """The path in a snapshot of the standing queries of a map."""
    return f"{RESOURCE}{name}/queries.parquet"


def _places(config: MapConfig, table: pa.Table, by_age: npt.NDArray[np.int64]) -> tuple[Float64, Float64]:
    columns = np.column_stack([table[key].to_numpy() for key in place_names(config)])[by_age]
    return columns[:, :2].copy(), columns[:, 2:] * _signs(config) + 0.0


def _signs(config: MapConfig) -> Float64:
    return np.array([-1.0 if attribute.high else 1.0 for attribute in config.attributes])


def _by_age(folder: Folder, name: str, table: pa.Table, about: dict[str, Any]) -> npt.NDArray[np.int64]:
    """The places of objects in order of age. Raises `Damaged`."""
    rows, n = table["row"].to_numpy(), about["objects"]
    by_age = np.argsort(rows)
    if not np.array_equal(rows[by_age], np.arange(n)):
        raise Damaged(f"{folder}/{objects_at(name)} holds other rows than its manifest says")
    return by_age
