"""The log's codec, as far as all kinds of resource share it: what a row holds, and how a long command is cut into rows.

A command is one msgpack map; one with more than `PART` elements is cut into Arrow IPC streams of that many rows each,
all but the last with a "+" behind the name. Columns of numbers are little-endian bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgpack
import numpy as np
import pyarrow as pa

T = TypeVar("T")

PART = 50_000

MORE = "+"

ARROW = ".arrow"
"""How the names of commands end whose rows are Arrow."""


class Part(NamedTuple):
    """One row of the log: the name of the command, how many elements it holds, and its payload."""

    name: str
    size: int
    payload: bytes


class Damaged(Exception):
    """A row of the log that cannot be read as a command."""


UNREADABLE = (ValueError, KeyError, TypeError, pa.ArrowException, msgpack.UnpackException)
"""What reading a payload that is no command raises."""


def small(name: str, count: int, fields: dict[str, Any]) -> Part:
    """A command as one row; `count` is the number of seqs it takes."""
    return Part(name, count, msgpack.packb(fields))


def fields_of(payload: bytes) -> dict[str, Any]:
    """What `small` was given."""
    fields: dict[str, Any] = msgpack.unpackb(payload, strict_map_key=False)
    return fields


def cut(name: str, table: pa.Table) -> Iterator[Part]:
    """A long command as rows of `PART` elements each. Its name ends in `ARROW`."""
    for start in range(0, len(table), PART):
        piece = table.slice(start, PART)
        last = start + PART >= len(table)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_table(piece)
        yield Part(name if last else name + MORE, len(piece), sink.getvalue().to_pybytes())


def joined(payloads: Sequence[bytes]) -> pa.Table:
    """What `cut` was given."""
    return pa.concat_tables([pa.ipc.open_stream(payload).read_all() for payload in payloads]).combine_chunks()


def decoded(
    parts: list[tuple[str, bytes]],
    of_table: Callable[[str, pa.Table], T],
    of_fields: Callable[[str, dict[str, Any]], T],
) -> T:
    """The command whose rows these are, in order, by its name and what `cut` or `small` were given.

    Raises:
        Damaged: there is no such command, or it cannot be read.
    """
    name = parts[0][0].removesuffix(MORE)
    try:
        if name.endswith(ARROW):
            return of_table(name, joined([payload for _, payload in parts]))
        return of_fields(name, fields_of(parts[0][1]))
    except UNREADABLE as error:
        raise Damaged(f"a {name} command in the log cannot be read: {error}") from error


def bytes_of(column: np.ndarray[Any, Any]) -> bytes:
    """A column of numbers as it is logged."""
    return column.astype("<f8" if column.dtype == np.float64 else column.dtype, copy=False).tobytes()


def floats_of(column: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A logged column of floats."""
    return np.frombuffer(column, "<f8").astype(np.float64)


def integers_of(column: bytes) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A logged column of integers."""
    return np.frombuffer(column, "<i4").astype(np.int32)


def matrix(column: np.ndarray[Any, Any]) -> pa.FixedSizeListArray:
    """A matrix as a column of rows."""
    return pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(column).ravel(), column.shape[1])


def matrix_of(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """What `matrix` was given."""
    flat: np.ndarray[Any, Any] = one_array(table[name]).flatten().to_numpy()
    return flat.reshape(len(table), table.schema.field(name).type.list_size).copy()


def sparse(values: Mapping[int, Any], n: int, kind: pa.DataType) -> pa.Array:
    """Values by place as a column of n."""
    return pa.array([values.get(i) for i in range(n)], kind) if values else pa.nulls(n, kind)


def given(column: pa.ChunkedArray) -> dict[int, Any]:
    """The values of a column by place, without those that are null."""
    places = np.flatnonzero(column.is_valid().to_numpy())
    return dict(zip(places.tolist(), column.take(pa.array(places)).to_pylist(), strict=True))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
