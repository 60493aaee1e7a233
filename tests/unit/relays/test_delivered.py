"""What is kept of answers to notifications: columns of bounded size with the ids of the moment, beside brute force."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from app.rendering.recipients import answers, deliveries, pieces
from indexes.relays.commands import DeleteSubscriptions, Notify, Receive
from indexes.relays.config import Message, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.recipients import NONE
from tests.unit.relays.helpers import add, engine, link_to

N, D = 60, 2


def world(rng: Any) -> tuple[RelayEngine, dict[str, list[tuple[float, float]]]]:
    """A relay with a link, over which a subscription came, and the boxes of its own, oldest first."""
    made = RelayEngine(RelayConfig(("a", "b"), links={"north": link_to("north")}))
    far = Message(1, "subscribe", "n:e:1", ((2.0, 5.0), (0.0, 9.0)))
    made.apply(Receive("north", "n1", [Message(0, "reset", follow=1), far]))
    sides = np.sort(rng.integers(0, 9, (N, D, 2)), axis=2).astype(float)
    own = {f"s{i}": [tuple(side) for side in box] for i, box in enumerate(sides.tolist())}
    made.apply(add(list(own.items())))
    return made, own


def meeting(own: dict[str, list[tuple[float, float]]], values: list[float]) -> list[str]:
    return [key for key, box in own.items() if all(lo <= x <= hi for (lo, hi), x in zip(box, values, strict=True))]


@pytest.mark.parametrize("most", [10**6, 37, 0])
@pytest.mark.parametrize("few", [10**6, 0])
@pytest.mark.parametrize("met", [10**6, 1])
def test_all_ways_of_keeping_what_is_met_come_to_the_same(most: int, few: int, met: int) -> None:
    rng = np.random.default_rng(most + few)
    made, own = world(rng)
    values = rng.integers(0, 9, (40, D)).astype(float)
    with (
        patch("indexes.relays.plans.subscriptions.MOST_NAMED", most),
        patch("indexes.relays.plans.subscriptions.MOST_MET", met),
        patch("indexes.relays.plans.subscriptions.FEW", few),
    ):
        plan, _ = made.apply(Notify(values, links={0: "north"}))
    left = most
    for i, (delivery, point) in enumerate(zip(plan.results, values.tolist(), strict=True)):
        wanted = meeting(own, point)
        assert delivery.subscriptions == wanted[:left]
        assert delivery.truncated == (len(wanted) > left)
        assert delivery.links == (["north"] if i and 2 <= point[0] <= 5 else [])
        left -= min(left, len(wanted))
    assert plan.found.named == most - left
    made.check()


def test_what_is_kept_is_four_bytes_for_each_and_no_id_is_copied() -> None:
    made = engine()
    made.apply(add([(f"s{i}", [(0, 9)]) for i in range(300)]))
    with patch("indexes.relays.plans.subscriptions.FEW", 0):
        plan, _ = made.apply(Notify(np.full((1_000, 1), 5.0)))
    found = plan.found.ids
    assert found.at.nbytes == 4 * 300 * 1_000
    for texts, held in ((found.base, made.relay.names.ids.base.text), (found.later, made.relay.names._later._text)):
        assert len(texts.text) == len(held) and (len(held) == 0 or np.shares_memory(texts.text, held))
    assert [len(one.subscriptions) for one in plan.found.part(500, 502).results()] == [300, 300]


def test_ids_are_those_of_the_moment_when_slots_have_been_given_to_others() -> None:
    made = engine()
    made.apply(add([(f"s{i}", [(0, 9)]) for i in range(5)]))
    plans = []
    for few in (100, 0):
        with patch("indexes.relays.plans.subscriptions.FEW", few):
            plans.append(made.apply(Notify(np.array([[1.0], [2.0]])))[0])
    made.apply(DeleteSubscriptions([f"s{i}" for i in range(5)]))
    made.apply(add([(f"t{i}", [(0, 9)]) for i in range(5)]))
    for plan in plans:
        assert [one.subscriptions for one in plan.results] == [[f"s{i}" for i in range(5)]] * 2


def test_long_ids_are_found_beside_and_nothing_has_its_turn_meanwhile() -> None:
    made = engine()
    made.apply(add([(f"s{i}", [(0, 9)]) for i in range(5)]))
    made.watch("s3")
    with patch("indexes.relays.plans.subscriptions.FEW", 0):
        plan: Any = made.prepare(Notify(np.array([[1.0]])))
        plan.execute(1.0)
        (told,) = plan.publish().notified
        assert (told.id, made.seq, plan.done) == ("s3", 2 + 4, False)
        assert plan.work > 0.1, "it is not waited for on the loop"
        while not plan.done:
            plan.execute(1.0)
            assert plan.publish() is None
    assert plan.results[0].subscriptions == [f"s{i}" for i in range(5)]
    plan.execute(1.0)
    assert plan.publish() is None
    made.check()


def test_a_command_without_notifications_may_be_executed() -> None:
    made = engine()
    plan = made.prepare(Notify(np.empty((0, 1))))
    assert plan.done
    plan.execute(1.0)
    assert plan.publish() is None and plan.results == [] and len(plan.found) == 0


def test_a_retry_names_a_bounded_number() -> None:
    made = engine()
    made.apply(add([(f"s{i}", [(0, 9)]) for i in range(5)]))
    with patch("indexes.relays.plans.subscriptions.MOST_KEPT", 7):
        told = made.apply(Notify(np.array([[1.0], [2.0], [3.0]])))[0].response_fields()
    every = [f"s{i}" for i in range(5)]
    assert told["results"] == [
        {"subscriptions": every, "links": []},
        {"subscriptions": every[:2], "links": [], "truncated": True},
        {"subscriptions": [], "links": [], "truncated": True},
    ]


def test_a_retry_names_a_bounded_number_of_links() -> None:
    made = engine(["north", "west"])
    for name in ("north", "west"):
        far = Message(1, "subscribe", f"{name}:e:1", ((0.0, 2.0 if name == "west" else 9.0),))
        made.apply(Receive(name, "e", [Message(0, "reset", follow=1), far]))
    with patch("indexes.relays.plans.subscriptions.MOST_KEPT", 3):
        plan = made.apply(Notify(np.array([[1.0], [5.0], [50.0], [1.0], [50.0]])))[0]
        told = [(one["links"], "truncated" in one) for one in plan.response_fields()["results"]]
    assert told == [(["north", "west"], False), (["north"], False), ([], False), ([], True), ([], False)]
    assert plan.results[3].links == ["north", "west"]


def test_live_subscriptions_are_found_by_either_way() -> None:
    rng = np.random.default_rng(1)
    for factor in (0, 10**6):
        made, own = world(rng)
        live = list(own)[::7]
        for key in live:
            made.watch(key)
        values = rng.integers(0, 9, (20, D)).astype(float)
        with patch("indexes.relays.recipients.IDS_A_SEARCH", factor):
            first, heard = made.seq + 1, made.apply(Notify(values))[1]
        found = [(told.seq, told.id) for part in heard for told in part.notified]
        assert found == [
            (seq, key) for seq, point in enumerate(values.tolist(), first) for key in meeting(own, point) if key in live
        ]


@pytest.mark.parametrize("piece", [1, 2, 5, 100])
@pytest.mark.parametrize("indexed", [False, True])
def test_the_text_is_the_same_however_it_is_cut(piece: int, indexed: bool) -> None:
    rng = np.random.default_rng(piece)
    made, _ = world(rng)
    with patch("indexes.relays.plans.subscriptions.MOST_NAMED", 50):
        plan, _ = made.apply(Notify(rng.integers(0, 9, (12, D)).astype(float)))
    heads = [f'"index":{3 * i},' for i in range(12)] if indexed else []
    with patch("app.rendering.recipients.PIECE", piece):
        parts = list(pieces(plan.found, heads))
    text = b"".join(parts).decode()
    assert text == deliveries(plan.found, heads)
    wanted = [{**({"index": 3 * i} if indexed else {}), **one.fields()} for i, one in enumerate(plan.results)]
    assert json.loads(f"[{text}]") == wanted
    assert piece == 100 or len(parts) > 12 // piece
    assert list(pieces(NONE)) == []


def test_answers_to_single_notifications_are_the_fields_of_their_deliveries() -> None:
    """With links and without, some of them truncated, and ids of all lengths, of which some came late."""
    rng = np.random.default_rng(3)
    made, own = world(rng)
    long = {f"{i:02}" + "x" * (5 * i): [(0.0, 9.0), (0.0, 9.0)] for i in range(40)}
    values = rng.integers(0, 9, (30, D)).astype(float)
    for late in (False, True):
        if late:
            made.relay.names.swap(made.relay.names.merged())
            made.apply(add(list(long.items())))
        for most in (10**6, 100):
            with patch("indexes.relays.plans.subscriptions.MOST_NAMED", most):
                plan, _ = made.apply(Notify(values, links={3: "north"}))
            assert plan.found.truncated.any() == (most == 100)
            assert any(plan.found.links)
            texts = answers(plan.found, plan.first_seq)
            for seq, (text, one) in enumerate(zip(texts, plan.results, strict=True), plan.first_seq):
                said = json.dumps({"seq": seq, "results": [one.fields()]}, separators=(",", ":"))
                assert text.decode() == said + "\n"
    assert answers(NONE, 1) == []
    plain = engine()
    plain.apply(add([(key, box[:1]) for key, box in {**own, **long}.items()]))
    plan, _ = plain.apply(Notify(values[:, :1]))
    texts = answers(plan.found, 10**12)
    assert json.loads(b"[" + b",".join(texts) + b"]") == [
        {"seq": seq, "results": [{"subscriptions": one.subscriptions, "links": []}]}
        for seq, one in enumerate(plan.results, 10**12)
    ]
