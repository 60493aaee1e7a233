"""Whether the service lives, whether it can be used, and what it counts."""

from __future__ import annotations

import math
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from app.api.responses import JsonResponse
from app.api.routing import Routes
from app.api.values import Strict
from app.kernels import Kernels
from app.metrics import CONTENT_TYPE, Metrics
from app.problems import Problem
from app.security import ANY


class Health(Strict):
    """A sign of life."""

    status: str


class Readiness(Strict):
    """Whether the main path of every resource can be used, the share of all kernels that is compiled, the same for the
    main path of each resource, which can be used from 1 on, and the kernel that was compiled last while there are more
    to come. `warm` goes on growing after `ready`: what is seldom used is compiled in the background."""

    ready: bool
    warm: float
    resources: dict[str, float]
    compiling: str | None


def add_routes(
    routes: Routes, metrics: Metrics, serving: Callable[[], bool], kernels: Callable[[], Kernels | None]
) -> None:
    """Serve ``/healthz`` and ``/readyz``, which ask for no key, and ``/metrics``, which any key may read."""

    async def healthz(_: Request) -> Response:
        """The process answers."""
        return JsonResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        """The log is replayed and the main path of every resource can be used; 503 until then, which says the same of
        the kernels."""
        known = kernels()
        shares = known.resources() if known is not None and serving() else {}
        about = {
            "warm": math.floor(known.share * 100) / 100 if known is not None else 0.0,
            "resources": {resource: math.floor(share * 100) / 100 for resource, share in shares.items()},
            "compiling": known.compiling if known is not None else None,
        }
        if known is not None and serving() and known.serves_all:
            return JsonResponse({"ready": True, **about})
        why = "kernels are being compiled" if serving() else "the service is starting or ending"
        refusal = Problem("not-ready", why)
        found = {**refusal.document(), "ready": False, **about}
        return JsonResponse(found, 503, refusal.headers, "application/problem+json")

    async def metrics_text(_: Request) -> Response:
        """The counters in the Prometheus text format."""
        return Response(metrics.render(), headers={"content-type": CONTENT_TYPE})

    routes.add("GET", "/healthz", healthz, needs=None, tag="health", answers={200: Health})
    routes.add("GET", "/readyz", readyz, needs=None, tag="health", answers={200: Readiness})
    routes.add("GET", "/metrics", metrics_text, needs=ANY, tag="health", answers={200: None}, content="text/plain")
