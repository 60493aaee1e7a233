"""Ids as they were cut out of a text: objects of Python only where somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from indexes.core.arrays import Bytes


class SpacedIds(Sequence[str]):
    """So many ids, as bytes one behind the other, with a SPACE behind each; behind the `texts` there are EIGHT more
    bytes in memory. Few of those who handle many at once need any of them as a `str`."""

    __slots__ = ("_count", "_ids", "texts")

    def __init__(self, texts: Bytes, count: int) -> None:
        self.texts = texts
        self._count = count
        self._ids: list[str] | None = None

    @property
    def ids(self) -> list[str]:
        """The ids as a list, which is kept. O(bytes)."""
        if self._ids is None:
            self._ids = self.texts.tobytes().decode().split()
        return self._ids

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return self.ids[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)
