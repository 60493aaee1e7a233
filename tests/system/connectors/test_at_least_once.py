"""Messages of brokers without positions arrive at least once, in order, whatever is killed in between."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from secrets import token_hex

import pytest

from tests.support.brokers import Broker, server
from tests.support.patience import wait_until
from tests.system.connectors.carrying import (
    Carry,
    Carrying,
    killed,
    modelled,
    objects_of,
    plain,
    portion,
    refused,
    seq_of,
)
from tests.system.connectors.feeds import Feed, MqttFeed, RabbitFeed
from tests.system.connectors.model import ATTRIBUTES, Model

SMALL = ("--batch", "30")


def _name() -> str:
    return f"t{token_hex(6)}"


@pytest.fixture(params=["amqp", "mqtt"])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Feed]:
    own = None
    if request.param == "amqp":
        made: Feed = RabbitFeed(server("amqp"), _name())
    else:
        # One that others set up may drop what does not fit into its queue for a session.
        folder = tmp_path / "mosquitto"
        folder.mkdir()
        own = Broker("mqtt", folder)
        made = MqttFeed(own.url, _name())
    yield made
    made.remove()
    if own is not None:
        own.stop()


def settled(carrying: Carrying, model: Model, file: Path | None = None) -> list[str]:
    """The board holds the last values of every object, and what had to be refused is among the dead letters, which are
    returned: those in the `file`, or at the broker.

    An event that came again may have been refused for that, so there may be more of those. One that had to be refused
    since its object was not there, and was lost with a connector before it was a dead letter, is applied when it comes
    again if the object is there by then, so what the state decides may be missing.
    """

    def right() -> bool:
        carrying.connector.alive()
        held = {one["id"]: one["values"] for one in objects_of(carrying.service)}
        return held == {id: one["values"] for id, one in model.objects.items()}

    wait_until(right, pause=0.1, why=lambda: carrying.connector.said[-4000:])
    assert carrying.connector.end()["messages"] > 0
    # What comes behind the last change is refused, and may still have been under way.
    carrying.run("--once").wait()
    again = carrying.run("--once").wait()
    assert (again["messages"], again["refused"]) == (0, 0), "what was answered was acknowledged"
    records = carrying.feed.dead() if file is None else map(json.loads, file.read_text().splitlines())
    letters = sorted(map(plain, records))
    missing = set(refused(model)) - set(letters)
    assert all(_depends_on_state(text) for text in missing), missing
    assert len(missing) <= len(set(refused(model))) // 10, "few are under way at a kill"
    return letters


def _depends_on_state(text: str) -> bool:
    """Whether an event that was refused is well formed, so that it was refused since its object was not there."""
    try:
        event = json.loads(text)
    except ValueError:
        return False
    values = event.get("values", {}) if isinstance(event, dict) else None
    if values is None or event.get("op") not in ("update", "delete"):
        return False
    return set(values) <= set(ATTRIBUTES) and all(isinstance(value, int) for value in values.values())


@pytest.mark.timeout(900)
def test_each_event_while_all_is_killed(carry: Carry, feed: Feed) -> None:
    carrying = carry(feed, *SMALL, "--name", _name())
    sent = killed(carrying, portion, Random(4), exact=False)
    settled(carrying, modelled(sent))


def test_without_kills_each_event_comes_once_in_order(carry: Carry, feed: Feed) -> None:
    carrying = carry(feed, "--name", _name())
    sent = portion(Random(5))
    feed.publish(sent)
    model = modelled(sent)
    assert settled(carrying, model) == refused(model)
    held = [{name: one[name] for name in ("id", "values", "created")} for one in objects_of(carrying.service)]
    assert held == [model.objects[id] for id in sorted(model.objects)]


@pytest.mark.timeout(900)
def test_each_event_while_the_broker_is_killed(carry: Carry, tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    own = Broker("mqtt", folder)
    feed = MqttFeed(own.url, _name())
    try:
        # Who listens for dead letters would miss those that come while the broker is away.
        file = tmp_path / "dead"
        carrying = carry(feed, *SMALL, "--name", _name(), "--dead", str(file))
        draw, sent = Random(6), list[bytes]()
        for _ in range(3):
            some = portion(draw)
            sent += some
            before = seq_of(carrying.service)
            feed.publish(some)
            carrying.reaches(before + draw.randrange(50, 300))
            # Mosquitto writes what it holds when it ends, and not at each message.
            own.stop(signal.SIGTERM)
            own.start()
        settled(carrying, modelled(sent), file)
    finally:
        feed.remove()
        own.stop()
