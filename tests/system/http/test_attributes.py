"""Boards with several range attributes on a live service.

Subscriptions of every shape, followed over both transports in both forms while objects and questions change, through
kill -9.
"""

from __future__ import annotations

import asyncio
import random
import signal
from typing import Any

import pytest

from app.demo.process import running
from rankcast_client import AsyncBoard, AsyncRankcast, Disc, HalfPlane, Simplex, Watch, delete, update, upsert
from tests.oracles.regions import INF, Ask, Where, World
from tests.support.live import StartService
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

PLACES = list(range(6))
Region = Any


class Life:
    """Random changes of one board with two or three range attributes, and what must be true of it then."""

    def __init__(self, seed: int, d: int, order: str) -> None:
        self.random = random.Random(seed)
        self.names = [f"x{i}" for i in range(d)]
        self.order = order
        self.world = World(order)

    def region(self) -> tuple[Region, Where]:
        """A region as the client takes it, and as the truth has it."""
        chance = self.random
        kind = chance.choice(["box", "disc", "half_plane", "simplex"]) if len(self.names) == 2 else "box"
        if kind == "disc":
            center, radius = (chance.choice(PLACES), chance.choice(PLACES)), chance.choice([0, 1, 2, 2.5])
            return Disc(center, radius), Where("disc", (*center, radius))
        if kind == "half_plane":
            a, b = chance.choice([(1, 1), (-1, 2), (0, 1), (-2, 0)]), chance.randint(-6, 9)
            return HalfPlane(a, b), Where("half_plane", (*a, b))
        if kind == "simplex":
            one, two, three = [(chance.choice(PLACES), chance.choice(PLACES)) for _ in range(3)]
            return Simplex((one, two, three)), Where("simplex", (*one, *two, *three))
        ends = [sorted(chance.choices([-INF, *PLACES, INF], k=2)) for _ in self.names]
        ends = [[-INF, INF] if low == high and abs(low) == INF else [low, high] for low, high in ends]
        sides = tuple(end for pair in ends for end in pair)
        return {name: (low, high) for name, (low, high) in zip(self.names, ends, strict=True)}, Where("box", sides)

    async def change_objects(self, board: AsyncBoard) -> None:
        """A request of some events, one by one or as a batch."""
        events = []
        for _ in range(self.random.randint(1, 6)):
            key = f"o{self.random.randrange(12)}"
            place = tuple(self.random.choice([None, *PLACES]) for _ in self.names)
            rank = self.random.choice([None, *range(-3, 4)])
            if key not in self.world.things:
                place = tuple(self.random.choice(PLACES) for _ in self.names)
                rank = self.random.randint(-3, 3)
                events.append(upsert(key, self.values(place, rank)))
            elif self.random.random() < 0.25:
                events.append(delete(key))
                del self.world.things[key]
                continue
            else:
                events.append(update(key, self.values(place, rank)))
            self.world.upsert(key, place, rank)
        mode: Any = self.random.choice(["each", "each", "batch"])
        answer = await board.publish_many(events, mode=mode, messages="full")
        assert (answer.applied, answer.tile_count) == (len(events), len(answer.tiles or ()))

    def values(self, place: tuple[Any, ...], rank: Any) -> dict[str, float]:
        given = {**dict(zip(self.names, place, strict=True)), "rank": rank}
        return {name: value for name, value in given.items() if value is not None}

    async def ask(self, board: AsyncBoard, key: str) -> None:
        region, where = self.region()
        k = self.random.choice([2, 4])
        shown = await board.put_subscription(key, region, k=k)
        self.world.asks[key] = Ask(where, k)
        assert listed(self, shown.list or ()) == self.truth(key)

    def truth(self, key: str) -> list[Any]:
        return [(thing.id, (*thing.x, thing.y)) for thing in self.world.list_of(key)]


def listed(life: Life, entries: Any) -> list[Any]:
    return [(entry.id, tuple(entry.values[name] for name in (*life.names, "rank"))) for entry in entries]


@pytest.mark.parametrize(("d", "order"), [(2, "asc"), (3, "desc")])
def test_lists_are_exact_over_both_transports_and_through_kill_9(
    start_service: StartService, d: int, order: Any
) -> None:
    service = start_service()
    port = int(service.url.rsplit(":", 1)[1])
    life = Life(7 + d, d, order)
    keys = [f"s{i}" for i in range(8)]

    async def run() -> None:
        async with AsyncRankcast(service.url) as client, client.socket() as socket, asyncio.timeout(2 * PATIENCE):
            board = client.board("flats")
            await board.put(life.names, "rank", order=order, ks=[2, 4])
            for key in keys:
                await life.ask(board, key)
            watches: list[Watch] = [
                board.watch(key, form="tiles" if i % 2 else "changes") for i, key in enumerate(keys[:4])
            ]
            for i, key in enumerate(keys[4:]):
                await socket.subscribe("flats", key, form="tiles" if i % 2 else "changes")

            async def all_right() -> None:
                for key, watch in zip(keys[:4], watches, strict=True):
                    while listed(life, watch.list) != life.truth(key):
                        await anext(watch)
                for key in keys[4:]:
                    while listed(life, socket.list("flats", key)) != life.truth(key):
                        await anext(socket)

            async def live(steps: int) -> None:
                for step in range(steps):
                    await life.change_objects(board)
                    if step % 5 == 4:
                        await life.ask(board, life.random.choice(keys))
                    await all_right()

            for watch in watches:
                await anext(watch)
            await live(15)
            await asyncio.to_thread(service.stop, signal.SIGKILL)
            async with running(port, service.data):
                for key in keys:
                    assert listed(life, (await board.subscription(key)).list) == life.truth(key)
                await live(10)
                best = await board.top({life.names[0]: 1}, {life.names[1]: 4}, 9)
                sides = (1, INF, -INF, 4, *[-INF, INF] * (d - 2))
                wanted = [(t.id, (*t.x, t.y)) for t in life.world.top(Where("box", sides), 9)]
                assert listed(life, best) == wanted

    asyncio.run(run())
