"""Whether traces, metrics and logs are sent to a collector: the way to `app.runtime.telemetry`, which needs the SDK."""

from __future__ import annotations

from app.runtime import logs
from app.runtime.metrics import Metrics
from app.runtime.tracing import Telemetry, wanted


def begin(metrics: Metrics) -> Telemetry | None:
    """Send traces, metrics and logs where the environment says so; None where it does not, or the extra is missing."""
    if not wanted():
        return None
    try:
        from app.runtime.telemetry import Exports
    except ImportError as error:
        logs.get("telemetry").warning(
            "no telemetry is sent: OpenTelemetry's SDK is missing, the extra `otel`", error=str(error)
        )
        return None
    return Exports(metrics)
