"""A service in the test's process with the truth about its boards beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from app.service import Service
from indexes.boards.engine import BoardEngine
from tests.oracles.world import Ask, World
from tests.support.app_client import AppClient

CONFIG = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "desc"}, "ks": [2, 5]}


class Running:
    """A service, a client of it, and what is true of each board."""

    def __init__(self, client: AppClient, service: Service) -> None:
        self.client = client
        self.service = service
        self.worlds: dict[str, World] = {}
        self._rng = np.random.default_rng(1)

    def call(self, run: Callable[..., Any], *given: Any) -> Any:
        """Call something on the service's loop."""
        assert self.client.portal is not None
        return self.client.portal.call(run, *given)

    def board(self, name: str) -> BoardEngine:
        """The engine of a board."""
        board = self.service.boards.get(name)
        assert board is not None
        return board

    def make(self, name: str, objects: int = 30, subscriptions: int = 40) -> None:
        """A board with so much in it."""
        assert self.client.put(f"/v1/boards/{name}", json=CONFIG).status_code == 201
        self.worlds[name] = World("desc")
        self.move(name, objects, "o")
        self.subscribe(name, subscriptions, "s")

    def move(self, name: str, count: int, letter: str = "o") -> None:
        """Give objects new values."""
        values = [(f"{letter}{i}", *self._rng.integers(0, 20, 2).astype(float).tolist()) for i in range(count)]
        self.send(name, "events", {"events": [upsert(*value) for value in values]}, 200)
        for value in values:
            self.worlds[name].upsert(*value)

    def subscribe(self, name: str, count: int, letter: str) -> None:
        """Make subscriptions."""
        found = []
        for i in range(count):
            l, r = sorted(self._rng.integers(0, 20, 2).astype(float).tolist())
            self.worlds[name].asks[f"{letter}{i}"] = Ask(l, r, 2 + 3 * (i % 2))
            found.append({"id": f"{letter}{i}", "range": {"x": [l, r]}, "k": 2 + 3 * (i % 2)})
        self.send(name, "subscriptions", {"subscriptions": found}, 201)

    def edit(self, name: str, key: str, l: float, r: float, k: int) -> None:
        """Make a subscription or change it."""
        answer = self.client.put(f"/v1/boards/{name}/subscriptions/{key}", json={"range": {"x": [l, r]}, "k": k})
        assert answer.status_code in (200, 201)
        self.worlds[name].asks[key] = Ask(l, r, k)

    def delete(self, name: str, *keys: str) -> None:
        """Delete subscriptions."""
        self.send(name, "subscriptions/delete", {"ids": list(keys)}, 200)
        for key in keys:
            del self.worlds[name].asks[key]

    def drop(self, name: str) -> None:
        """Delete a board."""
        assert self.client.delete(f"/v1/boards/{name}").status_code == 200
        del self.worlds[name]

    def send(self, name: str, what: str, body: Any, status: int, **headers: str) -> Any:
        """Post to a board."""
        answer = self.client.post(f"/v1/boards/{name}/{what}", json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def job(self, what: str, **body: Any) -> Any:
        """A job once it has ended, as the API shows it."""
        answer = self.client.post(f"/v1/admin/{what}", json=body)
        assert answer.status_code == 202, answer.text
        id = answer.json()["job"]
        self.call(self.service.jobs.wait, id)
        return self.client.get(f"/v1/admin/jobs/{id}").json()

    def done(self, what: str, **body: Any) -> Any:
        """The detail of a job that must succeed."""
        shown = self.job(what, **body)
        assert (shown["state"], shown["progress"]) == ("succeeded", 1.0), shown
        return shown["detail"]

    def failed(self, what: str, **body: Any) -> Any:
        """The detail of a job that must fail."""
        shown = self.job(what, **body)
        assert shown["state"] == "failed", shown
        return shown["detail"]

    @property
    def lsns(self) -> list[int]:
        """The snapshots that are there, newest first."""
        return self.service.snapshots.lsns()

    def is_right(self) -> None:
        """Whether every list of every board is what a scan says, and every index is whole."""
        assert self.service.boards.names() == sorted(self.worlds)
        for name, world in self.worlds.items():
            board = self.board(name)
            board.check()
            assert [view.id for view in board.subscriptions(None, 10**6)] == sorted(world.asks)
            for key in world.asks:
                answer = self.client.get(f"/v1/boards/{name}/subscriptions/{key}").json()
                assert [entry["id"] for entry in answer["list"]] == [thing.id for thing in world.list_of(key)]
        compared = sum(len(world.asks) for world in self.worlds.values())
        assert self.done("verify")["compared"] == compared


def upsert(key: str, x: float, y: float) -> dict[str, Any]:
    """An event."""
    return {"op": "upsert", "id": key, "values": {"x": x, "y": y}}
