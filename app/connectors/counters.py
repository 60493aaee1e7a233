"""What a connector counts: for its output, and for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from app.connectors.errors import ConnectorError

_COUNTED = {
    "messages": "Messages that are done with: answered, and acknowledged.",
    "events": "Events sent to the service.",
    "applied": "Events that the service applied.",
    "refused": "Dead letters: events and messages that were refused.",
    "batches": "Requests answered.",
    "replayed": "Requests that the service had taken before, and answered again.",
    "lost": "How often the connection to the broker was lost.",
}
_SENT = {
    "events": "Stream events taken from the service.",
    "published": "Messages that the broker took.",
    "resets": "Stream events that say where a stream begins again.",
    "batches": "Batches that the broker took.",
    "lost": "How often the connection to the broker was lost.",
    "reconnects": "How often the connection to the service was lost.",
}


class Counters:
    """Counters by name."""

    def __init__(self, prefix: str, counted: Mapping[str, str]) -> None:
        self._registry = CollectorRegistry()
        self._shown = {
            name: Counter(f"rankcast_{prefix}_{name}", told, registry=self._registry) for name, told in counted.items()
        }
        self.counts = dict.fromkeys(counted, 0)
        self.waiting = Gauge(
            f"rankcast_{prefix}_waiting_messages", "Messages read and not yet sent.", registry=self._registry
        )
        self.up = Gauge(f"rankcast_{prefix}_service_up", "Whether the service answers.", registry=self._registry)
        self.up.set(1)
        self.seconds = Histogram(
            f"rankcast_{prefix}_request_seconds", "Time until a request is answered.", registry=self._registry
        )

    def add(self, name: str, count: int = 1) -> None:
        """Count."""
        self.counts[name] += count
        self._shown[name].inc(count)

    def serve(self, host: str, port: int) -> None:
        """Answer Prometheus on a port, in a thread. Raises ConnectorError."""
        try:
            start_http_server(port, host, self._registry)
        except OSError as error:
            raise ConnectorError(f"metrics cannot be served on {host}:{port}: {error.strerror or error}") from None


def connecting() -> Counters:
    """The counters of `rankcast connect`."""
    return Counters("connect", _COUNTED)


def publishing() -> Counters:
    """The counters of `rankcast publish`."""
    return Counters("publish", _SENT)
