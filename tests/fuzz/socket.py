"""The operations of the WebSocket and requests over it, as JSON and MessagePack, between writes that make its streams
tell something.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgpack

from tests.fuzz.grammar import KINDS, NAMES, World
from tests.fuzz.requests import HEADERS, rendered, request_of
from tests.fuzz.sessions import left_out, play, written
from tests.fuzz.values import STRINGS, mutate_bytes, mutate_tree, odd, text_of


class Socket:
    """One socket a session, opened again when the service closes it."""

    name = "socket"

    def make(self, rng: Random) -> bytes:
        world = World(rng)
        session: list[dict[str, Any]] = [rendered(rng, plan, 0.0) for plan in world.setup()]
        for _ in range(300):
            if rng.random() < 0.25:
                session.append(request_of(rng, world, 0.1))
                continue
            operation: Any = self._operation(rng, world)
            for _ in range(rng.choice((0, 0, 1, 1, 3))):
                operation = mutate_tree(rng, operation)
            text = text_of(rng, operation)
            if rng.random() < 0.05:
                data = mutate_bytes(rng, text.encode("utf-8", "surrogatepass"))
                session.append({"socket": data.decode("utf-8", "replace")})
            elif rng.random() < 0.25:
                session.append({"socket": {"base64": base64.b64encode(_packed(rng, operation, text)).decode()}})
            else:
                session.append({"socket": text})
        return written(session)

    def _operation(self, rng: Random, world: World) -> dict[str, Any]:
        if rng.random() < 0.5:
            return self._request(rng, world)
        resource = f"{rng.choice(KINDS)}/{rng.choice(NAMES)}"
        about = {"resource": resource, "id": world.id()}
        match rng.randrange(10):
            case 0:
                return {"op": "ping"}
            case 1:
                return {"op": "auth", "key": rng.choice(("rk_example", *STRINGS[:12]))}
            case 2 | 3:
                return {"op": "unsubscribe", **about}
            case 4 | 5:
                return {
                    "op": "move",
                    "resource": f"maps/{rng.choice(NAMES)}",
                    "id": world.id(),
                    "location": world.place(),
                }
        options = {
            "form": rng.choice(("changes", "tiles")),
            "after": rng.choice(("x:1", "x:-1", "", json.dumps(odd(rng))[:50])),
            "old": True,
            "ready": True,
            "squash": rng.choice((0, 0.01, 1)),
        }
        return {"op": "subscribe", **about, **{name: options[name] for name in options if rng.random() < 0.2}}

    def _request(self, rng: Random, world: World) -> dict[str, Any]:
        """A request over the socket; keys are made and deleted over HTTP, where the session learns of them."""
        plan = world.request()
        while plan.path.startswith("/v1/admin/keys"):
            plan = world.request()
        query = "&".join(f"{name}={value}" for name, value in plan.query)
        request: dict[str, Any] = {
            "op": "request",
            "ref": rng.choice((rng.randrange(1 << 20), 1.5, "a", "")),
            "method": plan.method,
            "path": f"{plan.path}?{query}" if query else plan.path,
        }
        if plan.body is not None:
            request["body"] = copy.deepcopy(plan.body)
        if rng.random() < 0.2:
            request["headers"] = dict([rng.choice((*HEADERS, ("idempotency-key", f"k{rng.randrange(6)}")))])
        return request

    def run(self, data: bytes) -> int:
        return play(data)

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return left_out(data)

    def close(self) -> None:
        """Nothing is held."""


def _packed(rng: Random, operation: Any, text: str) -> bytes:
    """An operation as MessagePack, with some of its bytes changed or not; what has no place there, as its text."""
    try:
        data: bytes = msgpack.packb(operation, unicode_errors="surrogatepass")
    except (ValueError, TypeError, OverflowError):
        data = text.encode("utf-8", "surrogatepass")
    return mutate_bytes(rng, data) if rng.random() < 0.3 else data
