"""Texts by place, in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Bytes, Ints


class Texts(NamedTuple):
    """The text at a place is ``text[offset[at] : offset[at + 1]]``."""

    text: Bytes
    offset: Ints

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """These texts."""
        encoded = [text.encode() for text in texts]
        return cls(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)]))

    def array(self) -> pa.LargeStringArray:
        """The same as an Arrow array, over the same bytes. O(1)."""
        parts = pa.py_buffer(self.offset), pa.py_buffer(self.text)
        return pa.LargeStringArray.from_buffers(len(self.offset) - 1, *parts)
