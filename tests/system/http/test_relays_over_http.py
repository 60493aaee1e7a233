"""Relays on a live service: random histories, and streams of notifications that miss nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.live import StartService
from tests.system.http.following import SseFollower
from tests.system.http.relay_history import RelayPlayer
from tests.system.http.talk import Json, Talk, problem
from tests.system.http.told import Told, play, readers_miss_nothing, reset_after_a_restart, streams_end

WAYS = [(2, "G", 1, "kd", 0), (1, "G", 3, "zorder", 2), (2, "G*", 1, "linear", 0), (2, "poset", 1, "kd", 1)]


@pytest.mark.parametrize(("d", "graph", "k", "index", "links"), WAYS)
def test_a_history_is_exact_after_every_step(talk: Talk, d: int, graph: str, k: int, index: str, links: int) -> None:
    play(RelayPlayer(talk, 7 * d + links, d, graph, k, index, links), 150, every=10)


class Market(Told):
    """A relay with some local subscriptions."""

    collection = "relays"
    event = "notification"
    fields = ("seq", "values", "payload")

    def __init__(self, talk: Talk) -> None:
        super().__init__(talk, {"attributes": ["price"]})

    def body(self, n: int) -> Json:
        return {"box": {"price": [10 * n, 10 * n + 40]}}

    def tell(self, count: int) -> None:
        prices = [self.draw.randrange(80) for _ in range(count)]
        events = [{"values": {"price": price}, "payload": {"n": price}} for price in prices]
        answer = self.talk.good("POST", f"{self.path}/notifications", {"notifications": events})
        first = answer["seq"] - count + 1
        for seq, price, event, result in zip(
            range(first, first + count), prices, events, answer["results"], strict=True
        ):
            assert result["subscriptions"] == [f"s{n}" for n in range(4) if 10 * n <= price <= 10 * n + 40]
            for id in result["subscriptions"]:
                self.told[id].append({"seq": seq, **event})


def test_readers_of_both_kinds_hear_all_and_go_on_where_they_were(talk: Talk, closing: list[Any]) -> None:
    readers_miss_nothing(Market(talk), closing, 4)


def test_a_stream_ends_with_its_subscription_or_its_relay(talk: Talk, closing: list[Any]) -> None:
    market = Market(talk)

    def deleted(path: str) -> int:
        seq: int = talk.good("DELETE", path)["seq"]
        return seq

    def by_command() -> int:
        headers = {"Content-Type": "application/x-ndjson"}
        line = b'{"op":"unsubscribe","id":"s1"}\n'
        seq: int = talk.ask("POST", f"{market.path}/commands", line, headers=headers).json()["seq"]
        return seq

    one = f"{market.path}/subscriptions/s1"
    streams_end(market, closing, lambda: deleted(one), by_command, lambda: deleted(market.path))


def test_a_changed_subscription_is_told_of_what_it_now_meets(talk: Talk, closing: list[Any]) -> None:
    market = Market(talk)
    sse = SseFollower(talk.url, market.stream("s0"))
    closing.append(sse)
    sse.first()
    talk.good("PATCH", f"{market.path}/subscriptions/s0", {"box": {"price": [100, 200]}})
    for price in (20, 150):
        event = {"values": {"price": price}}
        seq = talk.good("POST", f"{market.path}/notifications", {"notifications": [event]})["seq"]
    sse.wait(lambda: len(sse.said) > 1)
    assert market.heard(sse.said) == [{"seq": seq, "values": {"price": 150}, "payload": None}]


def test_what_streams_of_relays_do_not_have_is_refused(talk: Talk) -> None:
    market = Market(talk)
    for more in ({"form": "tiles"}, {"old": "true"}, {"squash": "2"}):
        problem(talk.ask("GET", market.stream("s1"), params=more), 422, *more)


def test_after_a_restart_a_stream_is_reset(start_service: StartService, closing: list[Any]) -> None:
    reset_after_a_restart(start_service, closing, Market)
