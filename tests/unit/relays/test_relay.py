"""The engine: ids, links and notifications, against brute force."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.relays.config import UPSTREAM, RelayConfig
from tests.oracles.relays import Router, matching
from tests.unit.relays.direct import DirectRelay, Subscribe, Unsubscribe, match
from tests.unit.relays.worlds import Covering, Way, boxes, numbers

NAMES = ("a", "b", "c")
LINKS = ("north", "south", "west")
KINDS: tuple[Way, ...] = (("G", 1, "kd"), ("G", 3, "zorder"), ("G*", 1, "linear"), ("poset", 1, "kd"))


def subscribe(key: str, box: list[tuple[float, float]], link: str | None = None) -> Subscribe:
    return Subscribe(key, [lo for lo, _ in box], [hi for _, hi in box], link)


def line(relay: DirectRelay, key: str, lo: int, hi: int, link: str | None = None) -> Any:
    return relay.subscribe(key, {"a": (lo, hi)}, link)


class Overlay(RuleBasedStateMachine):
    """One relay with links that come and go, beside a router for each neighbour."""

    @initialize(d=st.integers(1, 3), kind=st.sampled_from(KINDS))
    def open(self, d: int, kind: Way) -> None:
        graph, k, index = kind
        self.config = RelayConfig(NAMES[:d], graph, k, index)
        self.relay = DirectRelay(self.config)
        self.known: dict[Any, Any] = {}
        self.routers = {UPSTREAM: Router()}
        self.born = 0

    def concerned(self, neighbour: str) -> dict[Any, Any]:
        """The boxes that a neighbour may have to hear of."""
        return {key: box for key, (box, link) in self.known.items() if link is None or link != neighbour}

    def fresh(self, neighbour: str) -> Router:
        """A router that was told of the least that covers everything."""
        router = Router(self.concerned(neighbour))
        router.forwarded = {key for key in router.boxes if not router.coverers(key)}
        return router

    @rule(data=st.data())
    def commands(self, data: Any) -> None:
        d = len(self.config.attributes)
        batch: list[Any] = []
        wanted: list[Any] = []
        for _ in range(data.draw(st.integers(1, 6))):
            if self.known and data.draw(st.integers(0, 2)) == 0:
                key = data.draw(st.sampled_from(list(self.known)))
                _, link = self.known.pop(key)
                batch.append(Unsubscribe(key))
                wanted.append({n: r.unsubscribe(key) for n, r in self.routers.items() if link is None or n != link})
            else:
                # An id that was there before may come again, in the same batch too.
                key = data.draw(st.sampled_from([f"s{n}" for n in range(self.born + 1) if f"s{n}" not in self.known]))
                self.born += 1
                link = data.draw(st.sampled_from([None, *self.relay.links]))
                box = data.draw(boxes(d))
                self.known[key] = box, link
                batch.append(subscribe(key, box, link))
                wanted.append(
                    {n: (r.subscribe(key, box), r.coverers(key)) for n, r in self.routers.items() if n != link}
                )
        for command, answer, want in zip(batch, self.relay.apply(batch), wanted, strict=True):
            assert answer.id == command.id
            if isinstance(command, Unsubscribe):
                assert answer.forward_unsubscribe == {n: was for n, (was, _) in want.items()}
                assert answer.forward_subscribe == {n: raised for n, (_, raised) in want.items()}
            else:
                assert answer.forward == {n: forward for n, (forward, _) in want.items()}
                for n, (forward, coverers) in want.items():
                    named = answer.covered_by[n]
                    assert (not named) == forward and [key for key in coverers if key in named] == named

    @precondition(lambda self: len(self.routers) < 3)
    @rule(data=st.data())
    def add_link(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from([name for name in LINKS if name not in self.routers]))
        self.routers.pop(UPSTREAM, None)
        self.routers[link] = router = self.fresh(link)
        assert self.relay.add_link(link) == [key for key in router.boxes if key in router.forwarded]

    @precondition(lambda self: UPSTREAM not in self.routers)
    @rule(data=st.data())
    def remove_link(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from(list(self.routers)))
        del self.routers[link]
        ends = [key for key, (_, came) in self.known.items() if came == link]
        for key in ends:
            del self.known[key]
        answers = self.relay.remove_link(link)
        assert [answer.id for answer in answers] == ends
        for answer in answers:
            told = {n: r.unsubscribe(answer.id) for n, r in self.routers.items()}
            assert answer.forward_unsubscribe == {n: was for n, (was, _) in told.items()}
            assert answer.forward_subscribe == {n: raised for n, (_, raised) in told.items()}
        if not self.routers:
            self.routers[UPSTREAM] = self.fresh(UPSTREAM)

    @rule(data=st.data())
    def rederive(self, data: Any) -> None:
        neighbour = data.draw(st.sampled_from(list(self.routers)))
        before, self.routers[neighbour] = self.routers[neighbour], self.fresh(neighbour)
        anew, after = self.relay.rederive(neighbour), self.routers[neighbour]
        assert anew.subscribe == [key for key in after.boxes if key in after.forwarded - before.forwarded]
        assert anew.unsubscribe == [key for key in after.boxes if key in before.forwarded - after.forwarded]

    @rule()
    def restart(self) -> None:
        self.relay = DirectRelay.from_state(self.config, self.relay.state())

    @rule(data=st.data())
    def notify(self, data: st.DataObject) -> None:
        d = len(self.config.attributes)
        point = st.lists(numbers, min_size=d, max_size=d)
        given = data.draw(st.lists(point, min_size=1, max_size=4))
        origin = [data.draw(st.sampled_from([None, *self.relay.links])) for _ in given]
        for values, back, delivery in zip(given, origin, match(self.relay, np.array(given), origin), strict=True):
            met = matching({key: box for key, (box, _) in self.known.items()}, values)
            assert delivery.subscriptions == [key for key in met if self.known[key][1] is None]
            assert delivery.links == sorted({self.known[key][1] for key in met} - {None, back})

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "relay"):
            self.relay.check()
            assert len(self.relay) == len(self.known)
            for name, router in self.routers.items():
                assert self.relay.forwarded(name) == [key for key in router.boxes if key in router.forwarded]
                share = 1 - len(router.forwarded) / len(router.boxes) if router.boxes else 0
                assert self.relay.covering_ratio(name) == pytest.approx(share)


Overlay.TestCase.settings = settings(max_examples=100, stateful_step_count=25)
TestOverlay = Overlay.TestCase


def test_of_equal_boxes_the_older_covers_the_younger_at_a_promotion_too() -> None:
    relay = DirectRelay(RelayConfig(("a",)))
    line(relay, "all", 0, 9)
    assert line(relay, "first", 1, 2).covered_by == {UPSTREAM: ["all"]}
    assert line(relay, "second", 1, 2).forward == {UPSTREAM: False}
    assert relay.unsubscribe("all") == ("all", {UPSTREAM: True}, {UPSTREAM: ["first"]})
    assert relay.unsubscribe("first").forward_subscribe == {UPSTREAM: ["second"]}


def test_a_forwarded_subscription_is_never_promoted() -> None:
    for graph in ("G", "G*", "poset"):
        relay = DirectRelay(RelayConfig(("a",), graph))
        assert line(relay, "inner", 1, 2).forward == {UPSTREAM: True}
        assert line(relay, "outer", 0, 9).forward == {UPSTREAM: True}
        assert relay.covering_ratio() == 0.0
        assert relay.unsubscribe("outer").forward_subscribe == {UPSTREAM: []}
        line(relay, "outer", 0, 9)
        assert relay.rederive() == ([], ["inner"])
        assert relay.unsubscribe("outer").forward_subscribe == {UPSTREAM: ["inner"]}


@pytest.mark.parametrize("index", ["kd", "zorder", "linear"])
def test_there_is_room_for_orphans_that_had_been_forwarded(index: Covering) -> None:
    n = 40
    relay = DirectRelay(RelayConfig(("a",), index=index))
    relay.apply([subscribe(f"inner{i}", [(i, i)]) for i in range(n)])
    line(relay, "outer", 0, n)
    relay = DirectRelay.from_state(relay.config, relay.state())
    relay.apply([subscribe(f"other{i}", [(-i - 1, -i - 1)]) for i in range(n)])
    assert relay.unsubscribe("outer").forward_subscribe == {UPSTREAM: []}
    relay.check()


def test_a_state_says_nothing_of_who_had_a_slot_before() -> None:
    relay = DirectRelay(RelayConfig(("a",)), ["north"])
    line(relay, "told", 0, 1)
    relay.unsubscribe("told")
    line(relay, "heard", 0, 1, "north")
    assert relay.state().forwarded.tolist() == [[False]]
    DirectRelay.from_state(relay.config, relay.state()).check()


def test_a_changed_subscription_becomes_the_youngest() -> None:
    relay = DirectRelay(RelayConfig(("a", "b")))
    relay.subscribe("one", {"a": (0, 5)})
    relay.subscribe("two", {"a": (1, 4), "b": (0, 1)})
    ended, begun = relay.replace("one", {"a": (1, 4), "b": (0, 1)})
    assert ended == ("one", {UPSTREAM: True}, {UPSTREAM: ["two"]})
    assert begun == ("one", {UPSTREAM: False}, {UPSTREAM: ["two"]})
    assert relay.box("one") == {"a": (1, 4), "b": (0, 1)}
    relay.replace("two", {})
    assert relay.box("two") == {"a": (-inf, inf), "b": (-inf, inf)} and relay.link("two") is None


def test_what_is_wrong_is_refused_and_changes_nothing() -> None:
    relay = DirectRelay(RelayConfig(("a",)), ["north"])
    line(relay, "one", 0, 1)
    bad: list[tuple[list[Any], type[Exception]]] = [
        ([subscribe("two", [(0, 1)]), subscribe("two", [(0, 1)])], ValueError),
        ([subscribe("one", [(0, 1)])], ValueError),
        ([subscribe("two", [(2, 1)])], ValueError),
        ([subscribe("two", [(inf, inf)])], ValueError),
        ([subscribe("two", [(0, float("nan"))])], ValueError),
        ([subscribe("two", [(0, 1)], "east")], ValueError),
        ([Unsubscribe("one"), Unsubscribe("one")], KeyError),
        ([subscribe("two", [(0, 1)]), Unsubscribe("three")], KeyError),
    ]
    for wrong, error in bad:
        with pytest.raises(error):
            relay.apply(wrong)
    with pytest.raises(ValueError, match="no such attribute"):
        relay.subscribe("two", {"x": (0, 1)})
    with pytest.raises(ValueError, match="taken"):
        relay.add_link("north")
    with pytest.raises(KeyError):
        relay.remove_link("east")
    with pytest.raises(ValueError, match="at least 1"):
        DirectRelay(RelayConfig(("a",), k=0))
    assert len(relay) == 1
    relay.check()


def test_many_subscriptions_of_many_attributes() -> None:
    """Nine attributes are more coordinates than are compared at once."""
    rng = np.random.default_rng(4)
    names = tuple(f"x{j}" for j in range(9))
    relay, router = DirectRelay(RelayConfig(names)), Router()
    for step in range(3):
        ends = np.sort(rng.integers(0, 6, (40, 9, 2)), axis=2)
        ends[::3, 1:] = -5, 9
        given = {f"s{step}-{i}": [tuple(side) for side in box] for i, box in enumerate(ends.tolist())}
        answers = relay.apply([subscribe(key, box) for key, box in given.items()])
        assert [a.forward[UPSTREAM] for a in answers] == [router.subscribe(key, box) for key, box in given.items()]
        gone = rng.permutation(np.array(list(router.boxes), object))[:20].tolist()
        raised = [a.forward_subscribe[UPSTREAM] for a in relay.apply([Unsubscribe(key) for key in gone])]
        assert raised == [router.unsubscribe(key)[1] for key in gone]
        relay.check()
        points = rng.integers(0, 6, (20, 9)).astype(float)
        assert [m.subscriptions for m in match(relay, points)] == [matching(router.boxes, p) for p in points.tolist()]
