"""Which indexes a configuration needs, and how they are built: at once, or in parts that are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Bytes, Floats, Ints32
from indexes.matchers.alternatives.lists import ListIndex
from indexes.matchers.alternatives.segments import SegmentIndex
from indexes.matchers.config import MatcherConfig
from indexes.matchers.kernels.blocks import BlockIndex
from indexes.matchers.kernels.cells import CellIndex
from indexes.matchers.kernels.combine import NUMBERS
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.strategies import Sample, sample

SELECTIVE = 0.02
"""With blocks in exact mode, a dimension of which an event meets no more than this share gets an index of its own."""

WHOLE = -1
"""The part that is about all dimensions together; other parts are dimensions."""


class Indexes(NamedTuple):
    """The indexes of a configuration; None is one that it does not need."""

    blocks: BlockIndex | None
    runs: RunIndex | None
    lists: ListIndex | None
    segments: SegmentIndex | None
    cells: CellIndex | None
    sample: Sample

    def parts(self) -> list[BlockIndex | RunIndex | ListIndex]:
        """Those that change, and hold all rows."""
        return [part for part in (self.blocks, self.runs, self.lists) if part is not None]

    @property
    def on_a_line(self) -> bool:
        """Whether they are runs and cells of one dimension, and nothing else."""
        others = self.blocks, self.lists, self.segments
        return self.cells is not None and self.runs is not None and others == (None, None, None)

    @property
    def nbytes(self) -> int:
        """Bytes of those that change."""
        return sum(part.nbytes for part in (*self.parts(), self.cells) if part is not None)

    def remove(self, rec: Floats, rows: Ints32) -> None:
        """Take rows out, before the table changes. Absent ones are ignored."""
        for part in self.parts():
            part.remove(rec, rows)
        if self.cells is not None and self.runs is not None:
            self.cells.remove(rec, rows)
            self.cells.refill(rec, self.runs)

    def add(self, rec: Floats, rows: Ints32) -> None:
        """Put in rows that are not there, as the table has them."""
        for part in self.parts():
            part.add(rec, rows)
        if self.cells is not None:
            self.cells.add(rec, rows)

    def open(self, rec: Floats) -> None:
        """Make room for changes now, which otherwise the first one does. O(d n)."""
        for part in self.parts():
            part.remove(rec, np.empty(0, np.int32))


class _Lines(NamedTuple):
    """The indexes by dimension."""

    runs: RunIndex | None
    lists: ListIndex | None
    segments: SegmentIndex | None
    cells: CellIndex | None = None


def build_indexes(config: MatcherConfig, rec: Floats, rows: Ints32) -> Indexes:
    """The indexes of these rows of a table. O(d n log n); any thread."""
    d = len(config.dimensions)
    taken = _sample(config, rec, rows, d)
    return Indexes(_blocks(config, rec, rows), *_lines(config, rec, rows, d, config.relaxed, taken.held), taken)


# The same in parts, to be built one by one in any order, also by several processes.


def parts_of(config: MatcherConfig) -> list[int]:
    """The parts that `build_part` can build, the largest first: WHOLE, or dimensions, or both."""
    by_dimension = list(range(len(config.dimensions)))
    if not _blocked(config):
        return by_dimension
    return [WHOLE] if config.relaxed else [WHOLE, *by_dimension]


def build_part(config: MatcherConfig, part: int, rec: Floats, rows: Ints32) -> Indexes:
    """A part of the indexes of these rows of a table. The table of a dimension has its columns alone: both ends, and
    the score or that dimension's weight. O(n log n), for WHOLE O(d n log n)."""
    if part == WHOLE:
        taken = _sample(config, rec, rows, len(config.dimensions))
        return Indexes(_blocks(config, rec, rows), None, None, None, None, taken)
    taken = _sample(config, rec, rows, 1)
    return Indexes(None, *_lines(config, rec, rows, 1, False, taken.held), taken)


def join_parts(config: MatcherConfig, parts: Sequence[Indexes]) -> Indexes:
    """What `build_indexes` makes, to the last bit, out of all that `parts_of` lists, in that order. O(d n)."""
    lines = list(parts)
    whole = lines.pop(0) if _blocked(config) else None
    if whole is not None:
        blocks, taken = whole.blocks, whole.sample
    else:
        samples = [line.sample for line in lines]
        left, right, held = (np.concatenate([taken[i] for taken in samples]) for i in (0, 1, 3))
        blocks, taken = None, Sample(left, right, samples[0].rows, held)
    runs = [line.runs for line in lines]
    lists = [line.lists for line in lines if line.lists is not None]
    segments = [line.segments for line in lines if line.segments is not None]
    joined = RunIndex.join(runs, config.relaxed) if any(part is not None for part in runs) else None
    return Indexes(
        blocks,
        RunIndex(len(lines), config.relaxed) if segments else joined,
        ListIndex.join(lists, config.relaxed) if lists else None,
        SegmentIndex.join(segments) if segments else None,
        lines[0].cells if len(lines) == 1 else None,
        taken,
    )


def _blocked(config: MatcherConfig) -> bool:
    return config.index == "auto" and len(config.dimensions) > 1


def _blocks(config: MatcherConfig, rec: Floats, rows: Ints32) -> BlockIndex | None:
    if not _blocked(config):
        return None
    return BlockIndex.build(rec, rows, len(config.dimensions), NUMBERS[config.combine] if config.relaxed else None)


def _lines(config: MatcherConfig, rec: Floats, rows: Ints32, d: int, relaxed: bool, held: Bytes) -> _Lines:
    """The indexes by dimension that a configuration asks for, of a table of d dimensions."""
    kind = config.index
    if kind in ("ir", "interval"):
        return _Lines(None, ListIndex.build(rec, rows, d, relaxed, kind == "ir"), None)
    if kind == "segment":
        return _Lines(RunIndex(d, relaxed), None, SegmentIndex(rec, rows, d, relaxed))
    which = np.flatnonzero(held).tolist()
    runs = RunIndex.build(rec, rows, d, relaxed, kind != "scored-r", which) if which else None
    cells = CellIndex.build(rec, rows) if kind == "auto" and len(config.dimensions) == 1 else None
    return _Lines(runs, None, None, cells)


def _sample(config: MatcherConfig, rec: Floats, rows: Ints32, d: int) -> Sample:
    """A sample of rows that says, too, which dimensions have an index of their own."""
    taken = sample(rec, rows, d, np.ones(d, np.uint8))
    if not _blocked(config):
        return taken
    held = _shares_met(taken) <= SELECTIVE if not config.relaxed else np.zeros(d, np.bool_)
    return taken._replace(held=held.astype(np.uint8))


def _shares_met(taken: Sample) -> Floats:
    """The share of rows that a point in the middle of one of them meets, on average, by dimension."""
    shares = np.ones(len(taken.left))
    for j in range(len(shares)):
        left, right = taken.left[j], taken.right[j]
        inside = left[np.isfinite(left)]
        if len(inside) and len(left) > 1:
            met = np.searchsorted(left, inside, "right") - np.searchsorted(right, inside, "left")
            shares[j] = float(np.maximum(met - 1, 0).mean()) / (len(left) - 1)
    return shares
