"""Checksums of the log's rows, each chained to the row before it.

A row's checksum covers the row and the checksum of the row before, so that a changed, exchanged or missing row is found
at its place. Rows that an older version wrote have none; the first row behind them begins a chain.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

SIZE = 16
"""Bytes of a checksum, a BLAKE2b: beside the work of a request it costs 1 us, and OpenSSL's SHA-256 over 20."""

START = b""
"""What stands for the checksum before the first row of a chain."""

Row = tuple[int, str, int, int, str, bytes, float]
"""A row as `app.storage.rows.LogRow`: lsn, resource, first and last seq, command, payload, time."""

_LARGE = 1 << 16
_NUMBERS = struct.Struct(">qqqd")


def checksum(before: bytes, row: Row) -> bytes:
    """The checksum of a row behind one with the checksum `before`. O(its bytes); about 1 us for a small one.

    >>> checksum(START, (1, "boards/b", 0, 0, "events", b"x", 5.0)).hex()
    '2b32b6a6eb300bb365d60876abbdc508'
    """
    lsn, resource, first_seq, last_seq, command, payload, created_at = row
    # Neither names nor commands have a zero byte, and the payload comes last: no two rows give the same bytes.
    head = before + _NUMBERS.pack(lsn, first_seq, last_seq, created_at) + f"{resource}\0{command}\0".encode()
    if len(payload) < _LARGE:
        return blake2b(head + payload, digest_size=SIZE).digest()
    digest = blake2b(head, digest_size=SIZE)
    digest.update(payload)
    return digest.digest()


class Chain:
    """The check of rows in order. `before` is the checksum of the row before the first, `START` where it has none."""

    def __init__(self, before: bytes) -> None:
        self.unchecked = 0
        self._before = before

    def fault(self, row: Row, stored: bytes | None) -> str | None:
        """What is wrong with the next row and its stored checksum; None where they agree, or the row has none."""
        before = self._before
        if stored is None:
            if before != START:
                return "it has no checksum, although the row before it has one"
            self.unchecked += 1
            return None
        # Behind a damaged row the next ones are compared with what is stored: one fault is reported once.
        self._before = stored
        return None if checksum(before, row) == stored else "its checksum differs"
