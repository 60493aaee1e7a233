"""The id map against a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from indexes.core.front_coding import CodedIdMap, coded
from indexes.core.ids import AnyIdMap, IdMap, common, find_packed, first_repeat, merge_packed, pack

keys = st.text(st.sampled_from("ab01._"), min_size=1, max_size=4)
long_keys = st.builds(
    lambda head, n, tail: head * n + tail,
    st.sampled_from("ab\u00e9"),
    st.integers(0, 300),
    st.sampled_from(["", "x", "yy"]),
).filter(bool)
maps = pytest.mark.parametrize("make", [IdMap, CodedIdMap])


@maps
@settings(max_examples=100, deadline=None)
@given(
    bulk=st.lists(st.lists(keys | long_keys, unique=True, max_size=80), max_size=3),
    steps=st.lists(st.tuples(st.booleans(), keys | long_keys), max_size=40),
)
def test_it_finds_lists_and_forgets_like_a_dict(
    make: Callable[[], AnyIdMap[Any]], bulk: list[list[str]], steps: list[tuple[bool, str]]
) -> None:
    ids, truth, row = make(), dict[str, int](), 0
    for more in [*bulk, []]:
        fresh = [key for key in more if key not in truth]
        rows = np.arange(row, row + len(fresh), dtype=np.int32)
        row += len(fresh)
        ids.swap(ids.merged(pack(pa.array(fresh, pa.string()), rows) if fresh else None))
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


@maps
@settings(max_examples=100, deadline=None)
@given(
    base=st.lists(keys | st.just("a\0b"), unique=True, max_size=60),
    recent=st.lists(keys, unique=True, max_size=20),
    gone=st.lists(st.lists(keys | st.just("a\0b"), unique=True, max_size=30), max_size=4),
)
def test_many_ids_are_found_and_forgotten_as_one_by_one(
    make: Callable[[], AnyIdMap[Any]], base: list[str], recent: list[str], gone: list[list[str]]
) -> None:
    ids = make()
    ids.swap(ids.merged(pack(pa.array(base, pa.string()), np.arange(len(base), dtype=np.int32))))
    fresh = [key for key in recent if key not in base]
    ids.insert_all(fresh, range(len(base), len(base) + len(fresh)))
    truth = {key: row for row, key in enumerate([*base, *fresh])}
    for keys_ in gone:
        assert ids.find_all(keys_).tolist() == [truth.get(key, -1) for key in keys_]
        there = [key for key in keys_ if key in truth]
        ids.delete_all(there)
        for key in there:
            del truth[key]
        ids.check()
        assert list(ids.after(None)) == sorted(truth.items()) and len(ids) == len(truth)


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


@given(some=st.lists(keys | long_keys, unique=True, max_size=100))
@settings(max_examples=100, deadline=None)
def test_front_coding_is_read_back_and_found(some: list[str]) -> None:
    whole = pack(pa.array(some, pa.string()), np.arange(len(some), dtype=np.int32))
    short = coded(whole)
    again = short.packed()
    assert again.text.tobytes() == whole.text.tobytes()
    assert again.offset.tolist() == whole.offset.tolist() and again.row.tolist() == whole.row.tolist()
    assert [some[row] for row in short.row.tolist()] == sorted(some, key=str.encode)
    for key in {*some, *(key + "0" for key in some), *(key[:-1] for key in some)}:
        assert short.place(key) == whole.place(key)
        assert list(short.after(key)) == list(whole.after(key))
    assert short.common(whole) == whole.common(whole)


def test_a_numbered_id_takes_three_bytes_and_its_row() -> None:
    n = 100_000
    ids = coded(pack(pa.array([f"s{i}" for i in range(n)]), np.arange(n, dtype=np.int32)))
    assert ids.text.nbytes + ids.start.nbytes < 3.2 * n
    assert all(ids.row[ids.place(f"s{i}")] == i for i in range(0, n, 997))


@maps
def test_it_asks_for_a_merge_when_much_has_come_one_by_one(make: Callable[[], AnyIdMap[Any]]) -> None:
    ids = make()
    for i in range(65_537):
        ids.insert(f"k{i}", i)
    assert ids.crowded
    ids.swap(ids.merged())
    assert not ids.crowded
    assert ids.find("k65536") == 65_536
    ids.check()


@settings(max_examples=100, deadline=None)
@given(
    bulk=st.lists(st.lists(keys, unique=True, max_size=20), min_size=1, max_size=4),
    asked=st.lists(st.lists(keys, min_size=1, max_size=6), min_size=4, max_size=4),
    most=st.integers(1, 5),
)
def test_what_was_not_found_is_found_once_it_is_there(bulk: list[list[str]], asked: list[list[str]], most: int) -> None:
    ids, truth = IdMap(), dict[str, int]()
    with patch("indexes.core.ids.MOST_ABSENT", most):
        for one_by_one, more in enumerate(bulk):
            for some in asked:
                assert ids.any_of(some) == any(key in truth for key in some)
                assert [ids.find(key) for key in some] == [truth.get(key, -1) for key in some]
            fresh = [key for key in more if key not in truth]
            rows = list(range(len(truth), len(truth) + len(fresh)))
            ids.insert_all(fresh, rows)
            truth |= dict(zip(fresh, rows, strict=True))
            for some in asked:
                assert ids.any_of(some) == any(key in truth for key in some)
            if one_by_one % 2:
                ids.swap(ids.merged())
            for key in fresh[::3]:
                ids.delete(key)
                truth[key] = -1
            truth = {key: row for key, row in truth.items() if row >= 0}
            assert len(ids._absent) <= most
            ids.check()
