"""Who is behind which link: what closes a cycle is refused, and what came over it goes in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
import pytest

from app.errors import Cycle, ServiceError
from app.links import sender
from app.links.peer import Peers
from app.links.tree import CUT_AFTER, STRIDE, LinkTree
from app.runtime.metrics import Metrics
from indexes.relays.commands import Acked, Receive, Restart
from indexes.relays.config import Link, Message, RelayConfig
from indexes.relays.engine import RelayEngine
from tests.support.patience import PATIENCE

T = TypeVar("T")

NORTH, EAST = Link("http://north.example", "market", "here"), Link("http://east.example", "market", "here")


class Relays:
    """One relay, whose commands are applied at once."""

    def __init__(self, links: dict[str, Link]) -> None:
        self.engine = RelayEngine(RelayConfig(("x",), links=links))
        self.commands: list[Any] = []

    def names(self) -> list[str]:
        return ["market"]

    def get(self, name: str) -> RelayEngine | None:
        return self.engine if name == "market" else None

    def latest(self, name: str) -> RelayEngine:
        return self.engine

    async def submit(self, name: str, command: Any) -> Any:
        self.commands.append(command)
        return self.engine.apply(command)[0]

    async def between(self, name: str, fn: Callable[[], T]) -> T:
        return fn()


class World:
    """An overlay whose neighbours answer as `answers` says, by host; others do not answer. `now` is what time it is."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.now = 0.0
        self.answers = answers or {}
        self.relays = Relays({"north": NORTH, "east": EAST})
        peers = Peers(httpx.MockTransport(self._reply))
        self.tree = LinkTree(
            self.relays,  # type: ignore[arg-type]
            "here",
            "d1",
            15.0,
            Metrics(),
            peers,
            lambda: self.now,
        )

    def _reply(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.get(request.url.host)
        if answer is None:
            raise httpx.ConnectError("away")
        return httpx.Response(answer) if isinstance(answer, int) else httpx.Response(200, json=answer)

    def hear(self, link: str, *behind: str) -> None:
        self.tree.note_behind("market", link, frozenset(behind))


def refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except ServiceError as error:
        return error.code == "cycle"
    return False


def test_who_is_behind_other_links_is_passed_on() -> None:
    world = World()
    world.hear("north", "north:market", "far:market")
    assert world.tree.behind("market", "east") == ["far:market", "here:market", "north:market"]
    assert world.tree.behind("market", "north") == ["here:market"]
    world.tree.forget("market", "north")
    assert world.tree.behind("market", "east") == ["here:market"]


def test_nobody_is_reached_in_two_ways() -> None:
    world = World()
    world.hear("north", "north:market", "far:market")
    assert refused(lambda: world.hear("east", "east:market", "far:market"))
    assert refused(lambda: world.hear("east", "here:market"))
    assert not refused(lambda: world.hear("east", "east:market"))
    assert refused(lambda: world.hear("north", "north:market", "east:market")), "it grew into one"
    assert world.tree.behind("market", "east") == ["here:market"], "who closes a cycle is not believed"


def test_what_came_over_a_link_that_closes_a_cycle_goes_after_a_while() -> None:
    async def main() -> None:
        world = World()
        box = ((0.0, 1.0),)
        messages = [Message(0, "reset", follow=1), Message(1, "subscribe", "east:market:s", box=box)]
        await world.relays.submit("market", Receive("east", "e1", messages))
        world.hear("north", "north:market", "east:market")
        for world.now in (0.0, CUT_AFTER / 2):
            assert refused(lambda: world.hear("east", "east:market"))
            await asyncio.sleep(0)
            assert world.relays.engine.subscription_count == 1
        world.now = 2 * CUT_AFTER
        for _ in range(2):
            assert refused(lambda: world.hear("east", "east:market"))
            await asyncio.sleep(0)
        assert world.relays.engine.subscription_count == 0
        assert len(world.relays.commands) == 2, "it goes once"
        plan = await world.relays.submit("market", Receive("east", "e1", messages))
        assert plan.next == 0, "the other side has to begin again"
        world.tree.forget("market", "north")
        assert not refused(lambda: world.hear("east", "east:market"))

    asyncio.run(main())


def test_a_neighbour_cannot_name_an_epoch_as_if_its_link_had_been_cut_already() -> None:
    async def main() -> None:
        world = World()
        await world.relays.submit("market", Receive("east", "cut.e1", [Message(0, "reset", follow=1)]))
        said = Message(1, "subscribe", "east:market:s", box=((0.0, 1.0),))
        await world.relays.submit("market", Receive("east", "cut.e1", [said]))
        world.hear("north", "north:market", "east:market")
        for world.now in (0.0, 2 * CUT_AFTER):
            assert refused(lambda: world.hear("east", "east:market"))
        await asyncio.sleep(0)
        assert world.relays.engine.subscription_count == 0

    asyncio.run(main())


def test_who_expects_what_was_never_sent_is_asked_again_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        pauses = asyncio.Semaphore(0)

        async def pause(event: asyncio.Event, seconds: float) -> None:
            pauses.release()
            await asyncio.Event().wait()

        monkeypatch.setattr(sender, "_either", pause)
        world = World({"north.example": {"identity": "north:market", "behind": ["north:market"], "next": 1_000_000}})
        world.relays.engine = RelayEngine(RelayConfig(("x",), links={"north": NORTH}))
        await world.tree.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await pauses.acquire()
        finally:
            await world.tree.close()
        assert [type(command) for command in world.relays.commands] == [Restart, Acked]
        assert world.relays.engine.outboxes["north"].stale, "the next thing that it hears is another epoch"

    asyncio.run(main())


TURNS = [0]


async def _turns() -> None:
    while True:
        TURNS[0] += 1
        await asyncio.sleep(0)


def test_a_subscription_that_came_another_way_is_refused() -> None:
    async def main() -> None:
        world = World()
        box = ((0.0, 1.0),)
        first = [Message(0, "reset", follow=1), Message(1, "subscribe", "far:market:s", box=box)]
        await world.relays.submit("market", Receive("north", "e1", first))
        again = [Message(1, "subscribe", "far:market:s", box=box)]

        async def received(link: str, messages: list[Message]) -> str:
            try:
                await world.tree.received("market", link, frozenset(), messages)
            except ServiceError as error:
                return error.code
            return ""

        assert await received("east", again) == "cycle"
        assert await received("north", again) == ""
        own = [Message(1, "subscribe", "here:market:s", box=box)]
        assert await received("north", own) == "cycle"
        # Of many, others go first in between, and the last is looked at as the first.
        many = [Message(n, "subscribe", f"far:market:s{n}", box=box) for n in range(2, 2 * STRIDE + 9)]
        turns = asyncio.create_task(_turns())
        await asyncio.sleep(0)
        assert await received("east", [*many, *again]) == "cycle"
        turns.cancel()
        assert TURNS[0] >= 3

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answers", "closes"),
    [
        ({}, False),
        ({"south.example": 404}, False),
        ({"south.example": {"identity": "south:market", "behind": ["south:market", "tip:market"]}}, False),
        ({"south.example": 409}, True),
        ({"south.example": {"identity": "here:market", "behind": []}}, True),
        ({"south.example": {"identity": "south:market", "behind": ["far:market"]}}, True),
    ],
)
def test_a_new_link_is_asked_for_who_is_there(answers: dict[str, Any], closes: bool) -> None:
    async def main() -> None:
        world = World(answers)
        world.hear("north", "north:market", "far:market")
        present = world.relays.engine.config.links
        links = {**present, "south": Link("http://south.example", "market", "here")}
        if closes:
            with pytest.raises(Cycle) as raised:
                await world.tree.admit("market", links, present)
            assert (raised.value.code, raised.value.errors[0].field) == ("cycle", "links.south")
        else:
            await world.tree.admit("market", links, present)

    asyncio.run(main())


def test_two_links_that_are_new_together_lead_to_different_places() -> None:
    async def main() -> None:
        both = {"identity": "one:market", "behind": ["one:market"]}
        world = World({"a.example": both, "b.example": both})
        links = {name: Link(f"http://{name}.example", "market", "here") for name in "ab"}
        with pytest.raises(Cycle):
            await world.tree.admit("market", links, {})

    asyncio.run(main())


def test_queues_of_another_history_begin_anew_before_anything_is_sent() -> None:
    async def main() -> None:
        world = World()
        await world.relays.submit("market", Restart("north", "d0.before"))
        await world.relays.submit("market", Restart("east", "d1.before"))
        await world.tree.start()
        await world.tree.close()
        begun = [(command.link, command.epoch.partition(".")[0]) for command in world.relays.commands[2:]]
        assert begun == [("north", "d1")]

    asyncio.run(main())
