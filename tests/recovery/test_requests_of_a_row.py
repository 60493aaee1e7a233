"""A row of the log that several requests share: each gets its own answer, also where only replay completes it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from app.write_path.idempotency import Replay, Ticket, hash_request
from app.write_path.writer import Skeleton
from indexes.boards.commands import UPDATE, UPSERT, Events
from tests.support.service_fixtures import Start

N = 12


def changes(known: int) -> Events:
    """Changes of single objects, of which the third does not apply."""
    rng = np.random.default_rng(3)
    op = np.full(N, UPSERT, np.uint8)
    op[2] = UPDATE
    ids = [f"o{i % known}" for i in range(N)]
    ids[2] = "unknown"
    x, y = rng.integers(0, 20, N).astype(float), rng.integers(0, 20, N).astype(float)
    return Events(op, ids, x, y, skip=True, counted=True)


def digest(at: int) -> bytes:
    return hash_request("PUT", f"/v1/boards/b/objects/{at}", "", b"{}")


def test_answers_are_completed_by_the_log_alone(start: Start, tmp_path: Path) -> None:
    service = start(data=tmp_path / "data")
    service.make("b", objects=20, subscriptions=60)
    twin = start(data=tmp_path / "twin")
    twin.make("b", objects=20, subscriptions=60)
    command, board = changes(known=25), service.board("b")
    tickets: dict[int, Ticket] = {}

    async def write() -> Any:
        for at in range(0, N, 2):
            ticket = service.service.answers.claim("", f"key-{at}", digest(at))
            assert isinstance(ticket, Ticket)
            tickets[at] = ticket

        def requests(plan: Any) -> list[tuple[Ticket, Skeleton]]:
            places = {at: event for event, at in enumerate(plan.positions)}
            answers = {at: {"seq": plan.first_seq + places[at], "applied": 1, "tile_count": 0} for at in places}
            return [(tickets[at], Skeleton(200, answers[at])) for at in tickets if at in answers]

        return await service.service.boards.submit("b", command, reader=board, requests=requests)

    plan = service.call(write)
    wanted = {}
    for event, at in enumerate(plan.positions):
        values = {"x": command.x[at], "y": command.y[at]}
        answer = twin.client.put(f"/v1/boards/b/objects/{command.ids[at]}", json={"values": values}).json()
        assert (answer["seq"], answer["tile_count"]) == (plan.first_seq + event, plan.counts[event])
        wanted[at] = {"seq": answer["seq"], "applied": 1, "tile_count": answer["tile_count"], "replayed": True}
    assert len({one["tile_count"] for one in wanted.values()}) > 1 and sum(plan.counts) == plan.tile_count
    stored = [row for row in service.service.stores.log.answers(0.0, 100) if row.key.startswith("key-")]
    assert len(stored) == len(tickets) - 1 and not any(row.complete for row in stored)
    # As a kill would leave it: the answers are stored as they were before the command was applied.
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    again = start(data=tmp_path / "copy")
    for at in tickets:
        row = again.service.answers.find("", f"key-{at}")
        found = again.service.answers.claim("", f"key-{at}", digest(at), row)
        assert isinstance(found, Ticket) if at == 2 else found == Replay(200, wanted[at]), at
