"""A matcher against a scan: the winners of sampled events, from the indexes and without them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from indexes.core.arrays import Floats, Ints32
from indexes.core.verification import Checked, Difference
from indexes.matchers.config import MatcherConfig
from indexes.matchers.kernels.table import MISSING
from indexes.matchers.plans.maintenance import Captured

EVENTS = 256
"""Events that are compared."""

PIECE = 16
"""Events between two reports."""

K = 20


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare the winners of sampled events, ids and rows. O(d n) an event."""
    matcher, origin = captured.matcher, captured.origin
    assert matcher is not None, "the indexes were not copied"
    wrong = captured.ids.compare(origin.rows)
    events = sampled(captured.config, captured.rec[origin.rows])
    yield Checked(0, len(events), len(wrong), wrong)
    for start in range(0, len(events), PIECE):
        some = events[start : start + PIECE]
        found = matcher.match(some, K)
        wrong = []
        for t, event in enumerate(some):
            rows, scores = scan(captured.config, captured.rec, origin.rows, event, K)
            mine = slice(0, int(found.found[t]))
            if not (np.array_equal(rows, found.rows[t, mine]) and np.array_equal(scores, found.scores[t, mine])):
                texts = (_text(captured, rows, scores), _text(captured, found.rows[t, mine], found.scores[t, mine]))
                wrong.append(Difference("event", f"{event.tolist()}", *texts))
        yield Checked(len(some), len(events), len(wrong), wrong)


def sampled(config: MatcherConfig, rec: Floats) -> Floats:
    """Events at and between the ends of subscriptions that are spread evenly over their ages; some lack a dimension,
    and some are ranges. The same every time."""
    n, d = len(rec), len(config.dimensions)
    picked = rec[np.linspace(0, n - 1, min(n, EVENTS)).astype(np.int64)] if n else rec
    events = np.empty((len(picked), 2 * d))
    for t, row in enumerate(picked):
        for j in range(d):
            lo, hi = np.nan_to_num(row[2 * j : 2 * j + 2], posinf=0.0, neginf=0.0).tolist()
            first = (lo, hi, lo / 2 + hi / 2)[(t + j) % 3]
            last = max(first, hi) if t % 8 == 3 else first
            events[t, 2 * j : 2 * j + 2] = MISSING if (t + j) % 16 == 5 else (first, last)
    return events


def scan(config: MatcherConfig, rec: Floats, rows: Ints32, event: Floats, k: int) -> tuple[Ints32, Floats]:
    """The k best of these rows of a table for an event, and their scores, without any index. O(d n)."""
    d = len(config.dimensions)
    met = [(rec[rows, 2 * j] <= event[2 * j + 1]) & (rec[rows, 2 * j + 1] >= event[2 * j]) for j in range(d)]
    if config.relaxed:
        matched = np.logical_or.reduce(met)
        rows = rows[matched]
        scores, begun = np.zeros(len(rows)), np.zeros(len(rows), bool)
        for j in range(d):
            here, weight = met[j][matched], rec[rows, 2 * d + j]
            match config.combine:
                case "sum":
                    scores = np.where(here, scores + weight, scores)
                case "max":
                    scores = np.where(here, np.maximum(scores, weight), scores)
                case "product":
                    scores = np.where(here, np.where(begun, scores * weight, weight), scores)
            begun |= here
    else:
        rows = rows[np.logical_and.reduce(met)]
        scores = rec[rows, 2 * d]
    best = np.lexsort((rows, -scores))[:k]
    return rows[best], scores[best]


def _text(captured: Captured, rows: Ints32, scores: Floats) -> list[str]:
    """Winners by id, as text."""
    keys = captured.ids.called(rows)
    return [f"{key} {score!r}" for key, score in zip(keys, scores.tolist(), strict=True)]
