"""What the service counts, in the Prometheus text format at ``/metrics``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from app.runtime.counters import Buckets, Count, UnlockedCounter, UnlockedGauge, UnlockedHistogram

CollectorT = TypeVar("CollectorT", bound=Collector)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

COUNTED_TOGETHER = 16
"""Lone writes that are counted at once. To count each by itself runs code that is in no cache of the processor, which
on one connection takes longer than some of its steps."""

_LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
_METHODS = frozenset({"GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "WS"})


class Metrics:
    """The counters of one service. Each has a registry of its own, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._before_reading = _BeforeReading()
        # The first to be collected, so that what it counts is in the others.
        self.registry.register(self._before_reading)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        r = self.registry
        self.requests = _Requests()
        r.register(self.requests)
        self.requests_open = self._own(UnlockedGauge("rankcast_requests_open", "Requests being answered."))
        self.writer_queue = Gauge("rankcast_writer_queue", "Requests waiting for the writer.", registry=r)
        self.group_size = self._own(UnlockedHistogram("rankcast_group_size", "Commands in one commit.", _SIZES))
        self.commit_seconds = self._own(
            UnlockedHistogram("rankcast_commit_seconds", "Seconds of one commit.", _LATENCIES)
        )
        self.slice_seconds = self._own(
            UnlockedHistogram("rankcast_slice_seconds", "Seconds of one slice of work.", _LATENCIES)
        )
        self.delivery_seconds = self._own(
            UnlockedHistogram(
                "rankcast_delivery_seconds",
                "Seconds from the acceptance of a command until its messages are in the queues of all readers.",
                _LATENCIES,
            )
        )
        self.ready = Gauge("rankcast_ready", "Whether the service has started and takes writes.", registry=r)
        self.verify_differences = Gauge(
            "rankcast_verify_differences", "Differences that the last verification found.", registry=r
        )
        self.changes = self._own(
            UnlockedCounter("rankcast_changes", "Single changes applied.", ["resource", "command"])
        )
        self.tiles = self._own(UnlockedCounter("rankcast_tiles", "Tiles painted.", ["resource"]))
        self.streams = Gauge("rankcast_streams", "Open streams.", ["transport"], registry=r)
        self.stream_messages = Counter("rankcast_stream_messages", "Messages to streams.", ["event"], registry=r)
        self.stream_collapses = Counter("rankcast_stream_collapses", "Queues of slow readers merged.", registry=r)
        self.map_answers = Counter(
            "rankcast_map_answers", "Places for which a map was asked.", ["resource", "kind"], registry=r
        )
        self.resource_failures = Counter(
            "rankcast_resource_failures", "Times that a resource failed and was rebuilt.", ["resource"], registry=r
        )
        self.failed_resources = Gauge(
            "rankcast_failed_resources", "Resources that have failed and are not rebuilt yet.", registry=r
        )
        self.jobs = Counter("rankcast_jobs", "Jobs that have ended.", ["kind", "state"], registry=r)
        self.link_messages = Counter(
            "rankcast_link_messages", "Messages between relays, by direction.", ["link", "direction"], registry=r
        )
        self.passed_requests = Counter(
            "rankcast_passed_requests", "Requests that a replica passed on to its leader.", ["status"], registry=r
        )
        self.webhook_requests = Counter(
            "rankcast_webhook_requests", "Requests to receivers of webhooks.", ["result"], registry=r
        )
        self.webhook_events = Counter("rankcast_webhook_events", "Events that receivers have taken.", registry=r)
        self.webhook_seconds = Histogram(
            "rankcast_webhook_seconds", "Seconds of a request to a receiver.", buckets=_LATENCIES, registry=r
        )
        self.zone_messages = Counter("rankcast_zone_messages", "Messages of zones sent to NATS.", ["board"], registry=r)
        self._snapshot = _LastSnapshot()
        r.register(self._snapshot)
        self._applied: dict[tuple[str, str], tuple[Count, Count]] = {}

    def _own(self, collector: CollectorT) -> CollectorT:
        self.registry.register(collector)
        return collector

    def before_reading(self, count: Callable[[], None]) -> None:
        """Call `count` before metrics are read, on the event loop: it counts what is counted together."""
        self._before_reading.counts.append(count)

    def observe(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count one answered request, and if `seconds` is given how long its first byte took. On the event loop."""
        found = self._answered(method, route, status)
        found.count += 1
        if seconds is not None:
            found.times.add(seconds)

    def observe_all(self, method: str, route: str, status: int, seconds: Sequence[float]) -> None:
        """Count some answered requests, at least one, each as `observe` does."""
        found = self._answered(method, route, status)
        found.count += len(seconds)
        found.times.add_all(seconds)

    def _answered(self, method: str, route: str, status: int) -> _Answered:
        found = self.requests.seen.get((method, route, status))
        return self.requests.add(method, route, status) if found is None else found

    def applied(self, resource: str, command: str, changes: int, tiles: int = 0) -> None:
        """Count what one command did to a resource."""
        found = self._applied.get((resource, command))
        if found is None:
            found = self.changes.at(resource, command), self.tiles.at(resource)
            self._applied[resource, command] = found
        found[0].count += changes
        found[1].count += tiles

    def snapshot_taken(self, lsn: int, created: float, seconds: float | None = None) -> None:
        """The newest snapshot holds the log up to `lsn`.

        `created` is in seconds since 1970, `seconds` what it took, if that is known.
        """
        self._snapshot.last = lsn, created, seconds

    def gauge(self, name: str, help_text: str, label: str, values: Callable[[], Mapping[str, float]]) -> None:
        """A gauge whose values are read at each scrape, one for each value of `label`."""
        self.registry.register(_Asked(name, help_text, label, values))

    def render(self) -> bytes:
        """Everything, as text."""
        return generate_latest(self.registry)


class _BeforeReading(Collector):
    """No metric itself: has counted in the others, when metrics are read, what is not counted yet."""

    def __init__(self) -> None:
        self.counts: list[Callable[[], None]] = []

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        for count in self.counts:
            count()
        return ()


class _Answered:
    """The requests with one method, route and status; `times` are shared by all statuses."""

    __slots__ = ("count", "times")

    def __init__(self, times: Buckets) -> None:
        self.count = 0
        self.times = times


class _Requests(Collector):
    """Answered requests, counted on the event loop alone."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str, int], _Answered] = {}
        self._by_status: dict[tuple[str, str, str], _Answered] = {}
        self._by_route: dict[tuple[str, str], Buckets] = {}

    def add(self, method: str, route: str, status: int) -> _Answered:
        """The requests with this method, route and status, of which there are none yet, or of an unknown method."""
        name = method if method in _METHODS else "other"
        times = self._by_route.setdefault((name, route), Buckets(_LATENCIES))
        found = self._by_status.setdefault((name, route, str(status)), _Answered(times))
        if name == method:
            self.seen[method, route, status] = found
        return found

    def describe(self) -> Iterable[Metric]:
        return self._families()

    def collect(self) -> Iterable[Metric]:
        counted, timed = self._families()
        for labels, answered in list(self._by_status.items()):
            counted.add_metric(labels, float(answered.count))
        for route, times in list(self._by_route.items()):
            timed.add_metric(route, times.buckets(), times.total)
        return counted, timed

    @staticmethod
    def _families() -> tuple[CounterMetricFamily, HistogramMetricFamily]:
        labels = "method", "route", "status"
        seconds = "Seconds to an answer's first byte."
        return (
            CounterMetricFamily("rankcast_requests", "Requests answered.", labels=labels),
            HistogramMetricFamily("rankcast_request_seconds", seconds, labels=labels[:2]),
        )


class _LastSnapshot(Collector):
    """The newest snapshot; nothing before there is one."""

    def __init__(self) -> None:
        self.last: tuple[int, float, float | None] | None = None

    def describe(self) -> Iterable[Metric]:
        return self._families(0, 0.0, 0.0)

    def collect(self) -> Iterable[Metric]:
        if self.last is None:
            return ()
        lsn, created, seconds = self.last
        return self._families(lsn, max(0.0, time.time() - created), seconds)

    @staticmethod
    def _families(lsn: int, age: float, seconds: float | None) -> Iterator[Metric]:
        yield GaugeMetricFamily("rankcast_snapshot_lsn", "The last row of the log in the newest snapshot.", lsn)
        yield GaugeMetricFamily("rankcast_snapshot_age_seconds", "Seconds since the newest snapshot was taken.", age)
        if seconds is not None:
            yield GaugeMetricFamily("rankcast_snapshot_seconds", "Seconds that the newest snapshot took.", seconds)


class _Asked(Collector):
    def __init__(self, name: str, help_text: str, label: str, values: Callable[[], Mapping[str, float]]) -> None:
        self._name, self._help, self._label, self._values = name, help_text, label, values

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(self._name, self._help, labels=[self._label])]

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._help, labels=[self._label])
        for label, value in self._values().items():
            family.add_metric([label], value)
        yield family
