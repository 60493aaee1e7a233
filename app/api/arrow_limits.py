"""What an Arrow IPC stream comes to once it is read, told from its messages before anything is unpacked.

Columns of nulls take no bytes, compressed buffers say their length themselves, and a dictionary or a view may name one
long string any number of times: a few hundred bytes could fill the memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

_DICTIONARY, _RECORDS = 2, 3


class Size(NamedTuple):
    """The rows of a stream's batches, the values of their longest columns, those inside of lists included, and the
    bytes that compressed buffers unpack to."""

    rows: int
    values: int
    unpacked: int


def announced(raw: bytes | bytearray) -> Size:
    """The sizes that the messages of a stream announce. Raises what pyarrow raises, ValueError and struct.error."""
    total = Size(0, 0, 0)
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(raw)):
        more = _batch(message.metadata.to_pybytes(), message.body)
        total = Size(*(a + b for a, b in zip(total, more, strict=True)))
    return total


def decoded(batch: pa.RecordBatch) -> int:
    """The bytes that the dictionaries and views of a batch's texts come to when every row has its own."""
    return sum(_decoded(column) for column in batch.columns)


def _decoded(column: pa.Array) -> int:
    if pt.is_list(column.type) or pt.is_large_list(column.type) or pt.is_fixed_size_list(column.type):
        return _decoded(column.flatten())
    if pt.is_dictionary(column.type):
        lengths = _lengths(column.dictionary)
        if lengths is None or not len(lengths):
            return 0
        uses = np.bincount(column.indices.drop_null().to_numpy(zero_copy_only=False), minlength=len(lengths))
        return int(uses @ lengths)
    lengths = _lengths(column) if pt.is_string_view(column.type) else None
    return 0 if lengths is None else int(lengths.sum())


def _lengths(texts: pa.Array) -> npt.NDArray[np.int64] | None:
    """The length of each text in bytes, None for other types."""
    if pt.is_string_view(texts.type):
        views = np.frombuffer(texts.buffers()[1], np.int32)[::4]
        found = views[texts.offset : texts.offset + len(texts)].astype(np.int64)
        return np.where(np.asarray(texts.is_valid()), found, 0)
    if not (pt.is_string(texts.type) or pt.is_large_string(texts.type)) or texts.buffers()[1] is None:
        return None
    kind = np.int64 if pt.is_large_string(texts.type) else np.int32
    ends = np.frombuffer(texts.buffers()[1], kind)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return ends[1:] - ends[:-1]


# --- flatbuffers, as far as it takes ---------------------------------------------------------------------------------


def _batch(meta: bytes, body: pa.Buffer) -> Size:
    """The size of a record batch or a dictionary; 0 for other messages."""
    message = _int("<i", meta, 0)
    kind_at, header_at = _field(meta, message, 1), _field(meta, message, 2)
    kind = _int("<B", meta, kind_at) if kind_at else 0
    if kind not in (_DICTIONARY, _RECORDS) or not header_at:
        return Size(0, 0, 0)
    batch = _follow(meta, header_at)
    if kind == _DICTIONARY:
        data_at = _field(meta, batch, 1)
        if not data_at:
            return Size(0, 0, 0)
        batch = _follow(meta, data_at)
    length_at, nodes_at, buffers_at, compressed_at = (_field(meta, batch, at) for at in (0, 1, 2, 3))
    rows = _int("<q", meta, length_at) if length_at else 0
    lengths = [length for length, _ in _pairs(meta, nodes_at)]
    if min(rows, *lengths, 0) < 0:
        raise ValueError("a batch of a negative length")
    unpacked = 0
    for start, size in _pairs(meta, buffers_at) if compressed_at else ():
        if size >= 8:
            unpacked += max(_int("<q", body, start), 0)
    return Size(rows, max(rows, *lengths, 0), unpacked)


def _pairs(meta: bytes, at: int) -> Iterator[tuple[int, int]]:
    """The elements of a vector of structs of two 64-bit integers; none where there is no vector."""
    if at:
        vector = _follow(meta, at)
        for i in range(_int("<I", meta, vector)):
            yield struct.unpack_from("<qq", meta, vector + 4 + 16 * i)


def _int(kind: str, data: bytes | pa.Buffer, at: int) -> int:
    if at < 0:
        raise ValueError("an offset before the beginning")
    found: int = struct.unpack_from(kind, data, at)[0]
    return found


def _follow(meta: bytes, at: int) -> int:
    return at + _int("<I", meta, at)


def _field(meta: bytes, table: int, number: int) -> int:
    """Where a field of a table is, 0 if it is not there."""
    vtable = table - _int("<i", meta, table)
    at = 4 + 2 * number
    offset = _int("<H", meta, vtable + at) if at < _int("<H", meta, vtable) else 0
    return table + offset if offset else 0
