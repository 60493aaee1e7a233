"""What comparing an index with a scan finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.ids import Packed, find_packed, is_sorted


class Difference(NamedTuple):
    """What is wrong with what: an answer (its kind says of what), or the "ids"."""

    kind: str
    id: str
    expected: list[str] | str
    found: list[str] | str


class Checked(NamedTuple):
    """How many answers have been compared since the last one, of how many, how many differences were found, and the
    first of them."""

    compared: int
    of: int
    wrong: int
    differences: list[Difference]


def compare_ids(base: Packed, recent: Mapping[str, int], rows: npt.NDArray[np.int32]) -> list[Difference]:
    """Every id has a row, each of these rows, which ascend, an id, and the sorted ids are sorted."""
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
