"""A zone at a gateway: messages in order, holes, and messages that do not come although NATS has them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from app.gateway import zone as zones
from app.gateway.lists import Ranking
from app.gateway.zone import BEHIND_SECONDS, Said, Zone


class Broker:
    """A broker that hands on what the test gives it."""

    def __init__(self) -> None:
        self.connected = True
        self.consumers: list[Any] = []
        self.renewed: list[Any] = []

    def add(self, consumer: Any) -> None:
        self.consumers.append(consumer)

    def remove(self, consumer: Any) -> None:
        self.consumers.remove(consumer)

    def renew(self, consumer: Any) -> None:
        self.renewed.append(consumer)


class Owner:
    """A board that notes what its zone says."""

    epoch, name, ranking = "e", "b", Ranking("x", "y", 1)

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.holes: list[int] = []

    def said(self, zone: Zone, said: Said) -> None:
        self.seqs.append(said.seq)

    def missed(self, zone: Zone, through: int) -> None:
        assert zone.at == through
        self.holes.append(through)

    def moved(self, zone: Zone, seq: int, version: int | None, reset: bool) -> None:
        raise NotImplementedError

    def board_gone(self, seq: int) -> None:
        raise NotImplementedError


class World:
    """A zone that has begun at seq 10, with a clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(zones, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.broker, self.owner = Broker(), Owner()
        self.zone = Zone(self.owner, self.broker, 1, 0, 10)  # type: ignore[arg-type]
        (self.consumer,) = self.broker.consumers
        self.consumer.begun(False)

    def say(self, seq: int, prev: int) -> None:
        self.consumer.take(json.dumps({"seq": seq, "prev": prev, "tiles": []}).encode(), self.now)

    def look(self, published: int, last: int, after: float = 0.0) -> None:
        self.now += after
        self.zone.settle(published, last)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_hole_is_made_up_for_by_lists(world: World) -> None:
    world.say(12, 10)
    world.say(12, 10)
    world.say(20, 15)
    assert (world.owner.seqs, world.owner.holes, world.zone.at, world.zone.floor) == ([12, 20], [15], 20, 15)
    assert world.zone.since(14) is None
    assert [said.seq for said in world.zone.since(15) or []] == [20]


def test_a_quiet_zone_is_where_nats_is(world: World) -> None:
    world.say(12, 10)
    world.look(40, 12)
    world.look(40, 12, after=2 * BEHIND_SECONDS)
    assert (world.zone.at, world.owner.holes, world.broker.renewed) == (40, [], [])


def test_messages_that_do_not_come_are_consumed_again_and_made_up_for_by_lists(world: World) -> None:
    world.say(12, 10)
    world.look(40, 30)
    world.look(40, 30, after=BEHIND_SECONDS)
    assert world.owner.holes == [], "they may be on their way"
    world.look(45, 31, after=1)
    assert (world.owner.holes, world.zone.at, world.broker.renewed) == ([31], 31, [world.consumer])
    world.say(30, 12)
    world.say(50, 31)
    assert world.owner.seqs == [12, 50], "what a list has already is not applied to it"


def test_a_zone_whose_messages_come_late_is_left_alone(world: World) -> None:
    for seq in range(11, 20):
        world.say(seq, seq - 1)
        world.look(100, 90, after=BEHIND_SECONDS)
    assert (world.owner.holes, world.zone.at) == ([], 19)


def test_nothing_is_expected_while_nats_is_away(world: World) -> None:
    world.look(40, 30)
    world.broker.connected = False
    world.look(40, 30, after=BEHIND_SECONDS + 1)
    world.broker.connected = True
    world.look(40, 30, after=1)
    assert (world.owner.holes, world.broker.renewed) == ([], [])
