"""Rankcast itself as a peer: the service in a process of its own with its durable log, asked over one connection."""

from __future__ import annotations

import asyncio
import http.client
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.peers.world import Peers
from bench.process import HOST, Failed, service
from bench.socket_exchange import Pipelined, frame

BOARD = "/v1/boards/peers"


async def _send(frames: list[bytes], window: int, port: int) -> dict[str, Any]:
    return await Pipelined(frames, window).run(port)


class RankcastPeer:
    """A service on a temporary directory. The answer to an update holds the tiles: the recipients and their changes."""

    name = "Rankcast (HTTP, durable log)"

    def __init__(self, peers: Peers) -> None:
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._server = self._stack.enter_context(service(folder))
        n, m = len(peers.x), len(peers.l)
        empty = self._server.resident()
        config = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [peers.k]}
        self._server.ask("PUT", BOARD, json.dumps(config).encode())
        ids = pa.array([f"o{i}" for i in range(n)])
        table = pa.table({"op": pa.array(["upsert"] * n), "id": ids, "x": peers.x, "y": peers.y})
        self._server.send_table(f"{BOARD}/events?messages=none", table)
        k = pa.array(np.full(m, peers.k, np.int32))
        names = pa.array([f"s{i}" for i in range(m)])
        table = pa.table({"id": names, "k": k, "x_min": peers.l, "x_max": peers.r})
        self._server.send_table(f"{BOARD}/subscriptions?lists=false", table)
        self._memory = self._server.resident() - empty
        self._connection = http.client.HTTPConnection(HOST, self._server.port, timeout=300)

    def update(self, item: int, y: float) -> int:
        return len(self._ask("PATCH", f"{BOARD}/objects/o{item}", {"values": {"y": y}}))

    def update_by_socket(self, items: list[int], values: list[float], window: int) -> dict[str, Any]:
        """Updates one a request over one WebSocket, `window` of them under way; what `Pipelined.run` returns.

        Raises:
            Failed: an update is refused.
        """
        frames = []
        for ref, (item, y) in enumerate(zip(items, values, strict=True)):
            body = {"values": {"y": y}}
            asked = {"op": "request", "ref": ref, "method": "PATCH", "path": f"{BOARD}/objects/o{item}", "body": body}
            frames.append(frame(json.dumps(asked).encode()))
        found = asyncio.run(_send(frames, window, self._server.port))
        if found["statuses"].keys() != {"200"}:
            raise Failed(f"updates over the socket are refused: {found['last']}")
        return found

    def update_many(self, items: list[int], values: list[float]) -> int:
        """Many updates in one request; returns the bytes of the answer, which has all tiles."""
        changes = [
            {"op": "update", "id": f"o{item}", "values": {"y": y}} for item, y in zip(items, values, strict=True)
        ]
        return len(self._ask("POST", f"{BOARD}/events", {"events": changes}))

    def lists(self, some: list[int]) -> list[list[int]]:
        found = []
        for sid in some:
            answer = json.loads(self._ask("GET", f"{BOARD}/subscriptions/s{sid}"))
            found.append([int(entry["id"][1:]) for entry in answer["list"]])
        return found

    def memory(self) -> int:
        return self._memory

    def close(self) -> None:
        self._connection.close()
        self._stack.close()

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        headers = {"content-type": "application/json"} if body is not None else {}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise Failed(f"{method} {path} is answered {answer.status}: {text[:500].decode(errors='replace')}")
        return text
