"""What is counted without locks is shown as the library shows what it counts."""

from __future__ import annotations

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from app.runtime.counters import Buckets, UnlockedCounter, UnlockedGauge, UnlockedHistogram

BOUNDS = (0.5, 1, 2.5, 60)
VALUES = st.lists(st.one_of(st.sampled_from(BOUNDS), st.floats(0, 100)), max_size=20)
CHANGES = st.lists(st.tuples(st.sampled_from(["a", 'b"']), st.sampled_from(["x", "y\n"]), st.integers(0, 9)))


def shown(registry: CollectorRegistry) -> list[str]:
    """The text of the metrics, without when the library has made them."""
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


@given(VALUES, st.lists(st.integers(-9, 9)), CHANGES)
def test_the_text_is_that_of_the_library(
    values: list[float], steps: list[int], changes: list[tuple[str, str, int]]
) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    histogram, level, tallies = (
        UnlockedHistogram("h", "Help.", BOUNDS),
        UnlockedGauge("l", "Help."),
        UnlockedCounter("t", "Help.", ["p", "q"]),
    )
    for collector in (histogram, level, tallies):
        ours.register(collector)
    their_histogram = prometheus_client.Histogram("h", "Help.", buckets=BOUNDS, registry=theirs)
    their_level = prometheus_client.Gauge("l", "Help.", registry=theirs)
    their_tallies = prometheus_client.Counter("t", "Help.", ["p", "q"], registry=theirs)
    for value in values:
        histogram.observe(value)
        their_histogram.observe(value)
    for step in steps:
        level.value += step
        their_level.inc(step)
    for p, q, n in changes:
        tallies.at(p, q).count += n
        their_tallies.labels(p, q).inc(n)
    assert shown(ours) == shown(theirs)


@given(VALUES, st.lists(VALUES.filter(bool)))
def test_values_that_are_counted_together_are_counted_as_one_by_one(some: list[float], more: list[list[float]]) -> None:
    one_by_one, together = Buckets(BOUNDS), Buckets(BOUNDS)
    for buckets in (one_by_one, together):
        for value in some:
            buckets.add(value)
    for values in more:
        together.add_all(values)
        for value in values:
            one_by_one.add(value)
    assert together.counts == one_by_one.counts
    assert together.total == pytest.approx(one_by_one.total)
