"""Prometheus collectors without locks, for metrics that one thread at a time updates.

Those of prometheus_client take a lock for each update: eight for a small write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Buckets:
    """The buckets of a histogram: how many values are in each, and the sum of all. `bounds` are ascending."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value. O(log bounds)."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def add_all(self, values: Sequence[float]) -> None:
        """Count values, at least one. O(values)."""
        if len(values) == 1:
            self.add(values[0])
            return
        bounds = self._bounds
        first, last = bisect_left(bounds, min(values)), bisect_left(bounds, max(values))
        if first == last:
            self.counts[first] += len(values)
        else:
            for value in values:
                self.counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)

    def buckets(self) -> list[tuple[str, float]]:
        """The cumulative counts by upper bound, as Prometheus has them."""
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


class UnlockedHistogram(Collector):
    """A histogram."""

    def __init__(self, name: str, help_text: str, bounds: Sequence[float]) -> None:
        self._about = name, help_text
        self._buckets = Buckets(bounds)
        self.observe = self._buckets.add

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(*self._about)]

    def collect(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(*self._about, buckets=self._buckets.buckets(), sum_value=self._buckets.total)]


class UnlockedGauge(Collector):
    """A gauge: set its `value`."""

    def __init__(self, name: str, help_text: str) -> None:
        self._about = name, help_text
        self.value = 0

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(*self._about)]

    def collect(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(*self._about, value=float(self.value))]


class Count:
    """The value of a counter for one combination of labels."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class UnlockedCounter(Collector):
    """A counter with labels."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self._about = name, help_text, None, labels
        self._found: dict[tuple[str, ...], Count] = {}

    def at(self, *labels: str) -> Count:
        """The count for these labels, created at 0."""
        return self._found.setdefault(labels, Count())

    def describe(self) -> Iterable[Metric]:
        return [CounterMetricFamily(*self._about)]

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(*self._about)
        for labels, tally in list(self._found.items()):
            family.add_metric(labels, float(tally.count))
        return [family]
