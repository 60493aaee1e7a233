"""Columns of Arrow that no writer makes: how to write a valid one, and which of its bytes to replace."""

from __future__ import annotations

import struct

import pyarrow as pa

TEXTS = pa.array(["abc", "defgh", "ijklmno"])
VIEWS = pa.array(["abc", None, "a text that is longer than twelve"], pa.string_view())
PLACES = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1], pa.int64()), TEXTS)
SHORT = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int64()), TEXTS.slice(0, 2))
LISTS = pa.ListArray.from_arrays(pa.array([0, 3, 8, 15], pa.int32()), pa.array([f"w{n}" for n in range(15)]))


def ends(*of: int) -> bytes:
    return struct.pack(f"<{len(of)}i", *of)


def places(*of: int) -> bytes:
    return struct.pack(f"<{len(of)}q", *of)


def far(buffer: int, at: int) -> bytes:
    """The end of a view of a long text: which buffer, and where in it."""
    return b"a te" + ends(buffer, at)


OFFSETS = ends(0, 3, 8, 15)

CRAFTED: dict[str, tuple[pa.Array, bytes, bytes]] = {
    "offsets beyond the letters": (TEXTS, OFFSETS, ends(0, 3, 8, 1 << 30)),
    "offsets that fall": (TEXTS, OFFSETS, ends(0, 8, 3, 15)),
    "negative offsets": (TEXTS, OFFSETS, ends(-8, 3, 8, 15)),
    "letters that are not UTF-8": (TEXTS, b"abcdefgh", b"abc\xff\xfefgh"),
    "a letter that is cut": (TEXTS, b"abcdefgh", b"ab\xc3\x9fefgh"),
    "a place beyond the dictionary": (PLACES, places(2, 0, 1), places(2, 0, 3)),
    "a place far beyond the dictionary": (PLACES, places(2, 0, 1), places(2, 1 << 62, 1)),
    "a negative place": (PLACES, places(2, 0, 1), places(2, -1, 1)),
    "offsets of a dictionary": (PLACES, OFFSETS, ends(0, 3, 1 << 30, 15)),
    "letters of a dictionary": (PLACES, b"abcdefgh", b"abc\xff\xfefgh"),
    "a view of no buffer": (VIEWS, far(0, 0), far(7, 0)),
    "a view beyond its buffer": (VIEWS, far(0, 0), far(0, 1 << 20)),
    "a view of a negative length": (VIEWS, ends(3) + b"abc", ends(-3) + b"abc"),
    "a view of a negative length under a null": (VIEWS, bytes(16) + ends(33), ends(-(1 << 31)) + bytes(12) + ends(33)),
    "a long view under a null": (VIEWS, bytes(16) + ends(33), ends(1 << 20) + bytes(12) + ends(33)),
    "lists beyond their texts": (LISTS, OFFSETS, ends(0, 3, 8, 1 << 28)),
    "lists that fall": (LISTS, OFFSETS, ends(0, 8, 3, 15)),
}
"""Columns, bytes of them in a stream, and what takes their place."""


def stream(table: pa.Table) -> bytes:
    """A table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
