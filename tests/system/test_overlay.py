"""Five services in a tree.

Subscribers come and go, links break, services are killed, and every notification arrives exactly once at every
subscriber that it meets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.patience import wait_until
from tests.system.faults import done
from tests.system.http.talk import Json, problem
from tests.system.overlay import RELAY, Gate, Node, outermost, settled

EDGES = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]
NAMES = ["price", "volume"]
DIAMETER = 3
EACH, FOLLOWED = 2_000, 40
"""Subscriptions of a service, and how many of them are read."""

Box = tuple[float, ...]


class Tree:
    """The services, what is subscribed where, and what every reader has to hear."""

    def __init__(self, folder: Path) -> None:
        self.draw = Random(11)
        self.nodes = {name: Node(name, folder) for name in "abcde"}
        for one, other in EDGES:
            for near, far in ((one, other), (other, one)):
                self.nodes[far].gates[near] = Gate()
        self.boxes: dict[str, dict[str, Box]] = {name: {} for name in self.nodes}
        self.due: dict[str, Counter[int]] = {}
        """By reader, what it has to hear, and how often."""
        self.doubtful: dict[str, set[int]] = {}
        """By reader, what it may hear or not: its service was killed when that was told."""
        self.number = 0
        self.made = 0

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def box(self) -> Box:
        """Wide ones are rare, and most lie in one of them."""
        draw, width = self.draw, self.draw.choice([2, 3, 5, 8, 20])
        ends: list[float] = []
        for _ in NAMES:
            lo = draw.randrange(200)
            ends += [lo, lo + draw.randrange(1, 3 * width)]
        return tuple(ends)

    def subscribe(self, name: str, count: int, read: int = 0) -> None:
        """New subscriptions at a service, some of them with readers."""
        lines: list[Json] = []
        for _ in range(count):
            self.made += 1
            id = f"{name}{self.made}"
            box = self.boxes[name][id] = self.box()
            lines.append({"op": "subscribe", "id": id, "box": {NAMES[j]: list(box[2 * j : 2 * j + 2]) for j in (0, 1)}})
        self.nodes[name].commands(lines)
        ids = [line["id"] for line in lines[:read]]
        self.nodes[name].follow(ids)
        for id in ids:
            self.due[id], self.doubtful[id] = Counter(), set()

    def unsubscribe(self, name: str, count: int) -> None:
        """Some subscriptions end, readers or not."""
        ids = self.draw.sample(sorted(self.boxes[name]), count)
        for id in ids:
            if id in self.due:
                self.check(id, name)
                self.nodes[name].leave(id)
                del self.due[id], self.doubtful[id]
            del self.boxes[name][id]
        self.nodes[name].commands([{"op": "unsubscribe", "id": id} for id in ids])

    def publish(self, name: str, count: int, doubtful: str = "") -> None:
        """Notifications at a service, to be heard by all whom they meet; those at the service `doubtful` may."""
        events: list[Json] = []
        for _ in range(count):
            self.number += 1
            point = [self.draw.randrange(205) for _ in NAMES]
            events.append({"values": dict(zip(NAMES, point, strict=True)), "payload": self.number})
            for where, boxes in self.boxes.items():
                for id, box in boxes.items():
                    if id in self.due and meets(box, point):
                        if where == doubtful:
                            self.doubtful[id].add(self.number)
                        else:
                            self.due[id][self.number] += 1
        answer = self.nodes[name].notify(events)
        for event, result in zip(events, answer["results"], strict=True):
            point = [event["values"][attribute] for attribute in NAMES]
            assert result["subscriptions"] == [id for id, box in self.boxes[name].items() if meets(box, point)]

    def check(self, id: str, name: str) -> None:
        """A reader has heard what it had to, once, and nothing else."""
        heard = Counter(self.nodes[name].heard[id])
        maybe = {n for n in self.doubtful[id] if heard[n] <= 1}
        assert {n: k for n, k in heard.items() if n not in maybe} == dict(self.due[id]), id

    def arrived(self) -> bool:
        """Whether every reader has heard at least as much as it has to."""
        for node in self:
            node.gather()
        homes = {id: name for name, boxes in self.boxes.items() for id in boxes}
        return all(not due - Counter(self.nodes[homes[id]].heard[id]) for id, due in self.due.items())

    def settle(self) -> None:
        """Wait until everything is told, and compare all of it."""
        wait_until(lambda: settled(self), why=lambda: {node.name: node.shown()["links"] for node in self})
        wait_until(self.arrived, why=lambda: "a reader has not heard all")
        homes = {id: name for name, boxes in self.boxes.items() for id in boxes}
        for id in self.due:
            self.check(id, homes[id])

    def check_forwarded(self, the_least: bool = False) -> None:
        """What each relay knows from a neighbour covers all that is behind it, and is there.

        Or is the least that does.
        """
        for node in self:
            known: dict[str, list[Box]] = {}
            for one in node.known():
                if one["link"] is not None:
                    box = tuple(float(end) for name in NAMES for end in one["box"][name])
                    known.setdefault(one["link"], []).append(box)
            for link in node.gates:
                there = {
                    tuple(map(float, box)) for name in beyond(node.name, link) for box in self.boxes[name].values()
                }
                found = known.get(link, [])
                assert set(found) <= there, f"{node.name} knows subscriptions over {link} that have ended"
                assert outermost(there) <= set(found), f"{node.name} lacks subscriptions over {link}"
                if the_least:
                    assert sorted(found) == sorted(outermost(there)), f"{node.name} knows too much over {link}"


def meets(box: Box, point: list[int]) -> bool:
    return all(box[2 * j] <= point[j] <= box[2 * j + 1] for j in (0, 1))


def beyond(name: str, link: str) -> set[str]:
    """The services that are reached from one over its link to another."""
    found, seen = {link}, {name}
    while fresh := {y for x, y in [*EDGES, *((y, x) for x, y in EDGES)] if x in found - seen} - found - {name}:
        found |= fresh
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    try:
        for node in tree:
            node.start()
        for node in tree:
            node.wait()
            node.talk.good("PUT", RELAY, {"attributes": NAMES})
        yield tree
    finally:
        for node in tree:
            node.stop()


def gates(tree: Tree, one: str, other: str) -> list[Gate]:
    return [tree.nodes[one].gates[other], tree.nodes[other].gates[one]]


@pytest.mark.timeout(900)
def test_every_notification_arrives_once(tree: Tree) -> None:
    # Half of the subscriptions are there before the links are.
    for name in tree.nodes:
        tree.subscribe(name, EACH // 2, FOLLOWED // 2)
    for one, other in EDGES:
        for near, far in ((one, other), (other, one)):
            assert tree.nodes[near].link(tree.nodes[far]).status_code == 200
    for name in tree.nodes:
        tree.subscribe(name, EACH // 2, FOLLOWED // 2)
    wait_until(lambda: settled(tree), why=lambda: {node.name: node.shown()["links"] for node in tree})
    tree.check_forwarded()
    for name in tree.nodes:
        tree.publish(name, 40)
    tree.settle()

    # Nobody can get from one leaf to another by a second way.
    refused = tree.nodes["c"].talk.ask("PATCH", RELAY, {"links": {"e": elsewhere(tree, "e", "c")}})
    assert problem(refused, 409)["type"] == "/problems/cycle"
    assert "e" not in tree.nodes["c"].shown()["links"]

    # A link breaks; both sides go on, and what they say waits.
    for gate in gates(tree, "b", "d"):
        gate.shut()
    wait_until(lambda: tree.nodes["b"].shown()["links"]["d"]["state"] == "down")
    for name in ("a", "e", "d"):
        tree.publish(name, 30)
    assert tree.nodes["b"].shown()["links"]["d"]["queue"] > 0
    for gate in gates(tree, "b", "d"):
        gate.open()
    tree.settle()

    # While another is broken, subscribers come and go on both sides.
    for gate in gates(tree, "d", "e"):
        gate.shut()
    for name in tree.nodes:
        tree.unsubscribe(name, 150)
        tree.subscribe(name, 150, 5)
    for gate in gates(tree, "d", "e"):
        gate.open()
    tree.settle()
    tree.check_forwarded()
    for name in tree.nodes:
        tree.publish(name, 20)
    tree.settle()

    # The one in the middle is killed while it passes on what it is told; its own readers may have missed that.
    tree.publish("a", 60, doubtful="d")
    victim = tree.nodes["d"]
    victim.kill()
    tree.publish("c", 30)
    tree.publish("e", 30)
    for other in ("b", "e"):
        for gate in gates(tree, "d", other):
            gate.shut()
    victim.start()
    victim.wait()
    victim.follow([id for id in tree.boxes["d"] if id in tree.due])
    for other in ("b", "e"):
        for gate in gates(tree, "d", other):
            gate.open()
    tree.settle()
    tree.check_forwarded()

    # A leaf is killed, misses the end of much, and is there again.
    leaf = tree.nodes["a"]
    leaf.kill()
    for name in ("b", "c", "d", "e"):
        tree.unsubscribe(name, 200)
    tree.publish("e", 20)
    for gate in gates(tree, "a", "b"):
        gate.shut()
    leaf.start()
    leaf.wait()
    leaf.follow([id for id in tree.boxes["a"] if id in tree.due])
    for gate in gates(tree, "a", "b"):
        gate.open()
    tree.settle()
    tree.check_forwarded()
    for name in tree.nodes:
        tree.publish(name, 10)
    tree.settle()

    # After rebuilds from neighbour to neighbour, nothing is forwarded that need not be.
    for _ in range(DIAMETER):
        for node in tree:
            done(node.talk, "rebuilds")
        wait_until(lambda: settled(tree), why=lambda: {node.name: node.shown()["links"] for node in tree})
    tree.check_forwarded(the_least=True)
    for name in tree.nodes:
        tree.publish(name, 10)
    tree.settle()


def elsewhere(tree: Tree, name: str, me: str) -> Json:
    found: dict[str, Any] = {"url": tree.nodes[name].service.url, "relay": "market", "link": me}
    return found
