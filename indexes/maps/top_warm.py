"""Run every path of a moving top-k once, so that all its kernels are compiled, or loaded."""

from __future__ import annotations

import numpy as np

from indexes.maps.attributes import Attribute
from indexes.maps.metrics import METRICS
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import expression_scoring, scoring
from indexes.maps.top import TopSearch
from indexes.maps.top_changes import TopKeeper

EXPRESSION = "min(distance, 9) * 2 / 3 - -1 + max(a, 1) ** 0.5 + sqrt(a) + log(a + 1) + exp(0 - a)"
"""Every step and every function by which it is judged."""


def exercise(index: PlaceIndex) -> None:
    """Ask an index for a top-k and a zone, and change an object. What kernels are given depends on neither the score
    nor the metric."""
    d = index.d
    attributes = [
        Attribute("abcdefghijklmnopqrstuvwxyz"[j % 26] + "_" * (j // 26), False, (0.0, 1.0)) for j in range(d)
    ]
    search, keeper = TopSearch(index), TopKeeper(d)
    for metric in METRICS:
        for s in (
            scoring("weighted_sum", attributes, {"distance": 1.0}, metric),
            expression_scoring(EXPRESSION if d else "distance", attributes, metric),
        ):
            search.top([(0.5, 0.5)], 3, s)
            zone = search.zone((0.5, 0.5), 3, 2, s, ordered=True)
            zone.inside(0.5, 0.5)
            zone.ranked(0.5, 0.5)
            created = int(index.view.created.max(initial=0)) + 1
            keeper.put(zone, len(index.view.at), 0.6, 0.6, np.zeros(d), created)
            keeper.delete(zone, len(index.view.at))
