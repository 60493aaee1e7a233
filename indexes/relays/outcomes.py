"""Outcomes of the steps of a command, by column: a command may take a million steps, and an object for each, with the
keys that it names, would be some kilobytes that the allocator of Python does not give back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias, overload

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Bools, Ints
from indexes.relays.config import shown
from indexes.relays.results import Subscribed, Unsubscribed

Outcome: TypeAlias = Subscribed | Unsubscribed
Keys: TypeAlias = list[str] | pa.LargeStringArray


FEW = 256
"""The outcomes of up to so many steps stay lists: columns would take longer, and save nothing."""


class NeighbourOutcomes(NamedTuple):
    """What is decided for one neighbour: the places of the steps that concern it, in order, whether each is to be
    forwarded, the keys that they name, step by step, and where those of each end."""

    step: Ints
    forward: Bools
    keys: Keys
    upto: Ints


class StepOutcomes(NamedTuple):
    """The outcomes of consecutive steps: which of them begin a subscription, their keys, and what is decided by
    neighbour."""

    begins: Bools
    keys: Keys
    decided: dict[str, NeighbourOutcomes]

    def columns(self) -> StepOutcomes:
        """The same with columns of keys in place of lists."""
        decided = {name: of._replace(keys=pa.array(of.keys, pa.large_string())) for name, of in self.decided.items()}
        return StepOutcomes(self.begins, pa.array(self.keys, pa.large_string()), decided)

    def made(self, lo: int, hi: int) -> list[Outcome]:
        """The outcomes of steps `lo` to `hi` - 1."""
        forward: list[dict[str, bool]] = [{} for _ in range(lo, hi)]
        named: list[dict[str, list[str]]] = [{} for _ in range(lo, hi)]
        for name, (step, forwards, keys, upto) in self.decided.items():
            whole = lo == 0 and hi == len(self.begins)
            first, last = (0, len(step)) if whole else np.searchsorted(step, (lo, hi)).tolist()
            base = begin = int(upto[first - 1]) if first else 0
            about = _listed(keys[begin : int(upto[last - 1]) if last else 0])
            for at in range(first, last):
                i, end = int(step[at]) - lo, int(upto[at])
                forward[i][name] = bool(forwards[at])
                named[i][name] = [shown(key) for key in about[begin - base : end - base]]
                begin = end
        rows = zip(self.begins[lo:hi].tolist(), _listed(self.keys[lo:hi]), forward, named, strict=True)
        return [(Subscribed if new else Unsubscribed)(shown(key), to, about) for new, key, to, about in rows]


def _listed(keys: Keys) -> list[str]:
    if isinstance(keys, list):
        return keys
    found: list[str] = keys.to_pylist()
    return found


class Outcomes(Sequence[Outcome]):
    """The outcomes of all steps of a command so far, most of them made when they are asked for."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._parts: list[StepOutcomes | list[Outcome]] = []
        self._end: list[int] = []

    def append(self, part: StepOutcomes) -> None:
        """Add those of the next steps."""
        n = len(part.begins)
        if n:
            self._parts.append(part if n <= FEW else part.columns())
            self._end.append(len(self) + n)

    @property
    def parts(self) -> Sequence[StepOutcomes | list[Outcome]]:
        """Those of consecutive steps, as they are kept."""
        return self._parts

    def __len__(self) -> int:
        return self._end[-1] if self._end else 0

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | list[Outcome]:
        if isinstance(at, slice):
            lo, hi, stride = at.indices(len(self))
            if stride != 1:
                return list(self)[at]
            return list(chain.from_iterable(self._ranges(lo, hi)))
        (found,) = self._ranges(range(len(self))[at], range(len(self))[at] + 1)
        return found[0]

    def __iter__(self) -> Iterator[Outcome]:
        return chain.from_iterable(self._ranges(0, len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def _ranges(self, lo: int, hi: int) -> Iterator[list[Outcome]]:
        """The outcomes `lo` to `hi` - 1, part by part."""
        at = bisect_right(self._end, lo)
        while lo < hi:
            begin, end = self._end[at - 1] if at else 0, self._end[at]
            part, first, last = self._parts[at], lo - begin, min(hi, end) - begin
            if isinstance(part, StepOutcomes) and end - begin <= FEW:
                part = self._parts[at] = part.made(0, end - begin)
            yield part[first:last] if isinstance(part, list) else part.made(first, last)
            lo, at = end, at + 1
