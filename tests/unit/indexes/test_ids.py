"""The id map against a dict."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from indexes.core.ids import IdMap, common, find_packed, first_repeat, merge_packed, pack

keys = st.text(st.sampled_from("ab01._"), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    bulk=st.lists(st.lists(keys, unique=True, max_size=30), max_size=3),
    steps=st.lists(st.tuples(st.booleans(), keys), max_size=40),
)
def test_it_finds_lists_and_forgets_like_a_dict(bulk: list[list[str]], steps: list[tuple[bool, str]]) -> None:
    ids, truth, row = IdMap(), dict[str, int](), 0
    for more in [*bulk, []]:
        fresh = [key for key in more if key not in truth]
        rows = np.arange(row, row + len(fresh), dtype=np.int32)
        row += len(fresh)
        ids.swap(ids.merged(pack(pa.array(fresh, pa.string()), rows)))
        truth.update(zip(fresh, rows.tolist(), strict=True))
        for insert, key in steps:
            if insert and key not in truth:
                ids.insert(key, row)
                truth[key] = row
                row += 1
            elif not insert and key in truth:
                ids.delete(key)
                del truth[key]
        ids.check()
        assert len(ids) == len(truth)
        assert list(ids.after(None)) == sorted(truth.items())
        for key in ["a", "b0", *truth]:
            assert ids.find(key) == truth.get(key, -1)
            assert list(ids.after(key)) == sorted((k, v) for k, v in truth.items() if k > key)


@given(a=st.lists(keys, max_size=30), b=st.lists(keys, unique=True, max_size=30))
@settings(max_examples=100, deadline=None)
def test_packed_ids_tell_repeats_and_what_they_share(a: list[str], b: list[str]) -> None:
    first, second = (pack(pa.array(k, pa.string()), np.arange(len(k), dtype=np.int32)) for k in (a, b))
    repeat = first_repeat(first)
    assert (repeat is None) == (len(set(a)) == len(a))
    assert repeat is None or a.count(repeat) > 1
    if repeat is None:
        assert set(common(first, second)) == set(a) & set(b)
        if not set(a) & set(b):
            both = merge_packed(first, second)
            assert [find_packed(both, key) for key in sorted([*a, *b])] == [int(r) for r in both.row]


def test_it_asks_for_a_merge_when_much_has_come_one_by_one() -> None:
    ids = IdMap()
    for i in range(65_537):
        ids.insert(f"k{i}", i)
    assert ids.crowded
    ids.swap(ids.merged())
    assert not ids.crowded
    assert ids.find("k65536") == 65_536
    ids.check()
