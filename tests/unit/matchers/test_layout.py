"""Indexes that are laid out in parts are those that are laid out at once, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.matchers import layout as layout_module
from indexes.matchers.config import Kind, MatcherConfig, Subscriptions
from indexes.matchers.kernels.table import record
from indexes.matchers.layout import WHOLE, build_indexes, build_part, join_parts, parts_of
from indexes.matchers.packing import pack_indexes, unpack_indexes
from tests.unit.matchers.helpers import assert_same
from tests.unit.matchers.worlds import KINDS, MODES, NAMES, Combine, Mode, columns, subscriptions


def in_parts(config: MatcherConfig, made: Subscriptions) -> dict[str, Any]:
    """The indexes of subscriptions, part by part, each packed and unpacked as on its way between processes."""
    rows = np.arange(len(made.lo), dtype=np.int32)
    parts = []
    for part in parts_of(config):
        lo, hi, scores = made
        if part != WHOLE:
            lo, hi = lo[:, [part]], hi[:, [part]]
            scores = scores[:, [part if config.relaxed else 0]]
        parts.append(unpack_indexes(pack_indexes(build_part(config, part, record(lo, hi, scores), rows))))
    return pack_indexes(join_parts(config, parts))


def at_once(config: MatcherConfig, made: Subscriptions) -> dict[str, Any]:
    rows = np.arange(len(made.lo), dtype=np.int32)
    return pack_indexes(build_indexes(config, record(*made), rows))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "combine"), MODES)
@given(d=st.integers(1, 3), world=st.lists(subscriptions, max_size=30))
@settings(max_examples=15)
def test_parts_join_to_what_is_laid_out_at_once(
    kind: Kind, mode: Mode, combine: Combine, d: int, world: list[tuple[list[tuple[Any, ...] | None], list[float]]]
) -> None:
    config = MatcherConfig(NAMES[:d], mode, combine, kind)
    made = columns(config, world)
    assert_same(in_parts(config, made), at_once(config, made))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_parts_of_several_levels_join(kind: Kind, mode: Mode) -> None:
    rng = np.random.default_rng(4)
    n, config = 2_500, MatcherConfig(NAMES, mode, "sum", kind)
    mid, half = rng.integers(0, 300, (n, 3)).astype(float), rng.integers(0, 40, (n, 3)).astype(float)
    half[:, 1] = rng.random(n)
    mid[::97, 2], half[::97, 2] = 0.0, np.inf
    made = Subscriptions(mid - half, mid + half, rng.integers(0, 9, (n, config.scores)) / 4)
    joined = in_parts(config, made)
    assert_same(joined, at_once(config, made))
    if kind == "auto" and mode == "exact":
        assert joined["runs"].numbers["held"] == [1], "the dimension of short intervals alone"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_the_layout_does_not_depend_on_where_a_sort_leaves_equals(
    kind: Kind, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which a sort that is not stable may do as the processor likes."""
    rng = np.random.default_rng(6)
    n, config = 1_500, MatcherConfig(NAMES, mode, "sum", kind)
    mid, half = rng.integers(0, 12, (n, 3)).astype(float), rng.integers(0, 3, (n, 3)).astype(float)
    half[::7, 0], half[1::7, 1] = np.inf, np.inf
    made = Subscriptions(mid - half, mid + half, rng.integers(0, 4, (n, config.scores)) / 4)
    found = at_once(config, made)
    argsort = np.argsort

    def last_first(values: np.ndarray, axis: int = -1, kind: Any = None) -> np.ndarray:
        """Equals the other way round, unless they are asked for as they stand."""
        if kind == "stable":
            return argsort(values, axis=axis, kind=kind)
        flipped = argsort(np.flip(values, axis=axis), axis=axis, kind="stable")
        return values.shape[axis] - 1 - flipped

    monkeypatch.setattr(np, "argsort", last_first)
    assert_same(at_once(config, made), found)


@pytest.mark.parametrize("selective", [0.0, 0.2, 1.0])
def test_each_dimension_finds_out_for_itself_whether_it_is_selective(
    selective: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_module, "SELECTIVE", selective)
    rng = np.random.default_rng(5)
    config = MatcherConfig(NAMES, "exact")
    mid = rng.random((200, 3))
    half = rng.random((200, 3)) / [1, 10, 100]
    made = Subscriptions(mid - half, mid + half, rng.random((200, 1)))
    joined = in_parts(config, made)
    assert_same(joined, at_once(config, made))
    held = joined["runs"].numbers["held"] if "runs" in joined else []
    assert len(held) == {0.0: 0, 0.2: 2, 1.0: 3}[selective]
