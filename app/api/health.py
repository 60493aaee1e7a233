"""Whether the service lives, whether it can be used, and what it counts."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from app.api.responses import JsonResponse
from app.api.routing import Routes
from app.api.values import Strict
from app.metrics import CONTENT_TYPE, Metrics
from app.problems import Problem
from app.security import ANY


class Health(Strict):
    """A sign of life."""

    status: str


def add_routes(routes: Routes, metrics: Metrics, ready: Callable[[], bool]) -> None:
    """Serve ``/healthz`` and ``/readyz``, which ask for no key, and ``/metrics``, which any key may read."""

    async def healthz(_: Request) -> Response:
        """The process answers."""
        return JsonResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        """The log is replayed and everything is served; 503 until then."""
        if not ready():
            raise Problem("not-ready", "the service is starting or ending")
        return JsonResponse({"status": "ready"})

    async def metrics_text(_: Request) -> Response:
        """The counters in the Prometheus text format."""
        return Response(metrics.render(), headers={"content-type": CONTENT_TYPE})

    routes.add("GET", "/healthz", healthz, needs=None, tag="health", answers={200: Health})
    routes.add("GET", "/readyz", readyz, needs=None, tag="health", answers={200: Health})
    routes.add("GET", "/metrics", metrics_text, needs=ANY, tag="health", answers={200: None}, content="text/plain")
