"""Ids of rows, one by one and many at a time."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from indexes.core.ids import pack
from indexes.core.names import Names

batches = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@given(batches, st.data())
def test_many_ids_are_those_of_each_row(sizes: list[int], data: st.DataObject) -> None:
    names = Names()
    there: dict[int, str] = {}
    with patch("indexes.core.names.BULK", 4):
        for size in sizes:
            rows = np.arange(len(there), len(there) + size, dtype=np.int32)
            keys = [f"s{row * 7 % 31}-{row}" for row in rows.tolist()]
            names.insert(pa.array(keys), rows)
            there |= dict(zip(rows.tolist(), keys, strict=True))
            gone = data.draw(st.sets(st.sampled_from(sorted(there)), max_size=2)) if len(there) > 5 else set()
            for row in gone:
                names.delete(there[row], row)
            left = [row for row in there if row not in gone]
            wanted = data.draw(st.lists(st.sampled_from(left), max_size=8))
            assert names.many(np.array(wanted, np.int32)).to_pylist() == [there[row] for row in wanted]
            absent = ["", "s", "s0-0\0", *[there[row] for row in gone]]
            asked = data.draw(st.lists(st.sampled_from([*absent, *[there[row] for row in left]]), max_size=8))
            row_of = {there[row]: row for row in left}
            assert names.find_all(asked).tolist() == [row_of.get(key, -1) for key in asked]
            assert [names.name(row) for row in left] == [there[row] for row in left]
            for row in gone:
                names.insert(pa.array([there[row]]), np.array([row], np.int32))


def test_recent_ids_are_found_while_others_come_and_go() -> None:
    names, n = Names(), 300
    names.load(pack(pa.array([f"b{row:03}" for row in range(10)]), np.arange(10, dtype=np.int32)))
    there = {row: f"b{row:03}" for row in range(10)}
    with patch("indexes.core.names.MOST_LATER", 20):
        for at in range(n):
            row = 10 + at % 13
            if row in there:
                names.delete(there.pop(row), row)
            there[row] = f"ü{at}"
            names.note_one(there[row], row)
            if at % 3:
                rows = list(there)
                before = names.many(np.array(rows, np.int32))
                assert before.to_pylist() == list(there.values())
                assert len(names._later) <= 2 * 13 + 20 + 13, "what is gone is not kept for good"
    assert names.many(np.empty(0, np.int32)).to_pylist() == []


def test_a_row_that_was_named_has_the_id_of_whoever_has_it_now() -> None:
    names = Names()
    names.load(pack(pa.array([f"b{row}" for row in range(8)]), np.arange(8, dtype=np.int32)))
    there = {row: f"b{row}" for row in range(8)}
    with patch("indexes.core.names.MOST_NAMED", 3):
        for at in range(40):
            assert {row: names.name(row) for row in there} == there
            row = at % 5
            names.delete(there.pop(row), row)
            names.note_all([f"n{at}"], [row])
            there[row] = f"n{at}"
            if at % 7 == 6:
                names.swap(names.merged())
