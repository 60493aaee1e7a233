"""Tasks of `spark_jobs.audit.boards`: the differences in the lists of a batch of subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.audit.ranges import Lists, differing, rank, top

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast

_IDS = pa.list_(pa.string())
DIFFERENCE = pa.schema(
    [("sid", pa.int32()), ("id", pa.string()), ("problem", pa.string()), ("expected", _IDS), ("found", _IDS)]
)
COMPARED = pa.schema([*DIFFERENCE, ("compared", pa.int64())])
"""The rows of a task: differences, and a last row with only the number of subscriptions compared."""
SPARK_COMPARED = "sid int, id string, problem string, expected array<string>, found array<string>, compared long"

_ROWS = 1000
"""Differences in a batch that is yielded."""


class Objects:
    """The broadcast objects: ranked, and their ids by row."""

    def __init__(self, found: pa.Table, descending: bool) -> None:
        row = found["row"].to_numpy()
        self.ranked = rank(found["x"].to_numpy(), found["y"].to_numpy(), found["created"].to_numpy(), row, descending)
        by_row = np.argsort(row, kind="stable")
        self.rows = row[by_row]
        self.ids = found["id"].combine_chunks().take(pa.array(by_row))

    def best(self, l: NDArray[np.float64], r: NDArray[np.float64], k: NDArray[np.int32]) -> Lists:
        """The rows of the best k objects in each range."""
        found = top(self.ranked, l, r, k)
        return Lists(found.length, self.ranked.row[found.values])

    def names(self, rows: list[int]) -> list[str]:
        """The ids of the objects in these rows; for a row without an object a text that is no valid id."""
        at = np.searchsorted(self.rows, rows).tolist()
        return [
            self.ids[i].as_py() if i < len(self.rows) and self.rows[i] == row else f"row {row}"
            for i, row in zip(at, rows, strict=True)
        ]


def differences(batches: Iterator[pa.RecordBatch], objects: Broadcast[Objects]) -> Iterator[pa.RecordBatch]:
    """The differences in batches of sid, id, l, r, k, rows, in order of sid.

    Where the subscription is missing, id is null; where the list is missing, rows is null.
    """
    compared, last = 0, None
    for batch in batches:
        pairs = _Pairs(batch, objects.value, last)
        wrong = pairs.wrong()
        for start in range(0, len(wrong), _ROWS):
            found = [pairs.difference(i) for i in wrong[start : start + _ROWS].tolist()]
            yield pa.RecordBatch.from_pylist(found, COMPARED)
        compared += int(pairs.asked.sum())
        last = batch["sid"][-1].as_py() if len(batch) else last
    yield pa.RecordBatch.from_pylist([{"compared": compared}], COMPARED)


class _Pairs:
    """The subscriptions of a batch, with the lists computed from the snapshot and those of the service."""

    def __init__(self, batch: pa.RecordBatch, objects: Objects, last: int | None) -> None:
        self.batch = batch
        self.objects = objects
        self.sid = batch["sid"].to_numpy()
        again = np.diff(self.sid, prepend=-1 if last is None else last) == 0
        self.asked = batch["id"].is_valid().to_numpy(False) & ~again
        self.answered = batch["rows"].is_valid().to_numpy(False)
        l, r, k = (pc.fill_null(batch[name], 0).to_numpy() for name in ("l", "r", "k"))
        self.expected = objects.best(l, r, np.where(self.asked, k, 0))
        self.found = Lists(
            pc.fill_null(pc.list_value_length(batch["rows"]), 0).to_numpy().astype(np.int64),
            pc.fill_null(batch["rows"].flatten(), -1).to_numpy(),
        )
        self._ends = np.cumsum(self.expected.length), np.cumsum(self.found.length)

    def wrong(self) -> NDArray[np.int64]:
        """The rows with a difference."""
        return np.flatnonzero(differing(self.expected, self.found) | ~self.asked | ~self.answered)

    def difference(self, i: int) -> dict[str, Any]:
        right, got = (
            lists.values[end[i] - lists.length[i] : end[i]].tolist()
            for lists, end in zip((self.expected, self.found), self._ends, strict=True)
        )
        problem = "order" if sorted(right) == sorted(got) else "members"
        if not self.asked[i]:
            problem = "extra"
        elif not self.answered[i]:
            problem = "missing"
        about = {"sid": int(self.sid[i]), "id": self.batch["id"][i].as_py(), "problem": problem}
        return {**about, "expected": self.objects.names(right), "found": self.objects.names(got)}
