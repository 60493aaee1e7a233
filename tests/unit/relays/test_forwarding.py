"""What is forwarded, under every relation graph and index, against brute force after every command."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.relays.alternatives.graphs import CompleteGraph, Poset
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.points import empty_points, grown, write
from indexes.relays.relations import Known
from tests.oracles.relays import Router
from tests.unit.relays.worlds import INDEXES, boxes, rows, small_index

GRAPHS = {
    "G1": lambda index: Known(index),
    "G1 of all": lambda index: Known(index, 1, roots=False),
    "G2": lambda index: Known(index, 2),
    "G4": lambda index: Known(index, 4),
    "G*": CompleteGraph,
    "poset": Poset,
}


class Worlds:
    """The same commands to a router by brute force and to some relations; slots are used again."""

    def __init__(self, d: int, made: dict[str, Any]) -> None:
        self.d = d
        self.made = made
        self.points = empty_points(0, 2 * d)
        self.router = Router()
        self.slot: dict[Any, Any] = {}
        self.born = 0

    def subscribe(self, box: Any) -> None:
        self.apply([("new", box)])

    def apply(self, commands: list[tuple[str, Any]]) -> None:
        """Each command is ("new", box) or ("gone", key)."""
        op, slots = [], []
        wanted: list[Any] = []
        used = set(self.slot.values())
        for what, given in commands:
            if what == "new":
                key = self.born
                slot = next(s for s in range(len(used) + 1) if s not in used)
                used.add(slot)
                self.points = grown(self.points, slot + 1)
                write(self.points, np.array([slot], np.int32), rows([given], self.d), key)
                self.slot[key] = slot
                self.born += 1
                forward = self.router.subscribe(key, given)
                covered = set(self.router.coverers(key)), set(self.router.direct(key))
                wanted.append((forward, covered, [], key))
                op.append(SUBSCRIBE)
            else:
                slot = self.slot.pop(given)
                wanted.append((*self.router.unsubscribe(given), None))
                op.append(UNSUBSCRIBE)
            slots.append(slot)
        for name, relations in self.made.items():
            got = relations.apply(self.points, np.array(op, np.uint8), np.array(slots, np.int32))
            for i, want in enumerate(wanted):
                assert bool(got.forward[i]) == want[0], (name, want)
                found = [int(self.points.age[s]) for s in got.covered_by(i)]
                promoted = [int(self.points.age[s]) for s in got.promoted_by(i)]
                assert found == sorted(found)
                if op[i] == SUBSCRIBE:
                    everything, direct = want[1]
                    assert not promoted and (not found) == want[0]
                    if name.startswith("G*"):
                        assert set(found) == everything, name
                    elif name.startswith("poset"):
                        assert set(found) == direct, name
                    else:
                        assert set(found) <= everything
                        assert len(found) == (
                            min(relations.k, len(everything)) if not relations.roots else bool(everything)
                        ), (name, found, everything)
                else:
                    assert promoted == want[1] and not found, (name, promoted, want[1])

    def check(self) -> None:
        slots = np.array(sorted(self.slot.values()), np.int32)
        forwarded = {self.slot[key] for key in self.router.forwarded}
        for name, relations in self.made.items():
            relations.check(self.points, slots)
            assert {s for s in slots.tolist() if relations.forwarded[s]} == forwarded, name


class Commands(RuleBasedStateMachine):
    """Every graph over every index at once, with buckets of eight and tails of four."""

    @initialize(d=st.integers(1, 3))
    def open(self, d: int) -> None:
        self.worlds = Worlds(
            d,
            {f"{graph} {kind}": GRAPHS[graph](small_index(kind, 2 * d)) for graph in GRAPHS for kind in INDEXES},
        )

    @rule(data=st.data())
    def commands(self, data: st.DataObject) -> None:
        world = self.worlds
        alive = sorted(world.slot)
        batch = []
        for box in data.draw(st.lists(boxes(world.d), min_size=1, max_size=6)):
            if alive and data.draw(st.integers(0, 3)) == 0:
                batch.append(("gone", alive.pop(data.draw(st.integers(0, len(alive) - 1)))))
            batch.append(("new", box))
        world.apply(batch)

    @precondition(lambda self: self.worlds.slot)
    @rule(data=st.data())
    def unsubscribe(self, data: Any) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.worlds.slot)), unique=True, min_size=1, max_size=8))
        self.worlds.apply([("gone", key) for key in gone])

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "worlds"):
            self.worlds.check()


Commands.TestCase.settings = settings(max_examples=25, stateful_step_count=15)
TestCommands = Commands.TestCase
