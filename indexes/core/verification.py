"""The results of verification: of comparing lists and indexes with a scan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Rows
from indexes.core.ids import Packed, find_packed, is_sorted


class Difference(NamedTuple):
    """A list or index that is not as expected. `kind` says what it is ("list", "index", "ids", ...), `id` whose."""

    kind: str
    id: str
    expected: list[str] | str
    found: list[str] | str


class Checked(NamedTuple):
    """Progress of a verification: `compared` lists since the last report, `of` all of them, the number of differences
    in these (`wrong`), and the first of them."""

    compared: int
    of: int
    wrong: int
    differences: list[Difference]


def compare_ids(base: Packed, recent: Mapping[str, int], rows: Rows) -> list[Difference]:
    """Check that ids and rows are one to one, and that the base is sorted. `rows` are those in use, ascending.
    O(n log n)."""
    named = np.sort(np.concatenate([base.row[base.row >= 0], np.fromiter(recent.values(), np.int32, len(recent))]))
    wrong = []
    if not np.array_equal(named, rows):
        wrong.append(Difference("ids", "", f"{len(rows)} rows", f"{len(named)} ids, or other rows"))
    if not is_sorted(base):
        wrong.append(Difference("ids", "", "sorted ids, each once", "others"))
    # A deleted id of the base may have come again since.
    if any((at := find_packed(base, key)) >= 0 for key in recent):
        wrong.append(Difference("ids", "", "each id once", f"one twice, at row {at}"))
    return wrong
