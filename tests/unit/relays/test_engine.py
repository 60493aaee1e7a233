"""The engine behind the writer.

Alone and in a tree of several, with messages lost, repeated, late and out of order, beside brute force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from formats.commands import PART
from formats.relay_commands import decode, encode
from indexes.core.commands import Fault, Refused
from indexes.relays.commands import (
    Acked,
    AddSubscriptions,
    ChangeLinks,
    ChangeSubscription,
    DeleteSubscriptions,
    EditSubscriptions,
    Notify,
    Receive,
    Rederive,
    Restart,
    SetSubscription,
)
from indexes.relays.config import Message, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.packing import unpack_indexes
from indexes.relays.state import engine_of, packed_of, relay_of, state_of
from tests.oracles.relay_service import RelayService
from tests.support.values import present
from tests.unit.relays.helpers import NAMES, add, engine, link_to, reset, same_state, state
from tests.unit.relays.worlds import Graph, Way, boxes, numbers

KINDS: tuple[Way, ...] = (
    ("G", 1, "kd"),
    ("G", 2, "zorder"),
    ("G", 1, "linear"),
    ("G*", 1, "kd"),
    ("poset", 1, "zorder"),
)
TREE = {"p": ("q",), "q": ("p", "r", "s"), "r": ("q",), "s": ("q",)}
HISTORY = 5
LIMITS = {
    "indexes.relays.plans.subscriptions.ChangePlan.seconds_a_step": 2e-3,
    "indexes.relays.plans.subscriptions.BatchPlan.seconds_a_step": 2e-3,
    "indexes.relays.outbox.HISTORY": HISTORY,
    "indexes.relays.outbox.CHUNK": 32,
    "indexes.relays.plans.links.FEW": 2,
}
"""A slice has a step or two, and queues become stale, and have many columns."""


def ends(box: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([lo for lo, _ in box], float), np.array([hi for _, hi in box], float)


class Node:
    """A service: its engine, and brute force beside it."""

    def __init__(self, name: str, config: RelayConfig) -> None:
        self.name = name
        self.engine = RelayEngine(config, 3)
        self.truth = RelayService(HISTORY)
        self.heard: Counter[Any] = Counter()

    def apply(self, command: Any) -> Any:
        plan, parts = self.engine.apply(command)
        for part in parts:
            for told in part.notified:
                self.heard[told.id, told.payload] += 1
        assert self.engine.seq == self.engine.next_seq - 1
        return plan

    def check(self) -> None:
        engine, truth = self.engine, self.truth
        engine.check()
        for name, router in truth.routers.items():
            wanted = [key for key in router.boxes if key in router.forwarded]
            assert engine.relay.forwarded(name) == wanted, (self.name, name)
            assert engine.relay.forwarded_count(name) == (len(wanted), len(router.boxes))
        assert set(engine.outboxes) == set(truth.sides)
        for name, side in truth.sides.items():
            box, inbox = engine.outboxes[name], engine.inboxes[name]
            assert (box.epoch, box.stale, box.first, len(box)) == (side.epoch, side.stale, side.first, len(side.queue))
            assert engine.messages(name, box.first, 10**6) == ([] if side.stale else side.messages())
            told = (inbox.epoch, inbox.next, list(inbox.past), inbox.left, dict(inbox.heard))
            assert told == (side.peer, side.expected, side.past, side.left, side.heard)
        assert self.heard == Counter(truth.delivered)
        assert all(n == 1 for n in self.heard.values()), "heard twice"


class Network(RuleBasedStateMachine):
    """A tree of services.

    What was everywhere known when a notification was made, and stays until all queues are empty, hears of it exactly
    once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches = [patch(name, value) for name, value in LIMITS.items()]
        for one in self.patches:
            one.start()
        self.epochs = (f"epoch{n}" for n in count())
        self.ids = count()
        self.payloads = count()
        self.known: set[Any] = set()
        self.expected: dict[Any, Any] = {}
        self.sent: list[Any] = []

    def teardown(self) -> None:
        for one in self.patches:
            one.stop()

    @initialize(d=st.integers(1, 2), kinds=st.lists(st.sampled_from(KINDS), min_size=4, max_size=4))
    def open(self, d: int, kinds: list[Way]) -> None:
        self.d = d
        self.nodes = {name: Node(name, RelayConfig(NAMES[:d], *kind)) for name, kind in zip(TREE, kinds, strict=True)}
        for name, links in TREE.items():
            self.join(name, links)

    def join(self, name: str, links: tuple[Any, ...] | list[str]) -> None:
        self.nodes[name].apply(ChangeLinks({link: link_to(link) for link in links}))
        self.nodes[name].truth.add_links(list(links))

    def pick(self, data: st.DataObject) -> Node:
        return self.nodes[data.draw(st.sampled_from(sorted(self.nodes)))]

    def own(self, node: Node) -> list[str]:
        return [key for key in node.truth.subscriptions if not key.startswith("~")]

    def forget(self, node: Node, key: str) -> None:
        """A subscription ends: whether it hears of what is under way is open."""
        self.known.discard((node.name, key))
        for wanted in self.expected.values():
            wanted.discard((node.name, key))

    @rule(data=st.data())
    def subscribe(self, data: st.DataObject) -> None:
        node = self.pick(data)
        rows = [(f"s{next(self.ids)}", data.draw(boxes(self.d))) for _ in range(data.draw(st.integers(1, 4)))]
        plan = node.apply(add(rows, ttl={0: 9.0}))
        wanted = [node.truth.subscribe(key, box) for key, box in rows]
        node.truth.bound()
        assert [answer.forward for answer in plan.results] == wanted
        for answer in plan.results:
            assert all((not answer.covered_by[name]) == forward for name, forward in answer.forward.items())
        for key, _ in rows:
            node.engine.watch(key)

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        node = self.pick(data)
        gone = data.draw(st.lists(st.sampled_from([*self.own(node), "nobody"]), unique=True, max_size=3))
        plan = node.apply(DeleteSubscriptions(gone))
        there = [key for key in gone if key != "nobody"]
        wanted = [node.truth.unsubscribe(key) for key in there]
        node.truth.bound()
        assert [answer.id for answer in plan.results] == there
        self.same_ends(plan.results, wanted)
        for key in there:
            self.forget(node, key)

    def same_ends(self, answers: list[Any], wanted: list[dict[str, tuple[bool, list[Any]]]]) -> None:
        for answer, told in zip(answers, wanted, strict=True):
            assert answer.forward_unsubscribe == {name: was for name, (was, _) in told.items()}
            assert answer.forward_subscribe == {name: raised for name, (_, raised) in told.items()}

    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        node = self.pick(data)
        if self.own(node):
            key, box = data.draw(st.sampled_from(self.own(node))), data.draw(boxes(self.d))
            same = tuple(map(tuple, node.truth.subscriptions[key][0])) == tuple(map(tuple, box))
            ttl = node.engine.ttl.get(key)
            plan = node.apply(SetSubscription(key, *ends(box), ttl=ttl))
            if same:
                assert plan.count == 0
                return
            ended, begun = node.truth.replace(key, box)
            node.truth.bound()
            self.same_ends([plan.ended], [ended])
            assert plan.begun.forward == begun
            self.forget(node, key)

    @rule(data=st.data())
    def batch(self, data: st.DataObject) -> None:
        node = self.pick(data)
        there = self.own(node)
        rows: list[Any] = []
        for _ in range(data.draw(st.integers(1, 5))):
            ends_one: bool = data.draw(st.booleans())
            if there and ends_one:
                rows.append((UNSUBSCRIBE, there.pop(data.draw(st.integers(0, len(there) - 1))), [(0.0, 0.0)] * self.d))
            else:
                gone = [key for _, key, _ in rows if key not in there]
                key = data.draw(st.sampled_from([f"s{next(self.ids)}", *gone]))
                rows.append((SUBSCRIBE, key, data.draw(boxes(self.d))))
                there.append(key)
        whole = add([(key, box) for _, key, box in rows])
        ops = np.array([op for op, _, _ in rows], np.uint8)
        plan = node.apply(EditSubscriptions(ops, whole.ids.to_pylist(), whole.lo, whole.hi))
        for (op, key, box), answer in zip(rows, plan.results, strict=True):
            if op == SUBSCRIBE:
                assert answer.forward == node.truth.subscribe(key, box)
            else:
                self.same_ends([answer], [node.truth.unsubscribe(key)])
            self.forget(node, key)
        node.truth.bound()
        for key in self.own(node):
            node.engine.watch(key)

    @rule(data=st.data())
    def notify(self, data: st.DataObject) -> None:
        node = self.pick(data)
        given = data.draw(st.lists(st.lists(numbers, min_size=self.d, max_size=self.d), min_size=1, max_size=3))
        payloads = [str(next(self.payloads)).encode() for _ in given]
        plan = node.apply(Notify(np.array(given), dict(enumerate(payloads))))
        for values, payload, delivery in zip(given, payloads, plan.results, strict=True):
            assert delivery.links == node.truth.notify(tuple(values), payload)
            self.expected[payload] = {
                (name, key)
                for name, key in self.known
                if all(lo <= x <= hi for (lo, hi), x in zip(self.box(name, key), values, strict=True))
            }

    def box(self, name: Any, key: Any) -> Any:
        return self.nodes[name].truth.subscriptions[key][0]

    @rule(data=st.data())
    def transmit(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        to = data.draw(st.sampled_from(TREE[name]))
        self.carry(
            name,
            to,
            skipped=data.draw(st.integers(0, 1)),
            most=data.draw(st.integers(1, 6)),
            lost=data.draw(st.sampled_from(["", "", "request", "answer"])),
        )

    def carry(self, name: str, to: str, skipped: int = 0, most: int = 10**6, lost: str = "") -> None:
        """One request of a sender, and its answer."""
        node, other = self.nodes[name], self.nodes[to]
        if to not in node.engine.outboxes or name not in other.engine.outboxes:
            return
        if node.engine.outboxes[to].stale:
            self.restart(name, to)
        box = node.engine.outboxes[to]
        messages = [
            one._replace(id=f"{name}:edge:{one.id}") if one.own else one
            for one in node.engine.messages(to, box.first + skipped, most)
        ]
        if lost != "request":
            request = other, Receive(name, present(box.epoch), messages)
            self.sent.append(request)
            answered = self.take(*request)
            if lost != "answer":
                node.apply(Acked(to, present(box.epoch), answered))
                node.truth.acknowledge(to, present(box.epoch), answered)

    def restart(self, name: str, to: str) -> None:
        epoch = next(self.epochs)
        self.nodes[name].apply(Restart(to, epoch))
        self.nodes[name].truth.restart(to, epoch)

    def take(self, node: Node, command: Receive) -> int:
        plan = node.apply(command)
        wanted = node.truth.receive(command.link, command.epoch, list(command.messages))
        node.truth.bound()
        assert plan.response_fields() == {"epoch": node.truth.sides[command.link].epoch, "next": wanted}
        return wanted

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def late(self, data: st.DataObject) -> None:
        """A request comes a second time."""
        node, command = data.draw(st.sampled_from(self.sent[-6:]))
        if command.link in node.engine.outboxes:
            self.take(node, command)

    @rule(data=st.data())
    def start_over(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        to = data.draw(st.sampled_from(TREE[name]))
        if to in self.nodes[name].engine.outboxes:
            self.restart(name, to)

    @rule(data=st.data())
    def rederive(self, data: st.DataObject) -> None:
        node = self.pick(data)
        plan = node.apply(Rederive())
        assert plan.rederived == node.truth.rederive()
        told = {name: {"subscribe": new, "unsubscribe": old} for name, (new, old) in plan.rederived.items()}
        assert plan.response_fields() == told.get("", {"links": told})
        node.truth.bound()

    @rule(data=st.data(), image=st.booleans())
    def recover(self, data: st.DataObject, image: bool) -> None:
        """A service starts again from a snapshot."""
        node = self.pick(data)
        before, one = node.engine, state(node.engine)
        indexes = None
        if image:
            indexes = unpack_indexes(one.config, one.relay, packed_of(one))
        node.engine = engine_of(one, indexes)
        same_state(before, node.engine)
        node.engine.watched = before.watched

    @rule(data=st.data())
    def rebuild(self, data: st.DataObject) -> None:
        """Indexes are laid out again while something changes."""
        node = self.pick(data)
        plan = node.engine.capture(journal=True)
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
        one = state_of(present(plan.captured))
        indexes = unpack_indexes(one.config, one.relay, packed_of(one))
        fresh = engine_of(one, indexes).relay
        for change in data.draw(st.lists(st.sampled_from(["subscribe", "transmit", "rederive"]), max_size=3)):
            getattr(self, change)(data)
        fold = node.engine.fold(fresh)
        fold.execute(1.0)
        fold.publish()
        assert fold.swapped

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """A link is taken out on one side and comes back: what was under way may be lost."""
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        to = data.draw(st.sampled_from(TREE[name]))
        node = self.nodes[name]
        if to in node.engine.outboxes:
            node.apply(ChangeLinks({to: None}))
            node.truth.remove_link(to)
            node.truth.bound()
        else:
            self.join(name, [to])
        self.known.clear()
        self.expected.clear()

    @rule()
    def settle(self) -> None:
        """All links are up until nothing waits any more."""
        for name, links in TREE.items():
            missing = [link for link in links if link not in self.nodes[name].engine.outboxes]
            if missing:
                self.join(name, missing)
        for turn in range(30):
            waiting = [
                (name, to)
                for name, links in TREE.items()
                for to in links
                # A neighbour that has lost what it had is noticed by an empty request.
                if turn == 0 or (box := self.nodes[name].engine.outboxes[to]).stale or len(box)
            ]
            for name, to in waiting:
                self.carry(name, to)
            if not waiting:
                break
        assert not waiting, "messages go round without end"
        for payload, wanted in self.expected.items():
            for name, key in wanted:
                assert self.nodes[name].heard[key, payload] == 1, (name, key, payload)
        for name, links in TREE.items():
            for to in links:
                told = self.nodes[name].engine.relay.forwarded(to)
                ids = [key if key.startswith("~") else f"~{name}:edge:{key}" for key in told]
                there = self.nodes[to].truth.subscriptions
                assert sorted(ids) == sorted(key for key, (_, link) in there.items() if link == name)
        self.known = {(name, key) for name, node in self.nodes.items() for key in self.own(node)}
        self.expected.clear()

    @invariant()
    def sound(self) -> None:
        for node in getattr(self, "nodes", {}).values():
            node.check()


Network.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestNetwork = Network.TestCase


BAD_BOX = ((3.0, 1.0),)
NO_RESET = "a reset is the first message of an epoch"
WRONG = [
    (add([("one", [(2, 1)])]), [Fault("box.a", "lo must be at most hi", index=0)]),
    (add([("one", [(inf, inf)]), ("two", [(0, float("nan"))])]), ["box.a", "box.a"]),
    (add([("s", [(0, 1)])]), [Fault("id", "'s' is taken", "taken", 0)]),
    (add([("one", [(0, 1)]), ("one", [(0, 1)])]), [Fault("id", "'one' stands twice in this request", "taken", 1)]),
    (add([("one", [(0, 1)])], link=pa.array(["east"])), [Fault("link", "there is no link 'east'", "unknown", 0)]),
    (add([("~one", [(0, 1)])]), ["id"]),
    (SetSubscription("s", *ends([(2, 1)])), [Fault("box.a", "lo must be at most hi")]),
    (SetSubscription("s", *ends([(1, 2)]), link="east"), [Fault("link", "there is no link 'east'", "unknown")]),
    (ChangeSubscription("x"), [Fault("id", "there is no subscription 'x'", "missing")]),
    (ChangeSubscription("~n:e:1"), ["id"]),
    (ChangeSubscription("s", {"b": (0, 1)}), [Fault("box.b", "there is no such attribute")]),
    (DeleteSubscriptions(["s", "x"], must_exist=True), [Fault("id", "there is no subscription 'x'", "missing")]),
    (DeleteSubscriptions(["~n:e:1"], must_exist=True), ["id"]),
    (Notify(np.array([[inf]])), [Fault("values.a", "must be finite", index=0)]),
    (Notify(np.array([[1.0]]), links={0: "east"}), [Fault("from", "there is no link 'east'", "unknown", 0)]),
    (ChangeLinks({"east": None}), [Fault("links.east", "there is no link 'east'", "unknown")]),
    (ChangeLinks({"": link_to("x")}), ["links"]),
    (Receive("east", "e", []), [Fault("link", "there is no link 'east'", "missing")]),
    (Receive("north", "n1", [Message(2, "subscribe", "x" * 401, ((0.0, 1.0),))]), ["id"]),
    (Receive("north", "n1", [Message(2, "subscribe", "x", BAD_BOX)]), ["box"]),
    (Receive("north", "n1", [Message(2, "subscribe", "x", ())]), ["box"]),
    (Receive("north", "n1", [Message(2, "notify", values=(inf,))]), ["values"]),
    (Receive("north", "n1", [Message(-2, "reset")]), ["n"]),
    (Receive("north", "n1", [Message(2, "reset")]), [Fault("op", NO_RESET, index=0)]),
    (Receive("north", "n1", [Message(7, "reset")]), [Fault("op", NO_RESET, index=0)]),
    (Receive("north", "n1", [Message(0, "reset"), Message(1, "reset")]), [Fault("op", NO_RESET, index=1)]),
    (Receive("north", "n2", [Message(0, "reset"), Message(1, "reset")]), [Fault("op", NO_RESET, index=1)]),
    (
        Receive(
            "north", "n2", [Message(0, "reset", follow=1), Message(1, "notify", values=(1.0,)), Message(2, "reset")]
        ),
        [Fault("op", NO_RESET, index=2)],
    ),
    (Acked("east", "e", 1), ["link"]),
    (Restart("east", "e"), ["link"]),
    (Restart("north", ""), ["epoch"]),
]


@pytest.mark.parametrize(("command", "faults"), WRONG)
def test_what_does_not_apply_is_refused_and_changes_nothing(command: Any, faults: list[Fault | str]) -> None:
    made, other = (engine(["north"]) for _ in range(2))
    for one in (made, other):
        one.apply(add([("s", [(0, 1)])], ttl={0: 5.0}))
        one.apply(Receive("north", "n1", reset(("n:e:1", [(0.0, 4.0)]))))
    with pytest.raises(Refused) as refused:
        made.prepare(command)
    found = refused.value.faults
    assert [
        fault if isinstance(want, Fault) else fault.field for fault, want in zip(found, faults, strict=True)
    ] == faults
    same_state(made, other)
    made.check()


def test_a_batch_says_what_is_wrong_and_can_pass_it_over() -> None:
    made = engine()
    made.apply(add([("s", [(0, 1)])]))
    rows = add([("s", [(0, 1)]), ("t", [(2, 1)]), ("x", [(0, 0)]), ("s", [(0, 0)]), ("s", [(5, 6)])])
    op = np.array([SUBSCRIBE, SUBSCRIBE, UNSUBSCRIBE, UNSUBSCRIBE, SUBSCRIBE], np.uint8)
    with pytest.raises(Refused) as refused:
        made.apply(EditSubscriptions(op, rows.ids.to_pylist(), rows.lo, rows.hi))
    assert [(fault.index, fault.kind) for fault in refused.value.faults] == [
        (1, "invalid"),
        (2, "unknown"),
        (0, "taken"),
    ]
    plan, _ = made.apply(EditSubscriptions(op, rows.ids.to_pylist(), rows.lo, rows.hi, ttl={4: 7.0}, skip=True))
    assert plan.positions == [3, 4] and made.seq == 3 and made.ttl == {"s": 7.0}
    assert [answer["seq"] for answer in plan.response_fields()["results"]] == [2, 3]
    assert plan.response_fields()["results"][1] == {"id": "s", "seq": 3, "forward": True, "covered_by": []}
    made.check()


def test_commands_are_checked_against_what_is_promised_and_can_be_taken_back() -> None:
    made, other = (engine(["north", "west"]) for _ in range(2))
    plans = [
        made.prepare(add([("a", [(0, 1)]), ("b", [(0, 9)])], link=pa.array([None, "west"]))),
        made.prepare(ChangeLinks({"west": None, "east": link_to("east")})),
        made.prepare(add([("b", [(0, 2)]), ("c", [(0, 2)])], link=pa.array([None, "east"]))),
        made.prepare(Restart("east", "e1")),
        made.prepare(Receive("north", "n1", [*reset(), Message(1, "notify", values=(1.0,))])),
        made.prepare(DeleteSubscriptions(["a", "x"])),
        made.prepare(Notify(np.array([[1.0]]))),
    ]
    assert made.prepare(Receive("north", "n1", [Message(1, "notify", values=(1.0,))])).count == 0
    assert made.prepare(Acked("north", "another", 1)).count == 0
    for command, field in (
        (add([("c", [(0, 1)])]), "id"),
        (add([("d", [(0, 1)])], link=pa.array(["west"])), "link"),
        (ChangeSubscription("a"), "id"),
        (Restart("east", "e1"), "epoch"),
        (Receive("west", "w", []), "link"),
    ):
        with pytest.raises(Refused) as refused:
            made.prepare(command)
        assert [fault.field for fault in refused.value.faults] == [field]
    for plan in reversed(plans):
        plan.cancel()
    same_state(made, other)
    made.check()


def test_a_full_queue_refuses_notifications_rather_than_to_lose_one() -> None:
    made = engine(["north", "west"])
    made.apply(Receive("north", "n1", reset(("n:e:1", [(0.0, 4.0)]))))
    made.apply(Receive("west", "w1", reset()))
    with patch("indexes.relays.outbox.FULL", 3):
        made.apply(Notify(np.array([[1.0], [2.0]])))
        with pytest.raises(Refused) as refused:
            made.apply(Notify(np.array([[1.0], [2.0]])))
        assert {(fault.field, fault.kind) for fault in refused.value.faults} == {("links.north", "full")}
        first = made.prepare(Notify(np.array([[3.0]])))
        told = [Message(n, "notify", values=(1.0,), mark=("w1", n)) for n in (1, 2)]
        assert made.prepare(Receive("west", "w1", told)).response_fields()["next"] == 1, "the neighbour has to wait"
        while not first.done:
            first.execute(1.0)
            first.publish()
        made.apply(Restart("north", "e1"))
        made.apply(Acked("north", "e1", 2))
        assert made.apply(Receive("west", "w1", told))[0].response_fields()["next"] == 2
    assert [message.values for message in made.messages("north", 2, 9)] == [(2.0,), (3.0,), (1.0,)]
    made.check()


def test_a_notification_that_was_had_in_another_epoch_is_not_heard_again() -> None:
    made = engine(["north"])
    made.apply(add([("s", [(0, 9)])]))
    made.watch("s")
    first = [*reset(), Message(1, "notify", values=(1.0,), payload=b"1", mark=("n1", 0))]
    heard = made.apply(Receive("north", "n1", first))[1]
    again = [*reset(), Message(1, "notify", values=(1.0,), payload=b"1", mark=("n1", 0))]
    again.append(Message(2, "notify", values=(1.0,), payload=b"2", mark=("n1", 1)))
    heard += made.apply(Receive("north", "n2", again))[1]
    assert [told.payload for part in heard for told in part.notified] == [b"1", b"2"]
    assert made.apply(Receive("north", "n1", first))[0].response_fields() == {"epoch": None, "next": 0}, (
        "that epoch is over"
    )


def test_what_goes_after_a_reset_promotes_what_has_just_come() -> None:
    made = engine(["north", "west"])
    made.apply(Receive("north", "n1", reset(("n:e:outer", [(0.0, 9.0)]))))
    made.apply(Restart("west", "e1"))
    made.apply(Receive("north", "n2", reset(("n:e:inner", [(1.0, 2.0)]))))
    assert [(m.op, m.id) for m in made.messages("west", 2, 9)] == [
        ("subscribe", "n:e:inner"),
        ("unsubscribe", "n:e:outer"),
    ]
    made.check()


def test_a_reset_that_is_there_already_is_said_again() -> None:
    made, other = engine(["north"]), engine(["north"])
    told = reset(("n:e:1", [(0.0, 4.0)]))
    for one in (made, other):
        one.apply(Receive("north", "n1", told))
    assert made.apply(Receive("north", "n1", told))[0].response_fields()["next"] == 2
    assert made.apply(Receive("north", "n1", told[:1]))[0].response_fields()["next"] == 2
    made.apply(Receive("north", "n2", reset()))
    other.apply(Receive("north", "n2", reset()))
    assert made.apply(Receive("north", "n1", [Message(9, "reset")]))[0].response_fields()["next"] == 0, (
        "that epoch is over"
    )
    same_state(made, other)


def test_a_reset_that_was_logged_is_taken_again() -> None:
    """As versions before this one took it."""
    made = engine(["north"])
    made.apply(Receive("north", "n1", reset(("n:e:1", [(0.0, 4.0)]))))
    kept = Receive("north", "n1", [Message(2, "notify", values=(1.0,)), Message(3, "reset")])
    for length in (PART, 1):
        with patch("formats.commands.PART", length):
            parts = [(part.name, part.payload) for part in encode(kept, 2)]
        again: Any = decode(parts)
        assert again == kept and again.logged
    assert made.apply(again)[0].response_fields()["next"] == 4
    assert made.subscription_count == 0
    made.check()


def test_many_messages_are_checked_in_pieces_and_in_a_thread() -> None:
    box = ((0.0, 1.0),)
    told = [Message(0, "reset", follow=700), *(Message(n, "subscribe", f"n:e:{n}", box) for n in range(1, 701))]
    made, other = engine(["north"]), engine(["north"])
    steps = made.prepare_steps(Receive("north", "n1", told))
    works = [next(steps)]
    before = made.ahead
    while True:
        try:
            works.append(steps.send(present(works[-1])()))
        except StopIteration as stop:
            plan = stop.value
            break
        assert made.ahead is before and made.next_seq == 1, "nothing changes before it returns"
    assert len(works) == 2
    while not plan.done:
        plan.execute(1.0)
        plan.publish()
    other.apply(Receive("north", "n1", told[:300]))
    other.apply(Receive("north", "n1", told[200:500]))
    other.apply(Receive("north", "n1", told[500:]))
    same_state(made, other)
    assert not list(made.prepare_steps(Receive("north", "n1", told[:9]))), "few are checked at once"


def test_a_reset_takes_nothing_away_before_all_is_said_again() -> None:
    made = engine(["north", "west"])
    rows = [("n:e:1", [(0.0, 4.0)]), ("n:e:2", [(6.0, 7.0)]), ("n:e:3", [(1.0, 2.0)])]
    made.apply(Receive("north", "n1", reset(*rows)))
    made.apply(Restart("west", "e1"))
    told = reset(rows[0], ("n:e:4", [(8.0, 9.0)]))
    made.apply(Receive("north", "n2", told[:2]))
    assert made.apply(Notify(np.array([[6.5]])))[0].results[0].links == ["north"]
    made.apply(Receive("north", "n2", told[2:]))
    assert made.apply(Notify(np.array([[6.5]])))[0].results[0].links == []
    assert [(m.op, m.id) for m in made.messages("west", 3, 9)] == [("subscribe", "n:e:4"), ("unsubscribe", "n:e:2")]
    made.apply(Receive("north", "n3", [Message(7, "reset")]))
    assert made.subscription_count == 0
    made.check()


def test_a_neighbour_that_was_put_back_to_a_backup_is_told_again() -> None:
    near, far = engine(["far"]), engine(["near"])
    near.apply(Restart("far", "e1"))
    near.apply(add([("s1", [(0, 1)])]))

    def send() -> None:
        box = near.outboxes["far"]
        told = [one._replace(id=f"near:edge:{one.id}") for one in near.messages("far", box.first, 9)]
        epoch = present(box.epoch)
        near.apply(Acked("far", epoch, far.apply(Receive("near", epoch, told))[0].response_fields()["next"]))

    send()
    backup = state(far)
    near.apply(add([("s2", [(3, 4)])]))
    send()
    far = engine_of(backup)
    near.apply(add([("s3", [(5, 6)])]))
    send()
    assert near.outboxes["far"].stale
    near.apply(Restart("far", "e2"))
    send()
    assert [view.id for view in far.subscriptions(None, 9)] == [f"near:edge:s{n}" for n in (1, 2, 3)]


def test_many_at_once_are_cut_and_come_to_the_same() -> None:
    rng = np.random.default_rng(3)
    lo = rng.random((6_000, 1)) * 9
    whole = AddSubscriptions(pa.array([f"s{i}" for i in range(6_000)]), lo, lo + rng.random((6_000, 1)) / 50)
    made, other = engine(["north"]), engine(["north"])
    made.apply(Restart("north", "e1"))
    other.apply(Restart("north", "e1"))
    with patch("indexes.relays.plans.subscriptions.ChangePlan.seconds_a_step", 1e-9):
        results = made.apply(whole)[0].results
    assert other.apply(whole)[0].results == results
    for one in (made, other):
        one.apply(DeleteSubscriptions([f"s{i}" for i in range(0, 6_000, 3)]))
    same_state(made, other)
    made.relay.names.ids.check()


def run_to_end(steps: Any, work: Callable[..., Any]) -> None:
    while True:
        work = steps.send(None if work is None else work())


@pytest.mark.parametrize("names", [["x"], ["x", "y", "z", "w"]])
def test_ids_are_taken_too_when_a_relay_is_put_in_place_while_they_are_checked(names: list[str]) -> None:
    box = ((0.0, 1.0),) * 2
    with patch("indexes.core.subscription_engine.BULK", 3):
        engine = RelayEngine(RelayConfig(NAMES))
        engine.apply(add([("s0", box)]))
        capture = engine.capture(journal=True)
        while not capture.done:
            capture.execute(1.0)
            capture.publish()
        fold = engine.fold(relay_of(state_of(present(capture.captured))))
        ahead = engine.prepare(add([(name, box) for name in names]))
        steps = engine.prepare_steps(add([*((f"b{i}", box) for i in range(5)), ("x", box)]))
        work = next(steps)
        for plan in (fold, ahead):
            while not plan.done:
                plan.execute(1.0)
                plan.publish()
        assert fold.swapped
        with pytest.raises(Refused) as refused:
            run_to_end(steps, present(work))
        assert [(fault.kind, fault.index) for fault in refused.value.faults] == [("taken", 5)]
        engine.check()


@pytest.mark.parametrize("graph", ["G*", "poset", "G"])
def test_a_graph_with_all_edges_holds_few(graph: Graph) -> None:
    box = ((0.0, 1.0),) * 2
    with patch("indexes.relays.engine.MOST_DRAWN", 3):
        engine = RelayEngine(RelayConfig(NAMES, graph, links={"north": link_to("north")}))
        engine.apply(add([("s0", box), ("s1", box)]))
        ahead = engine.prepare(add([("s2", box)]))
        lo, hi = ends(list(box))
        more: list[Any] = [
            add([("s3", box)]),
            SetSubscription("s3", lo, hi),
            EditSubscriptions(np.array([SUBSCRIBE], np.uint8), ["s3"], lo[None], hi[None]),
            Receive("north", "e", [Message(0, "reset", follow=1), Message(1, "subscribe", "n:e:1", box)]),
        ]
        for command in more if graph != "G" else []:
            with pytest.raises(Refused) as refused:
                engine.prepare(command)
            assert [fault.field for fault in refused.value.faults] == ["graph.kind"]
        while not ahead.done:
            ahead.execute(1.0)
            ahead.publish()
        gone = EditSubscriptions(np.array([UNSUBSCRIBE], np.uint8), ["s0"], np.zeros((1, 2)), np.zeros((1, 2)))
        engine.apply(gone)
        engine.apply(more[0])
        engine.check()
