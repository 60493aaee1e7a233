"""One row of one dimension is replaced by a kernel as it is by the indexes one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from indexes.compiled.masks import BLOCK
from indexes.core.arrays import INF, Floats
from indexes.core.ids import pack
from indexes.matchers import matcher as module
from indexes.matchers.config import MatcherConfig, Subscriptions, is_sound, table_of
from indexes.matchers.kernels import cells, run_index
from indexes.matchers.kernels.line import DONE, FULL, LET_GO, LET_GO_AFTER, SHORT, rewrite_row
from indexes.matchers.kernels.table import MAX, are_sound
from indexes.matchers.layout import Indexes
from indexes.matchers.matcher import Matcher

import pyarrow as pa  # isort: skip

N, TIMES = 2_000, 1_500


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "FEWEST", 1)
    monkeypatch.setattr(cells, "SPREAD", 64)
    monkeypatch.setattr(run_index, "TAIL", 16)
    monkeypatch.setattr(run_index, "GROWTH", 2)


def some(rng: np.random.Generator, n: int) -> Floats:
    """Intervals as rows of a table, some unbounded, of which one in ten takes no part; many scores are equal."""
    lo = rng.random(n)
    rows = np.column_stack([lo, lo + rng.random(n) ** 4, rng.integers(0, 40, n) / 8])
    rows[rng.random(n) < 0.02, 0] = -INF
    rows[rng.random(n) < 0.02, 1] = INF
    rows[rng.random(n) < 0.1, :2] = INF, -INF
    return rows


def made(config: MatcherConfig, rows: Floats) -> Matcher:
    ids = pack(pa.array([f"s{i:04}" for i in range(len(rows))]), np.arange(len(rows), dtype=np.int32))
    matcher = Matcher.of(config, ids, Subscriptions.of_table(config, rows))
    matcher.begin_journal()
    return matcher


def state(matcher: Matcher) -> Iterator[object]:
    """Everything that a change may change, without what is behind a tail or a run."""
    runs, cells = matcher.indexes.runs, matcher.indexes.cells
    assert runs is not None and cells is not None
    for column in cells.arrays:
        yield column.tobytes()
    pool = runs.arrays
    for column in (pool.place, pool.live, pool.used, pool.top, pool.tail_used):
        yield column.tobytes()
    for column in (pool.tail_lo, pool.tail_hi, pool.tail_score, pool.tail_row):
        yield column[: pool.tail_used[0]].tobytes()
    yield from (matcher.table().tobytes(), matcher._stale[:N].tobytes(), matcher._added, matcher._edits)
    yield [rows.tolist() for rows in matcher._journal or ()]


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
@pytest.mark.parametrize("most", [10_000, 20, 0])
def test_a_row_is_replaced_as_it_is_by_one_index_after_the_other(
    mode: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    config = MatcherConfig(("a",), mode)  # type: ignore[arg-type]
    first = some(rng, N)
    at_once, one_by_one = made(config, first), made(config, first)
    ways: Counter[int] = Counter()

    def counted(*args: Any) -> int:
        far: int = rewrite_row(*args)
        ways[far] += 1
        return far

    for one in (module, cells):
        monkeypatch.setattr(one, "most_lists", lambda rows: most)
    with patch.object(module, "rewrite_row", counted):
        for n in range(TIMES):
            table = some(rng, 1)
            # Ever worse ones, so that lists become short.
            table[0, 2] -= n / 50
            rows, fresh = rng.integers(0, N, 1).astype(np.int32), Subscriptions.of_table(config, table)
            if n == most:
                rows[0] = np.argmax(np.where(first[:, 0] <= first[:, 1], first[:, 2], -1.0))
            at_once.rewrite(rows, fresh)
            with patch.object(Indexes, "on_a_line", False):
                one_by_one.rewrite(rows, fresh)
            if n % 50 == 0:
                assert list(state(at_once)) == list(state(one_by_one))
    assert list(state(at_once)) == list(state(one_by_one))
    at_once.check()
    assert ways[DONE] and ways[FULL] and ways.total() == TIMES
    assert (ways[SHORT] > 0) == (most > 20)
    assert (ways[LET_GO] > 0, ways[LET_GO_AFTER] > 0) == (most == 0, most == 20)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_last_row_of_a_full_list_comes_back_with_the_same_score(at_once: bool) -> None:
    config, first = MatcherConfig(("a",), "exact"), some(np.random.default_rng(7), N)
    matcher = made(config, first)
    index = matcher.indexes.cells
    assert index is not None
    lasts = np.unique(index.arrays.floor_row[index.arrays.used == BLOCK])
    assert len(lasts)
    with patch.object(Indexes, "on_a_line", at_once):
        for row in lasts.tolist():
            matcher.rewrite(np.array([row], np.int32), Subscriptions.of_table(config, first[row : row + 1]))
            matcher.check()


@pytest.mark.parametrize("config", [MatcherConfig(("a",), "exact"), MatcherConfig(("a", "b"), "relaxed", "product")])
def test_a_row_is_sound_where_its_table_is(config: MatcherConfig) -> None:
    least, most = (0.0, 1.0) if config.relaxed else (-MAX, MAX)
    rng, ends = np.random.default_rng(3), [-INF, -1.0, 0.0, 0.5, 1.0, INF, float("nan"), MAX, -MAX]
    found = set()
    for _ in range(2_000):
        row = rng.choice(ends, 2 * len(config.dimensions) + config.scores).tolist()
        sound = is_sound(config, row)
        assert sound == are_sound(table_of(config, [row]), len(config.dimensions), least, most)
        found.add(sound)
    assert found == {True, False}
