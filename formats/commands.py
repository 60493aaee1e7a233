"""The codec of the log that all resource types share: the content of a row, and long commands in several rows.

A command is one msgpack map; one with more than `PART` elements is cut into Arrow IPC streams of that many rows each,
all but the last with a "+" behind the name. Columns of numbers are little-endian bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgpack
import numpy as np
import pyarrow as pa

from formats.checked_arrow import check
from indexes.core.commands import Create, Drop

T = TypeVar("T")
C = TypeVar("C")

PART = 50_000

_FLOATS = np.dtype("<f8")

MORE = "+"

ARROW = ".arrow"
"""Suffix of the names of commands whose rows are Arrow."""


class Part(NamedTuple):
    """One row of the log: the name of the command, how many elements it holds, and its payload."""

    name: str
    size: int
    payload: bytes


class Damaged(Exception):
    """A row of the log that cannot be read as a command."""


UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    OSError,  # pyarrow's, for what is no stream of Arrow
    pa.ArrowException,
    msgpack.UnpackException,
)
"""Exceptions of reading a payload that is no command."""


def small(name: str, count: int, fields: dict[str, Any]) -> Part:
    """A command as one row; `count` is the number of seqs it takes."""
    # `msgpack.packb` passes its options on by two more calls, which most small writes would pay for.
    return Part(name, count, msgpack.Packer().pack(fields))


def fields_of(payload: bytes) -> dict[str, Any]:
    """The inverse of `small`."""
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
    """The inverse of `cut`. Its columns are valid, so that none is read past its end."""
    pieces = [pa.ipc.open_stream(payload).read_all() for payload in payloads]
    for piece in pieces:
        for batch in piece.to_batches():
            check(batch)
    return pa.concat_tables(pieces).combine_chunks()


def encoded(
    command: Any,
    count: int,
    table: tuple[str, pa.Table] | None,
    fields_of: Callable[[Any], tuple[str, dict[str, Any]]],
    config_fields: Callable[[Any], dict[str, Any]],
) -> Iterator[Part]:
    """A command as rows of the log: its `table`, under its name, if it is a long one, else its fields.

    `count` is the number of seqs it takes. Creation and deletion of the resource are the same for all types.
    """
    match command:
        case Create():
            name, fields = "create", config_fields(command.config)
        case Drop():
            name, fields = "drop", {}
        case _:
            if table is not None:
                return cut(*table)
            name, fields = fields_of(command)
    return iter((small(name, count, fields),))


def decoded(
    parts: list[tuple[str, bytes]],
    of_table: Callable[[str, pa.Table], T],
    of_fields: Callable[[str, dict[str, Any]], T],
    config_of: Callable[[dict[str, Any]], C],
) -> T | Create[C] | Drop:
    """The inverse of `encoded`, for rows in order.

    Raises:
        Damaged: there is no such command, or it cannot be read.
    """
    name = parts[0][0].removesuffix(MORE)
    try:
        if name.endswith(ARROW):
            return of_table(name, joined([payload for _, payload in parts]))
        fields = fields_of(parts[0][1])
        if name == "drop":
            return Drop()
        return Create(config_of(fields)) if name == "create" else of_fields(name, fields)
    except UNREADABLE as error:
        raise Damaged(f"a {name} command in the log cannot be read: {error}") from error


def unknown(name: str) -> Damaged:
    """A command that this version does not know; raise what this returns."""
    return Damaged(f"the log holds a command {name!r} that this version does not know")


def strings(ids: Sequence[str]) -> pa.Table:
    """Ids as a table."""
    return pa.table({"id": pa.array(ids, pa.string())})


def bytes_of(column: np.ndarray[Any, Any]) -> bytes:
    """A column of numbers as it is logged."""
    if column.dtype is not _FLOATS and column.dtype == np.float64:
        column = column.astype(_FLOATS)
    return column.tobytes()


def floats_of(column: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A logged column of floats."""
    return np.frombuffer(column, "<f8").astype(np.float64)


def texts_of(column: list[str]) -> list[str]:
    """A logged list of texts. Raises TypeError where one is none."""
    if not set(map(type, column)) <= {str}:
        raise TypeError("a text is missing")
    return column


def integers_of(column: bytes) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A logged column of integers."""
    return np.frombuffer(column, "<i4").astype(np.int32)


def matrix(column: np.ndarray[Any, Any]) -> pa.FixedSizeListArray:
    """A matrix as a column of rows."""
    return pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(column).ravel(), column.shape[1])


def matrix_of(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """The inverse of `matrix`."""
    flat: np.ndarray[Any, Any] = one_array(table[name]).flatten().to_numpy()
    return flat.reshape(len(table), table.schema.field(name).type.list_size).astype(np.float64)


def sparse(values: Mapping[int, Any], n: int, kind: pa.DataType) -> pa.Array:
    """Values by place as a column of n."""
    return pa.array([values.get(i) for i in range(n)], kind) if values else pa.nulls(n, kind)


def given(column: pa.ChunkedArray) -> dict[int, Any]:
    """The values of a column by place, without those that are null."""
    places = np.flatnonzero(column.is_valid().to_numpy())
    return dict(zip(places.tolist(), column.take(pa.array(places)).to_pylist(), strict=True))


def texts(table: pa.Table, name: str) -> pa.StringArray:
    """A column of text in one piece. Raises TypeError where it is of another type, as kernels read its buffers."""
    found = one_array(table[name])
    if found.type != pa.string():
        raise TypeError(f"the column {name} is of {found.type}")
    return found


def ids(table: pa.Table) -> pa.StringArray:
    """The column of ids. Raises TypeError, and ValueError where one is missing."""
    found = texts(table, "id")
    if found.null_count:
        raise ValueError("an id is missing")
    return found


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
