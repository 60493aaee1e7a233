"""Winners of matchers against brute force, over the largest and the smallest numbers that matchers take.

Subscriptions come, change and go in between, and those whose total is no number are refused.
"""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.matchers.config import Kind, MatcherConfig
from tests.oracles.matchers import combined
from tests.unit.matchers.direct import DirectMatcher
from tests.unit.matchers.worlds import KINDS, MODES, NAMES, Combine, Mode, columns, wanted

INF = math.inf
TINY = 5e-324
NUMBERS = [0.0, -0.0, TINY, -TINY, 2.2250738585072014e-308, 1.0, -1.0, 1e160, 1e300, -1e300, math.nextafter(1e300, 0)]
WEIGHTS = [0.0, -0.0, TINY, 1e-200, 2.2250738585072014e-308, 0.5, 1.0, 1e150, 1e300]

number = st.sampled_from(NUMBERS)
end = st.one_of(number, st.none())


def ordered(a: float | None, b: float | None) -> tuple[float, float]:
    if a is None or b is None:
        return (-INF if a is None else a), (INF if b is None else b)
    return min(a, b), max(a, b)


interval = st.builds(ordered, end, end)
boxes = st.lists(st.one_of(st.none(), interval, interval), min_size=3, max_size=3)
scores = st.lists(st.sampled_from(WEIGHTS), min_size=3, max_size=3)
signed = st.lists(number, min_size=3, max_size=3)
places = st.lists(st.one_of(number, number, interval, st.none()), min_size=3, max_size=3)
steps = st.one_of(
    st.tuples(st.just("insert"), st.lists(st.tuples(boxes, scores, signed), min_size=1, max_size=6)),
    st.tuples(st.just("change"), st.integers(0, 30), boxes, scores, signed),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("match"), st.lists(places, min_size=1, max_size=3), st.sampled_from([1, 2, 9])),
)


class World:
    """A matcher, and its subscriptions in a dictionary beside it."""

    def __init__(self, config: MatcherConfig) -> None:
        self.config = config
        self.matcher = DirectMatcher(config)
        self.known: dict[int, Any] = {}
        self.made = 0

    def one(self, box: Any, weights: Any, score: Any) -> Any:
        """A subscription, None where its weights make no number."""
        if not self.config.relaxed:
            return box, score
        d = len(self.config.dimensions)
        mine = [w for w, i in zip(weights[:d], box[:d], strict=True) if i is not None]
        # A product counts the weights above 1 alone, as some of the dimensions may match and not the others.
        most = [max(w, 1.0) for w in mine] if self.config.combine == "product" else mine
        return (box, weights) if not most or math.isfinite(combined(most, self.config.combine)) else None

    def insert(self, rows: Any) -> None:
        good = [one for row in rows if (one := self.one(*row)) is not None]
        for row in rows:
            if self.one(*row) is None:
                with pytest.raises(ValueError, match="not finite"):
                    self.matcher.insert(pa.array(["x"]), columns(self.config, [row[:2]]))
        if good:
            keys = range(self.made, self.made + len(good))
            self.made += len(good)
            rows = self.matcher.insert(pa.array([f"s{n}" for n in keys]), columns(self.config, good))
            assert rows.tolist() == list(keys), "rows are in order of creation"
            self.known.update(zip(keys, good, strict=True))

    def change(self, n: int, *row: Any) -> None:
        one = self.one(*row)
        if n in self.known and one is not None:
            self.matcher.change([f"s{n}"], columns(self.config, [one]))
            self.known[n] = one

    def delete(self, n: int) -> None:
        if self.known.pop(n, None) is not None:
            self.matcher.delete([f"s{n}"])

    def match(self, asked: Any, k: int) -> None:
        events = [dict(zip(self.config.dimensions, event, strict=False)) for event in asked]
        found = self.matcher.match(self.matcher.events(events), k)
        assert not np.isnan(found.scores[np.arange(k) < found.found[:, None]]).any()
        for t, event in enumerate(asked):
            n = int(found.found[t])
            rows, totals = found.rows[t, :n].tolist(), found.scores[t, :n].tolist()
            assert list(zip(rows, totals, strict=True)) == wanted(self.config, self.known, event, k)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "combine"), MODES)
@settings(max_examples=10, deadline=None)
@given(d=st.integers(1, 3), changes=st.lists(steps, min_size=1, max_size=12), last=st.lists(places, min_size=1))
def test_winners_are_those_of_brute_force(
    kind: Kind, mode: Mode, combine: Combine, d: int, changes: list[Any], last: list[Any]
) -> None:
    with (
        patch("indexes.matchers.kernels.run_index.TAIL", 2),
        patch("indexes.matchers.kernels.cells.FEWEST", 1),
        patch("indexes.matchers.kernels.cells.SPREAD", 2),
        patch("indexes.matchers.kernels.blocks.TAIL", 2),
        patch("indexes.matchers.layout.SELECTIVE", 0.5),
    ):
        world = World(MatcherConfig(NAMES[:d], mode, combine, kind))
        for what, *rest in changes:
            getattr(world, what)(*rest)
        world.match(last, 3)
        world.matcher.check()
