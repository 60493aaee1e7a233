"""Histories of events on a grid, with ranges and without some dimensions, and their winners by brute force."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from indexes.matchers.config import MatcherConfig
from indexes.matchers.state import MatcherState
from tests.oracles.matchers import Value, exact_top, relaxed_top


def history(seed: int, n: int, dimensions: tuple[str, ...]) -> pa.Table:
    """Events of which some lack dimensions, and some are ranges in the first one.

    Other columns come between: one of lists, one of times.
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"visit": pa.array([f"v{i}" for i in range(n)])}
    for j, name in enumerate(dimensions):
        values = rng.integers(-14, 15, n).astype(float) / (1 + j % 2)
        how = rng.random(n)
        ranged = (how < 0.3) & (j == 0)
        columns[name] = pa.array(values, mask=ranged | (how > 0.85))
        if j == 0:
            width = rng.integers(0, 5, n)
            columns[f"{name}_min"] = pa.array(values, mask=~ranged | (width == 4))
            columns[f"{name}_max"] = pa.array(values + width, mask=~ranged | (width == 3))
    columns["pages"] = pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int16()))
    columns["at"] = pa.array(np.arange(n), pa.timestamp("ns", "UTC"))
    return pa.table(columns)


def values(table: pa.Table, dimensions: tuple[str, ...]) -> list[list[Value]]:
    """The events of a table as the oracle takes them."""
    found: list[list[Value]] = []
    for row in table.to_pylist():
        event: list[Value] = []
        for name in dimensions:
            lo, hi = row.get(f"{name}_min"), row.get(f"{name}_max")
            if lo is None and hi is None:
                event.append(row.get(name))
            else:
                event.append((-inf if lo is None else lo, inf if hi is None else hi))
        found.append(event)
    return found


def wanted(state: MatcherState, table: pa.Table, k: int) -> list[list[dict[str, Any]]]:
    """The winners of each event of a table by brute force."""
    config, ids = state.config, _ids(state)
    lo, hi, scores = (column.tolist() for column in state.subscriptions)
    boxes = [[None if a > b else (a, b) for a, b in zip(*ends, strict=True)] for ends in zip(lo, hi, strict=True)]
    found = []
    for event in values(table, config.dimensions):
        best = _best(config, boxes, scores, event, k)
        found.append([{"id": ids[row], "score": score} for row, score in best])
    return found


def _best(config: MatcherConfig, boxes: Any, scores: Any, event: list[Value], k: int) -> list[tuple[int, float]]:
    if config.relaxed:
        return relaxed_top(dict(enumerate(zip(boxes, scores, strict=True))), event, k, config.combine)
    pairs = zip(boxes, (score for (score,) in scores), strict=True)
    return exact_top(dict(enumerate(pairs)), event, k)


def _ids(state: MatcherState) -> dict[int, str]:
    text, offset, rows = state.ids
    return {row: text[offset[i] : offset[i + 1]].tobytes().decode() for i, row in enumerate(rows.tolist())}
