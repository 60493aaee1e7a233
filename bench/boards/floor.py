"""What the service is compared with over HTTP: apps that do one part of its work and nothing else.

`bare`: a plain FastAPI application. One route validates a batch of events with pydantic models, one commits a row
through the service's own writer: the same queue, the same group commit, the same log.
`frame`: the commit alone again, behind the guard and the kind of route that the service uses.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import uvicorn
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api.application import Application
from app.api.bodies import read
from app.api.fast_router import Direct
from app.api.guard import Guard
from app.api.routing import DirectRoute, needs
from app.resources.base import Job, ResourceTypes
from app.resources.boards import BoardType
from app.runtime import interpreter
from app.runtime.metrics import Metrics
from app.security.keyring import Keyring
from app.settings import Settings
from app.storage import open_stores
from app.write_path.catalog import Catalog
from app.write_path.idempotency import Answers
from app.write_path.writer import Writer
from bench.process import HOST, end_with_parent
from indexes.boards.commands import DeleteSubscriptions
from indexes.boards.config import BoardConfig
from indexes.core.plan import Plan

RESOURCE = "boards/nothing"
CONFIG = BoardConfig(("x",), "y")


class Event(BaseModel):
    op: Literal["upsert", "update", "delete"]
    id: str
    values: dict[str, float] | None = None
    payload: Any = None


class Batch(BaseModel):
    events: list[Event]
    mode: Literal["each", "batch"] = "each"
    messages: Literal["full", "count", "none"] = "full"
    on_error: Literal["refuse", "skip"] = "refuse"


class Values(BaseModel):
    values: dict[str, float]
    payload: Any = None


class Numbers:
    """The seqs of a resource that stays as it is."""

    seq = 0
    next_seq = 0


class Row(Plan[Numbers]):
    """A command that changes nothing: one row of the log."""

    def __init__(self) -> None:
        super().__init__(Numbers(), DeleteSubscriptions([RESOURCE]), 1)

    def execute(self, budget: float) -> None:
        """Nothing to compute."""

    def publish(self) -> None:
        """End the plan; nobody is notified."""
        self.done = True


class Rows(Catalog):
    """A catalog that takes every configuration, and makes one row of it."""

    def put(self, resource: str, config: Any) -> Job:
        return Row()


class Committer:
    """A writer with a catalog of rows, on a data directory of its own."""

    def __init__(self, data: Path) -> None:
        self._stores = open_stores(data)
        self.metrics = Metrics()
        self._writer: Writer | None = None

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        self._writer = Writer(self._stores.log, Rows(ResourceTypes(BoardType())), Answers(24.0), self.metrics)
        interpreter.settle()
        yield
        await self._writer.close()
        self._stores.close()

    async def commit(self) -> int:
        """Write one row and wait until it is durable."""
        assert self._writer is not None
        row = await self._writer.put(RESOURCE, CONFIG)
        return int(row.last_seq)


def bare_app(data: Path) -> FastAPI:
    committer = Committer(data)
    app = FastAPI(lifespan=committer.running)

    @app.get("/readyz")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/v1/boards/{board}/events")
    async def events(board: str, batch: Batch) -> dict[str, int]:
        return {"seq": 0, "applied": len(batch.events)}

    @app.put("/v1/boards/{board}/objects/{id}")
    async def put(board: str, id: str, body: Values) -> dict[str, int]:
        return {"seq": await committer.commit(), "applied": 1}

    return app


def frame_app(data: Path) -> FastAPI:
    committer = Committer(data)
    settings, keyring = Settings(data=data), Keyring()
    router = APIRouter(route_class=DirectRoute)

    @router.get("/readyz")
    async def readyz(_: Request) -> Response:
        return JSONResponse({"status": "ready"})

    @router.put("/v1/boards/{board}/objects/{id}", dependencies=needs("boards:write"))
    async def put_object(request: Request) -> Response:
        await read(request)
        return Response(b'{"seq":%d,"applied":1}' % await committer.commit(), media_type="application/json")

    app = Application(lifespan=committer.running)
    direct = Direct(app.behind, [router])
    app.front = Guard(direct, settings=settings, keyring=keyring, metrics=committer.metrics, ready=lambda: True)
    app.state.keyring = keyring
    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("bare", "frame"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    end_with_parent()
    app = (bare_app if given.kind == "bare" else frame_app)(given.data)
    uvicorn.run(
        app,
        host=HOST,
        port=given.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
    )


if __name__ == "__main__":
    main()
