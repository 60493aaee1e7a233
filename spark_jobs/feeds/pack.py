"""Arrays and JSON as bytes: the messages between partitions of a feed, and the files of their state.

    "RCFEED01", the length of the header, the header in JSON, and the arrays, each at a multiple of 64 bytes

A local file is mapped privately: changes of its arrays stay in this process.
"""

from __future__ import annotations

import json
import mmap
import os
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formats.folder import Damaged, Folder

MAGIC = b"RCFEED01"
_LINE = 64


class Pack(NamedTuple):
    """Values for JSON, and arrays by name."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def _laid(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[bytes, list[tuple[int, NDArray[Any]]]]:
    """The header, and the arrays with their offsets."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    columns: list[tuple[str, str, list[int], int]] = []
    at = 0
    for name, array in whole.items():
        columns.append((name, array.dtype.str, list(array.shape), at))
        at += -(-array.nbytes // _LINE) * _LINE
    text = json.dumps({"about": about, "columns": columns, "bytes": at}).encode()
    begin = -(-(len(MAGIC) + 8 + len(text)) // _LINE) * _LINE
    head = MAGIC + len(text).to_bytes(8, "little") + text
    places = [(begin + column[3], array) for column, array in zip(columns, whole.values(), strict=True)]
    return head.ljust(begin, b"\0"), places


def pack(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Values and arrays as bytes. O(bytes)."""
    head, places = _laid(about, arrays)
    end = max([len(head), *(-(-(at + array.nbytes) // _LINE) * _LINE for at, array in places)])
    out = bytearray(end)
    out[: len(head)] = head
    for at, array in places:
        out[at : at + array.nbytes] = array.reshape(-1).view(np.uint8).data
    return bytes(out)


def unpack(memory: bytes | mmap.mmap | memoryview) -> Pack:
    """The inverse of `pack`; arrays are views of this memory. Raises `Damaged`."""
    view = memoryview(memory)
    try:
        if bytes(view[:8]) != MAGIC:
            raise ValueError("it does not begin as it has to")
        length = int.from_bytes(view[8:16], "little")
        head = json.loads(bytes(view[16 : 16 + length]))
        begin = -(-(16 + length) // _LINE) * _LINE
        if len(view) < begin + head["bytes"]:
            raise ValueError(f"it has {len(view)} bytes in place of {begin + head['bytes']}")
        arrays = {}
        for name, dtype, shape, at in head["columns"]:
            count = int(np.prod(shape, dtype=np.int64))
            column = np.frombuffer(view, np.dtype(dtype), count, begin + at)
            arrays[name] = column.reshape(shape)
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"a packed file is damaged: {error}") from error
    return Pack(head["about"], arrays)


def write(folder: Folder, name: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
    """Write or replace a file atomically. Returns its number of bytes."""
    head, places = _laid(about, arrays)
    draft = f"{folder.path}/{name}.{uuid.uuid4().hex[:8]}.new"
    folder.system.create_dir(folder.path, recursive=True)
    at = len(head)
    with folder.system.open_output_stream(draft) as out:
        out.write(head)
        for begin, array in places:
            out.write(b"\0" * (begin - at))
            if array.nbytes:
                out.write(array.reshape(-1).view(np.uint8).data)
            at = begin + array.nbytes
        end = -(-at // _LINE) * _LINE
        out.write(b"\0" * (end - at))
    folder.system.move(draft, f"{folder.path}/{name}")
    return end


def read(folder: Folder, name: str) -> Pack:
    """Read a file; its arrays are writable. Raises `Damaged`."""
    if folder.local is None:
        with folder.open(name) as file:
            return unpack(memoryview(bytearray(file.read())))
    try:
        with (folder.local / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except FileNotFoundError as error:
        raise Damaged(f"{folder}/{name} is missing") from error
    except (OSError, ValueError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {error}") from error
    return unpack(memory)
