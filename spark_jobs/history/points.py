"""Trajectories in columns: their types, their validation, and their schema in Spark.

`client` is a string or an integer, `t` a number or a timestamp, `x` and `y` are coordinates of the map. Other columns
are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import fs, types

from spark_jobs.history.slices import Slice, read

COLUMNS = ("client", "t", "x", "y")

LARGEST = 1e300
"""The greatest absolute value in requests."""

ENDS = {"x": 180.0, "y": 90.0}
"""The greatest longitude and latitude."""

SLICE = 32
"""The first bit of the slice's number in that of a row."""


class PointError(ValueError):
    """Invalid trajectories; the message names the file and the column."""


class Types(NamedTuple):
    """The types of `client` and `t` in the result."""

    client: pa.DataType
    t: pa.DataType

    @property
    def spark(self) -> str:
        """The columns in Spark; `row` counts slice by slice."""
        client = "long" if types.is_integer(self.client) else "string"
        return f"client {client}, t {'double' if types.is_floating(self.t) else 'long'}, row long, x double, y double"


def types_of(file: str, schema: pa.Schema) -> Types:
    """The types of the columns of a file. Raises PointError if one is missing, or of another type."""
    for name in COLUMNS:
        if len(schema.get_all_field_indices(name)) != 1:
            several = name in schema.names
            raise PointError(f"{file} has {'several columns' if several else 'no column'} {name}")
    kinds = {name: schema.field(name).type for name in COLUMNS}
    client = kinds["client"].value_type if types.is_dictionary(kinds["client"]) else kinds["client"]
    texts = types.is_string(client) or types.is_large_string(client)
    due = {
        "client": ("texts or whole numbers", texts or (types.is_integer(client) and not types.is_uint64(client))),
        "t": ("numbers or timestamps", _is_number(kinds["t"]) or types.is_timestamp(kinds["t"])),
        "x": ("numbers", _is_number(kinds["x"])),
        "y": ("numbers", _is_number(kinds["y"])),
    }
    for name, (what, is_so) in due.items():
        if not is_so:
            raise PointError(f"{file}: the column {name} must be of {what}, not {kinds[name]}")
    return Types(client, kinds["t"])


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind))


def read_points(
    batches: Iterator[pa.RecordBatch], system: fs.FileSystem, slices: list[Slice], on_sphere: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of the slices with the numbers in `batches`, as `Types.spark`. Raises PointError for an invalid one."""
    for batch in batches:
        for number in batch["id"].to_pylist():
            piece = slices[number]
            table = read(system, piece, list(COLUMNS))
            kinds = types_of(piece[0], table.schema)
            _check(piece, table, on_sphere)
            row = (number << SLICE) + np.arange(len(table))
            client = table["client"].cast(pa.int64() if types.is_integer(kinds.client) else pa.string())
            t = table["t"].cast(pa.float64() if types.is_floating(kinds.t) else pa.int64())
            x, y = (table[name].cast(pa.float64(), safe=False) for name in ("x", "y"))
            yield from pa.table({"client": client, "t": t, "row": row, "x": x, "y": y}).to_batches()


def _check(piece: Slice, table: pa.Table, on_sphere: bool) -> None:
    """Raise PointError for the first invalid row."""
    file, *_, first = piece
    for name in COLUMNS:
        column = table[name]
        if column.null_count:
            row = int(np.flatnonzero(~column.is_valid().to_numpy())[0])
            raise PointError(f"{file}: {name} of row {first + row} is null")
        if name == "client" or (not types.is_floating(column.type) and name == "t"):
            continue
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        most = ENDS[name] if on_sphere and name in ENDS else LARGEST
        for row in np.flatnonzero(~(np.abs(numbers) <= most))[:1].tolist():
            raise PointError(
                f"{file}: {name} of row {first + row} is {numbers[row]} and must be at most {most:g} in size"
            )
