"""Comparison of packed indexes."""

from __future__ import annotations

from typing import Any


def assert_same(ours: dict[str, Any], other: dict[str, Any]) -> None:
    """Bit for bit, with what lies behind the last entries."""
    assert ours.keys() == other.keys()
    for name, mine in ours.items():
        theirs = other[name]
        assert mine.shapes == theirs.shapes and mine.numbers == theirs.numbers, name
        for key, array in mine.arrays.items():
            assert array.dtype == theirs.arrays[key].dtype, (name, key)
            assert array.tobytes() == theirs.arrays[key].tobytes(), (name, key)
