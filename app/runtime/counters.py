"""Metrics that are counted by one thread at a time, without the locks of the library.

It takes one for each number that it adds, eight for a small write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Spread:
    """How many values are at most as large as each of some bounds, and their sum."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def add_all(self, values: Sequence[float]) -> None:
        """Count values, at least one."""
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
        """How many are at most as large as each bound says."""
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


class Histogram(Collector):
    """A `Spread` by its name."""

    def __init__(self, name: str, help_text: str, bounds: Sequence[float]) -> None:
        self._about = name, help_text
        self._spread = Spread(bounds)
        self.observe = self._spread.add

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(*self._about)]

    def collect(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(*self._about, buckets=self._spread.buckets(), sum_value=self._spread.total)]


class Level(Collector):
    """A number that goes up and down."""

    def __init__(self, name: str, help_text: str) -> None:
        self._about = name, help_text
        self.value = 0

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(*self._about)]

    def collect(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(*self._about, value=float(self.value))]


class Tally:
    """A number that grows."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Tallies(Collector):
    """Numbers that grow, by their labels."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self._about = name, help_text, None, labels
        self._found: dict[tuple[str, ...], Tally] = {}

    def at(self, *labels: str) -> Tally:
        """The one with these labels, which is shown from now on."""
        return self._found.setdefault(labels, Tally())

    def describe(self) -> Iterable[Metric]:
        return [CounterMetricFamily(*self._about)]

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(*self._about)
        for labels, tally in list(self._found.items()):
            family.add_metric(labels, float(tally.count))
        return [family]
