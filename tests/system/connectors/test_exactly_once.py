"""Messages of sources with positions arrive exactly once, in order, whatever is killed in between."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from secrets import token_hex

import pytest

from tests.support.brokers import Broker, MockKafka, server
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
from tests.system.connectors.feeds import Feed, KafkaFeed, NatsFeed, RedisFeed
from tests.system.connectors.model import Model

SMALL = ("--batch", "30")
"""Many requests, so that kills fall between them."""

Open = Callable[[], Feed]


def _name() -> str:
    return f"T{token_hex(6)}"


@pytest.fixture(params=["nats", "nats-workqueue", "nats-interest", "redis"])
def feed(request: pytest.FixtureRequest) -> Iterator[Feed]:
    broker, _, retention = request.param.partition("-")
    url = server(broker)
    made: Feed = NatsFeed(url, _name(), retention or "limits") if broker == "nats" else RedisFeed(url, _name())
    yield made
    made.remove()


def settled(carrying: Carrying, model: Model) -> None:
    """The board holds what the model does, each event once, and each refused one is a dead letter once."""
    wait_until(
        lambda: carrying.connector.alive() and seq_of(carrying.service) >= model.seq,
        why=lambda: (seq_of(carrying.service), model.seq, carrying.connector.said[-4000:]),
    )
    carrying.connector.end()
    # What comes behind the last change is refused, and may still have been under way.
    carrying.run("--once").wait()
    assert seq_of(carrying.service) == model.seq
    assert sorted(map(plain, carrying.feed.dead())) == refused(model)
    again = carrying.run("--once").wait()
    assert (again["messages"], again["refused"]) == (0, 0)


@pytest.mark.timeout(900)
def test_each_event_once_while_all_is_killed(carry: Carry, feed: Feed) -> None:
    carrying = carry(feed, *SMALL)
    sent = killed(carrying, portion, Random(1))
    model = modelled(sent)
    settled(carrying, model)
    held = [{name: one[name] for name in ("id", "values", "created")} for one in objects_of(carrying.service)]
    assert held == [model.objects[id] for id in sorted(model.objects)]


@pytest.mark.timeout(900)
def test_kafka_each_event_once_in_the_order_of_its_partition(carry: Carry) -> None:
    topic = _name()
    cluster = MockKafka(topic)
    try:
        feed = KafkaFeed(cluster.url, topic)
        carrying = carry(feed, *SMALL)

        def make(draw: Random) -> list[bytes]:
            # Each partition has objects of its own, so that their order says nothing.
            return [
                one.replace(b'"id": "o', b'"id": "p%d-' % (i % feed.PARTITIONS)) for i, one in enumerate(portion(draw))
            ]

        # The broker takes 10 s to miss a member of the group that was killed.
        model = modelled(killed(carrying, make, Random(2), kills=3))
        settled(carrying, model)
        held = {one["id"]: one["values"] for one in objects_of(carrying.service)}
        assert held == {id: one["values"] for id, one in model.objects.items()}
    finally:
        cluster.stop()


@pytest.mark.parametrize("broker", ["nats", "redis"])
@pytest.mark.timeout(900)
def test_each_event_once_while_the_broker_is_killed(carry: Carry, tmp_path: Path, broker: str) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    own = Broker(broker, folder)
    try:
        feed: Feed = NatsFeed(own.url, _name()) if broker == "nats" else RedisFeed(own.url, _name())
        carrying = carry(feed, *SMALL)
        draw, sent = Random(3), list[bytes]()
        for _ in range(4):
            some = portion(draw)
            sent += some
            before = seq_of(carrying.service)
            feed.publish(some)
            carrying.reaches(before + draw.randrange(50, 300))
            own.stop(signal.SIGKILL)
            own.start()
        settled(carrying, modelled(sent))
    finally:
        own.stop()
