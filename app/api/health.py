"""Liveness, readiness and metrics."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app.api.problems import Problem
from app.api.responses import JsonResponse
from app.api.routing import REFUSALS, DirectRoute, needs, shown_as
from app.api.values import Strict
from app.runtime.lifecycle import Lifecycle
from app.runtime.metrics import CONTENT_TYPE, Metrics

router = APIRouter(tags=["health"], route_class=DirectRoute, responses=REFUSALS)


class Health(Strict):
    """A sign of life."""

    status: Annotated[str, Field(description="`ok`.")]


class Readiness(Strict):
    """Whether the main path of every resource can be used, the share of all kernels that is compiled, the same for the
    main path of each resource, which can be used from 1 on, and the kernel that was compiled last while there are more
    to come. `warm` goes on growing after `ready`: what is seldom used is compiled in the background."""

    ready: Annotated[bool, Field(description="Whether the main path of every resource type can be used.")]
    warm: Annotated[float, Field(description="Share of all kernels that are compiled, from 0 to 1.")]
    resources: Annotated[
        dict[str, float], Field(description="The same for the main path of each resource type; usable at 1.")
    ]
    compiling: Annotated[str | None, Field(description="The kernel compiled last, while more are to come.")]
    failed: Annotated[list[str], Field(description="The resources that have failed and are not rebuilt yet.")]


@router.get("/healthz", response_model=Health)
async def healthz(_: Request) -> Response:
    """Get a sign of life."""
    return JsonResponse({"status": "ok"})


@router.get("/readyz", response_model=Readiness)
async def readyz(request: Request) -> Response:
    """Check that the log is replayed and takes writes, and the main path of every resource type can be used; 503 until
    then, with the same fields. A resource that failed is named by `failed` until it is rebuilt; the service stays
    ready."""
    lifecycle: Lifecycle = request.app.state.lifecycle
    known, serving = lifecycle.kernels, lifecycle.ready
    shares = known.resources() if known is not None and serving else {}
    about = {
        "warm": math.floor(known.share * 100) / 100 if known is not None else 0.0,
        "resources": {resource: math.floor(share * 100) / 100 for resource, share in shares.items()},
        "compiling": known.compiling if known is not None else None,
        "failed": lifecycle.failing(),
    }
    closed = lifecycle.refused()
    if known is not None and serving and known.serves_all and closed is None:
        return JsonResponse({"ready": True, **about})
    compiling = "kernels are being compiled" if closed is None else f"writes are refused, reads go on: {closed}"
    why = compiling if serving else "the service is starting or ending"
    refusal = Problem("not-ready", why)
    found = {**refusal.document(), "ready": False, **about}
    return JsonResponse(found, 503, refusal.headers, "application/problem+json")


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=shown_as(
        "text/plain", "Prometheus text format.", "# TYPE rankcast_requests_open gauge\nrankcast_requests_open 1.0\n"
    ),
    dependencies=needs(),
)
async def metrics_text(request: Request) -> Response:
    """Get the metrics in the Prometheus text format."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.render(), headers={"content-type": CONTENT_TYPE})
