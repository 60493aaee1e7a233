"""All HTTP routes, in sessions of some hundred requests."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz.grammar import World
from tests.fuzz.requests import rendered, request_of
from tests.fuzz.sessions import left_out, play, written


class Http:
    """Requests of all routes to a service with two resources of each kind; some services have keys. A session has
    `length` of them, and `every` so many the whole state is compared where one is refused.
    """

    name = "http"

    def __init__(self, length: int = 300, every: int = 16) -> None:
        self._length = length
        self._every = every

    def make(self, rng: Random) -> bytes:
        world = World(rng)
        wild = rng.choice((0.1, 0.5, 0.5, 1.0))
        requests = [rendered(rng, plan, 0.0) for plan in world.setup()]
        requests += [request_of(rng, world, wild) for _ in range(self._length)]
        if rng.random() < 0.2:
            key = {
                "method": "POST",
                "target": "/v1/admin/keys",
                "headers": {},
                "text": '{"name":"first","scopes":["admin"]}',
            }
            for request in requests:
                secret = "{key:0}" if rng.random() < 0.8 else f"{{key:{rng.randrange(1, 4)}}}"
                request["headers"].setdefault("authorization", f"Bearer {secret}")
            requests.insert(0, key)
        return written(requests)

    def run(self, data: bytes) -> int:
        return play(data, self._every)

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return left_out(data)

    def close(self) -> None:
        """Nothing is held."""
