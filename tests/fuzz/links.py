"""Messages between relays: in order and out of order, of several epochs, with odd fields."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from tests.fuzz.grammar import DEAD_LINK, LINK, NAMES, Plan, World
from tests.fuzz.requests import rendered
from tests.fuzz.sessions import left_out, play, written


class Links:
    """Two relays with a link each whose other side the fuzzer is."""

    name = "links"

    def make(self, rng: Random) -> bytes:
        world = World(rng)
        session: list[dict[str, Any]] = []
        ends = {"url": f"http://{DEAD_LINK}", "relay": "a", "link": "south", "key": "rk_example"}
        for name in NAMES:
            world.configs["relays", name]["links"] = {LINK: ends}
            session.append(rendered(rng, Plan("PUT", f"/v1/relays/{name}", world.configs["relays", name]), 0.0))
            session.append(rendered(rng, world.subscribe("relays", name), 0.0))
        numbers = dict.fromkeys(NAMES, 0)
        for _ in range(200):
            name = rng.choice(NAMES)
            root = f"/v1/relays/{name}"
            if rng.random() < 0.3:
                session.append(rendered(rng, world.own("relays", name, root), 0.1))
                continue
            messages = [world.message(numbers[name] + i, name) for i in range(rng.choice((1, 1, 2, 4)))]
            if rng.random() < 0.15:
                messages.insert(0, {"n": numbers[name] - 1, "op": "reset", "follow": rng.choice((0, 1, 2))})
            numbers[name] = rng.choice((numbers[name] + len(messages), numbers[name] + len(messages), 0, 1))
            body = {"epoch": rng.choice(("e1", "e1", "e2")), "messages": messages}
            session.append(rendered(rng, Plan("POST", f"{root}/links/{LINK}/messages", body), rng.choice((0.0, 0.8))))
        return written(session)

    def run(self, data: bytes) -> int:
        return play(data)

    def smaller(self, data: bytes) -> Iterator[bytes]:
        return left_out(data)

    def close(self) -> None:
        """Nothing is held."""
