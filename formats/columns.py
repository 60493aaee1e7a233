"""Columns on disk, for all resource types: Parquet tables of snapshots, Arrow arrays of images."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from formats.folder import Damaged, Draft, Folder
from indexes.core.ids import Packed

PIECE = 20_000
"""Strings that are converted at once."""

ROWS = 1 << 17
"""Rows in a row group."""

BUFFER = 1 << 20
"""Bytes of a Parquet file that are written at once. It comes in pieces of some hundred bytes. For each a thread of low
priority would take the interpreter, and whenever it waits for a processor then, all others wait with it."""


def texts(values: Sequence[str | bytes | None], kind: pa.DataType) -> pa.ChunkedArray:
    """Strings as a column, in pieces between which other threads can run."""
    return pa.chunked_array([pa.array(values[i : i + PIECE], kind) for i in range(0, len(values), PIECE)], kind)


def strings(ids: Packed) -> pa.LargeStringArray:
    """Packed ids as a column."""
    text, offset = pa.py_buffer(np.ascontiguousarray(ids.text)), pa.py_buffer(np.ascontiguousarray(ids.offset))
    return pa.LargeStringArray.from_buffers(len(ids.row), offset, text)


def joined(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The inverse of `strings`: the bytes and the offsets of a column of large strings."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], pa.large_string())
    if whole.offset or whole.buffers()[2] is None:
        whole = pa.concat_arrays([whole])
    _, offset, text = whole.buffers()
    # Offsets are writable, as those of `indexes.core.ids.pack`: kernels are compiled for that.
    return np.frombuffer(text, np.uint8), np.frombuffer(offset, np.int64, len(whole) + 1).copy()


def write_table(draft: Draft, name: str, schema: pa.Schema, columns: Sequence[Any]) -> None:
    """Write a Parquet file."""
    arrays = [
        column if isinstance(column, pa.ChunkedArray) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    with parquet_file(draft, name, rows=len(table)) as out:
        pq.write_table(table, out, compression="zstd", row_group_size=ROWS, use_dictionary=["k", "kind"])


@contextmanager
def parquet_file(draft: Draft, name: str, **about: Any) -> Iterator[pa.NativeFile]:
    """As `Draft.file`, for a Parquet file: what is written is gathered into pieces of `BUFFER` bytes."""
    with draft.file(name, **about) as out, pa.output_stream(out, buffer_size=BUFFER) as stream:
        yield stream


def read_table(
    folder: Folder, name: str, schema: pa.Schema, since: Mapping[str, Any] | None = None, only: bool = False
) -> pa.Table:
    """Read a Parquet file. `since` are columns that older files lack, with their defaults. With `only` the file may
    have other columns, which are not read. Raises `Damaged`."""
    try:
        with folder.open(name) as file:
            # Given a schema the reader would make up columns that are not there.
            table = pq.read_table(file, columns=schema.names).select(schema.names) if only else pq.read_table(file)
            return _as_now(table, schema, since or {})
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {error}") from error


def _as_now(table: pa.Table, schema: pa.Schema, since: Mapping[str, Any]) -> pa.Table:
    """A table of any version in the present schema."""
    for column, value in since.items():
        if column not in table.schema.names:
            kind = schema.field(column).type
            table = table.append_column(column, pa.repeat(pa.scalar(value, kind), len(table)))
    return table.cast(schema)


def read_long_table(
    folder: Folder, name: str, schema: pa.Schema, since: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read a Parquet file of very many rows into arrays; a column of large strings into a pair as of `joined`. Null is
    NaN. Raises `Damaged`.

    A group of rows is read after the other, each into the memory of the one before: to be touched for the first time
    is most of what memory costs here, and whole tables of Arrow would be three times as much of it.
    """
    try:
        with folder.open(name) as file:
            parquet = pq.ParquetFile(file)
            rows = parquet.metadata.num_rows
            found: dict[str, _Numbers | _Strings] = {
                field.name: _Strings(rows) if pa.types.is_large_string(field.type) else _Numbers(field, rows)
                for field in schema
            }
            groups = (parquet.read_row_group(i, use_threads=False) for i in range(parquet.num_row_groups))
            for group in groups if rows else [parquet.schema_arrow.empty_table()]:
                for field, column in zip(schema, _as_now(group, schema, since or {}).columns, strict=True):
                    for chunk in column.chunks:
                        found[field.name].add(chunk)
            return {field: column.taken() for field, column in found.items()}
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {error}") from error


class _Numbers:
    """A column of numbers that is read piece by piece."""

    def __init__(self, field: pa.Field, rows: int) -> None:
        self._values: npt.NDArray[Any] = np.empty(rows, field.type.to_pandas_dtype())
        self._rows = 0

    def add(self, piece: pa.Array) -> None:
        self._values[self._rows : self._rows + len(piece)] = piece.to_numpy(zero_copy_only=False)
        self._rows += len(piece)

    def taken(self) -> npt.NDArray[Any]:
        return self._values


class _Strings:
    """A column of large strings that is read piece by piece."""

    def __init__(self, rows: int) -> None:
        self._offset = np.empty(rows + 1, np.int64)
        self._offset[0] = 0
        self._text = np.empty(0, np.uint8)
        self._rows = 0

    def add(self, piece: pa.Array) -> None:
        _, offsets, text = piece.buffers()
        offset = np.frombuffer(offsets, np.int64)[piece.offset : piece.offset + len(piece) + 1]
        begin, end = int(self._offset[self._rows]), int(self._offset[self._rows]) + int(offset[-1] - offset[0])
        if end > len(self._text):
            # For as many rows as there are, if the others are like these; what is too much is never touched.
            rows = self._rows + len(piece)
            grown = np.empty(max(end, end * (len(self._offset) - 1) // rows * 9 // 8, 2 * len(self._text)), np.uint8)
            grown[:begin] = self._text[:begin]
            self._text = grown
        if end > begin:
            self._text[begin:end] = np.frombuffer(text, np.uint8)[offset[0] : offset[-1]]
        np.add(offset[1:], begin - offset[0], out=self._offset[self._rows + 1 : self._rows + len(piece) + 1])
        self._rows += len(piece)

    def taken(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        return self._text[: self._offset[-1]], self._offset


def write_columns(draft: Draft, name: str, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays of one length as the columns of an Arrow file."""
    _write_batch(draft, name, pa.record_batch({key: pa.array(column) for key, column in columns.items()}))


def read_columns(folder: Folder, name: str) -> dict[str, npt.NDArray[Any]]:
    """The inverse of `write_columns`, over writable memory."""
    whole, batch = _mapped(folder, name)
    return {key: _view(whole, batch.column(key)) for key in batch.schema.names}


def write_arrays(draft: Draft, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays of any length as an Arrow file: each is the list in a column's only row."""
    lists = {key: pa.LargeListArray.from_arrays([0, array.size], array.ravel()) for key, array in arrays.items()}
    _write_batch(draft, name, pa.record_batch(lists))


def read_arrays(folder: Folder, name: str) -> dict[str, npt.NDArray[Any]]:
    """The inverse of `write_arrays`: arrays of one dimension, over writable memory."""
    whole, batch = _mapped(folder, name)
    return {key: _view(whole, batch.column(key).values) for key in batch.schema.names}


def _write_batch(draft: Draft, name: str, batch: pa.RecordBatch) -> None:
    with draft.file(name, rows=len(batch)) as out, pa.ipc.new_file(out, batch.schema) as writer:
        writer.write_batch(batch)


def _mapped(folder: Folder, name: str) -> tuple[npt.NDArray[np.uint8], pa.RecordBatch]:
    """The one batch of an Arrow file, and the memory that it lies in: the file itself where that is local."""
    memory: Any
    if folder.local is not None:
        with (folder.local / name).open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    else:
        with folder.open(name) as file:
            memory = bytearray(file.read_buffer())
    return np.frombuffer(memory, np.uint8), pa.ipc.open_file(pa.py_buffer(memory)).get_batch(0)


def _view(whole: npt.NDArray[np.uint8], column: pa.Array) -> npt.NDArray[Any]:
    kind = np.dtype(column.type.to_pandas_dtype())
    values = column.buffers()[1]
    if len(column) == 0:
        return np.empty(0, kind)
    start = values.address - whole.ctypes.data + column.offset * kind.itemsize
    return whole[start : start + len(column) * kind.itemsize].view(kind)
