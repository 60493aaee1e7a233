"""The ids of a captured engine, and lifetimes by id, as the states of resources take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexes.core.arrays import Floats, Ints, Ints32, Rows
from indexes.core.ids import IdMap, Packed, merge_packed, pack
from indexes.core.verification import Difference, compare_ids


class CapturedIds(NamedTuple):
    """A copy of an `IdMap`: its base and its recent ids, with their rows."""

    base: Packed
    recent: dict[str, int]

    @classmethod
    def of(cls, ids: IdMap) -> CapturedIds:
        """A copy. O(n)."""
        return cls(ids.base._replace(row=ids.base.row.copy()), ids.recent.copy())

    def merged(self) -> Packed:
        """All of them, sorted. O(n)."""
        rows = np.fromiter(self.recent.values(), np.int32, len(self.recent))
        return merge_packed(self.base, pack(pa.array(list(self.recent), pa.string()), rows))

    def by_row(self, rows: Ints | Ints32) -> dict[int, str]:
        """The ids of those of the rows that have one. O(n)."""
        names = {row: key for key, row in self.recent.items()}
        base = self.base
        for i in np.flatnonzero(np.isin(base.row, rows)).tolist():
            names[int(base.row[i])] = base.text[base.offset[i] : base.offset[i + 1]].tobytes().decode()
        return names

    def called(self, rows: Ints | Ints32) -> list[str]:
        """The id of each row, or its number where it has none. O(n)."""
        names = self.by_row(rows)
        return [names.get(row, str(row)) for row in rows.tolist()]

    def compare(self, rows: Rows) -> list[Difference]:
        """The differences to the rows in use, ascending: see `compare_ids`."""
        return compare_ids(self.base, self.recent, rows)


def texts(ids: Packed) -> pa.LargeStringArray:
    """Packed ids as an Arrow array over their bytes."""
    offset, text = np.ascontiguousarray(ids.offset), np.ascontiguousarray(ids.text)
    return pa.LargeStringArray.from_buffers(len(ids.row), pa.py_buffer(offset), pa.py_buffer(text))


def lifetimes_of(ids: Packed, ttl: Mapping[str, float]) -> Floats:
    """The lifetimes of ids in their order, NaN for none. All ids of `ttl` are among them. O(n)."""
    column = np.full(len(ids.row), np.nan)
    if ttl:
        places = pc.index_in(pa.array(list(ttl), pa.large_string()), texts(ids)).to_numpy()
        column[places.astype(np.int64)] = np.fromiter(ttl.values(), np.float64, len(ttl))
    return column


def lifetimes_by_id(ids: Packed, column: Floats) -> dict[str, float]:
    """The inverse of `lifetimes_of`. O(n)."""
    keys = texts(ids)
    return {keys[i].as_py(): float(column[i]) for i in np.flatnonzero(~np.isnan(column)).tolist()}
