"""What is wrong with the elements of a body, in bounded memory however many are wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

MOST_SKIPPED = 1_000
"""Errors that a response to `on_error=skip` lists; all are counted."""

_BY_INDEX = attrgetter("index")


@dataclass(frozen=True, slots=True)
class ElementError:
    """One bad field of the element at `index`; `field` is relative to the element."""

    index: int
    field: str
    reason: str


class ElementErrors:
    """Collects the errors of the elements of one body: the first `most` by index are kept, the others are counted, and
    a byte for each element up to the last wrong one says which are wrong. None keeps all.

    `append` and ``+=`` take O(1) an error, amortised. Where making an error is expensive, `wants` says whether it would
    be kept; if not, `count_in` takes its place.
    """

    __slots__ = ("_count", "_horizon", "_kept", "_most", "_wrong")

    def __init__(self, errors: Iterable[ElementError] = (), most: int | None = MOST_SKIPPED) -> None:
        self._count = 0
        self._most = most
        self._kept: list[ElementError] = []
        self._wrong = bytearray()
        self._horizon: int | None = None
        if errors:
            self.extend(errors)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ElementError]:
        """Those that are kept, in order of index."""
        self._cut()
        return iter(self._kept)

    def __contains__(self, index: object) -> bool:
        """Whether the element at an index is wrong."""
        return isinstance(index, int) and index < len(self._wrong) and self._wrong[index] == 1

    def __iadd__(self, errors: Iterable[ElementError]) -> ElementErrors:
        self.extend(errors)
        return self

    def extend(self, errors: Iterable[ElementError]) -> None:
        """Append errors, in any order."""
        for error in errors:
            self.append(error)

    def append(self, error: ElementError) -> None:
        """Take an error."""
        if self.wants(error.index):
            self._kept.append(error)
            if self._most is not None and len(self._kept) >= 2 * self._most:
                self._cut()
        self.count_in(error.index)

    def wants(self, index: int) -> bool:
        """Whether the next error of the element at an index would be kept."""
        return self._horizon is None or index < self._horizon

    def count_in(self, index: int, count: int = 1) -> None:
        """Count so many errors of the element at an index without keeping them."""
        self._count += count
        wrong = self._wrong
        if index >= len(wrong):
            wrong.extend(bytes(max(index + 1 - len(wrong), len(wrong) >> 1)))
        wrong[index] = 1

    def valid(self, count: int) -> list[int]:
        """The indexes of the elements, of so many, that no error is about."""
        wrong = np.zeros(count, np.uint8)
        found = np.frombuffer(bytes(self._wrong), np.uint8)[:count]
        wrong[: len(found)] = found
        valid: list[int] = np.flatnonzero(wrong == 0).tolist()
        return valid

    def _cut(self) -> None:
        """Put what is kept in order; beyond the last of `most`, nothing is kept any more."""
        self._kept.sort(key=_BY_INDEX)
        if self._most is not None and len(self._kept) >= self._most:
            del self._kept[self._most :]
            self._horizon = self._kept[-1].index
