"""Liveness, readiness and metrics."""

import math
from typing import Annotated, Literal

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


class Lagging(Strict):
    """How far a replica is behind."""

    rows: Annotated[int, Field(description="Rows that the leader is known to have and this node has not applied.")]
    seconds: Annotated[float, Field(description="The age of the oldest of them, or of the leader's last sign of life.")]


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
    role: Annotated[Literal["leader", "replica"], Field(description="Whether this node leads or follows.")]
    lsn: Annotated[int, Field(description="The last row of the log that reads show.")]
    durable: Annotated[int, Field(description="The last row of the log that is on disk here.")]
    lag: Annotated[Lagging, Field(description="How far this node is behind its leader; zeros at the leader.")]
    term: Annotated[int, Field(description="The highest term that this node knows.")]
    epoch: Annotated[str, Field(description="The epoch of the data directory, the same at all nodes of a group.")]
    node: Annotated[str, Field(description="The id of this node.")]


@router.get("/healthz", response_model=Health)
async def healthz(_: Request) -> Response:
    """Get a sign of life."""
    return JsonResponse({"status": "ok"})


@router.get("/readyz", response_model=Readiness)
async def readyz(request: Request) -> Response:
    """Check that the log is replayed and takes writes, and the main path of every resource type can be used; 503 until
    then, with the same fields. A replica is ready while it is at most `RANKCAST_MAX_LAG` seconds behind. A resource
    that failed is named by `failed` until it is rebuilt; the service stays ready."""
    lifecycle: Lifecycle = request.app.state.lifecycle
    known, serving = lifecycle.kernels, lifecycle.ready
    shares = known.resources() if known is not None and serving else {}
    about = {
        "warm": math.floor(known.share * 100) / 100 if known is not None else 0.0,
        "resources": {resource: math.floor(share * 100) / 100 for resource, share in shares.items()},
        "compiling": known.compiling if known is not None else None,
        "failed": lifecycle.failing(),
        **lifecycle.about_node(),
    }
    closed = lifecycle.refused()
    unready = lifecycle.unready()
    if known is not None and serving and known.serves_all and closed is None and unready is None:
        return JsonResponse({"ready": True, **about})
    compiling = "kernels are being compiled" if closed is None else f"writes are refused, reads go on: {closed}"
    if unready is not None and closed is None and known is not None and known.serves_all:
        compiling = unready
    why = compiling if serving else "the service is starting or ending"
    refusal = Problem("not-ready", why)
    found = {**refusal.document(), "ready": False, **about}
    return JsonResponse(found, 503, refusal.headers, "application/problem+json")


# Load balancers may look with HEAD.
router.add_api_route("/healthz", healthz, methods=["HEAD"], include_in_schema=False)
router.add_api_route("/readyz", readyz, methods=["HEAD"], include_in_schema=False)


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
