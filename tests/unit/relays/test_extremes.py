"""Relays against brute force, over the largest and the smallest numbers that they take, and boxes without bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.relays.config import UPSTREAM, RelayConfig
from tests.oracles.relays import Router, matching
from tests.unit.relays.direct import DirectRelay, Subscribe, Unsubscribe, match
from tests.unit.relays.worlds import Way

INF = math.inf
TINY = 5e-324
NUMBERS = [0.0, -0.0, TINY, -TINY, 2.2250738585072014e-308, 1.0, -1.0, 1e160, 1e300, -1e300]
NEXT = [math.nextafter(1e300, 0.0), math.nextafter(-1e300, 0.0), math.nextafter(1.0, 0.0)]
WAYS: tuple[Way, ...] = (
    ("G", 1, "kd"),
    ("G", 3, "zorder"),
    ("G", 2, "linear"),
    ("G*", 1, "kd"),
    ("poset", 1, "zorder"),
    ("poset", 1, "kd"),
)

number = st.sampled_from(NUMBERS + NEXT)
end = st.one_of(number, st.none())


def ordered(a: float | None, b: float | None) -> tuple[float, float]:
    if a is None or b is None:
        return (-INF if a is None else a), (INF if b is None else b)
    return min(a, b), max(a, b)


interval = st.builds(ordered, end, end)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way)))
@settings(max_examples=25, deadline=None)
@given(d=st.integers(1, 3), data=st.data())
def test_what_is_forwarded_and_who_is_met_are_those_of_brute_force(way: Way, d: int, data: st.DataObject) -> None:
    steps = data.draw(
        st.lists(
            st.one_of(
                st.lists(interval, min_size=d, max_size=d),
                st.lists(interval, min_size=d, max_size=d),
                st.integers(0, 30),
            ),
            max_size=25,
        )
    )
    relay = DirectRelay(RelayConfig(("a", "b", "c")[:d], *way))
    router = Router()
    for n, step in enumerate(steps):
        if isinstance(step, int):
            if step in router.boxes:
                (ended,) = relay.apply([Unsubscribe(f"s{step}")])
                was, raised = router.unsubscribe(step)
                told: Any = ended
                assert told.forward_unsubscribe == {UPSTREAM: was}
                assert told.forward_subscribe == {UPSTREAM: [f"s{key}" for key in raised]}
            continue
        (begun,) = relay.apply([Subscribe(f"s{n}", [lo for lo, _ in step], [hi for _, hi in step])])
        told = begun
        assert told.forward == {UPSTREAM: router.subscribe(n, step)}
        assert set(told.covered_by[UPSTREAM]) <= {f"s{key}" for key in router.coverers(n)}
    relay.check()
    assert relay.forwarded(UPSTREAM) == [f"s{key}" for key in router.boxes if key in router.forwarded]
    points = data.draw(st.lists(st.lists(number, min_size=d, max_size=d), min_size=1, max_size=6))
    for point, delivery in zip(points, match(relay, np.array(points)), strict=True):
        assert delivery.subscriptions == [f"s{key}" for key in matching(router.boxes, point)]
    again = DirectRelay.from_state(relay.config, relay.state())
    for key, box in router.boxes.items():
        assert list(again.box(f"s{key}").values()) == list(box)
