"""What a rebuild notes and ends with: changes by their real size, and decisions by column."""

from __future__ import annotations

from gc import collect
from typing import Any
from unittest.mock import patch
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest

from indexes.core.names import Names
from indexes.relays.commands import ChangeLinks, Notify, Receive, Rederive, Restart
from indexes.relays.config import Message
from indexes.relays.engine import RelayEngine
from indexes.relays.plans import links
from indexes.relays.state import relay_of, state_of
from tests.support.values import present
from tests.unit.relays.helpers import add, engine, link_to, same_state

N = 80
MANY = 300


def told(name: str, n: int = N) -> Receive:
    """So many subscriptions that come over a link, each forwarded before one that covers it."""
    rows = [Message(i, "subscribe", f"{name}:e:{i}", ((10.0 * i, 10.0 * i + 1),)) for i in range(1, n)]
    whole = Message(n, "subscribe", f"{name}:e:{n}", ((0.0, 10.0 * n + 1),))
    return Receive(name, f"{name}1", [Message(0, "reset", follow=n), *rows, whole])


def noted(made: RelayEngine) -> list[tuple[str, int]]:
    journal = made.relay.journal
    assert journal is not None
    return [(change, size) for change, _, size in journal]


def test_a_change_of_links_is_noted_by_its_size() -> None:
    made = engine(["north", "west"])
    made.apply(told("north"))
    made.apply(told("west", 20))
    made.relay.begin_journal()
    made.apply(ChangeLinks({"north": None}))
    assert noted(made) == [("_change_links", 1 + N)]
    made.apply(ChangeLinks({"east": link_to("east")}))
    assert noted(made)[1:] == [("_change_links", 1 + 20)], "what is left is laid out for the new one"
    made.apply(Receive("west", "w2", [Message(0, "reset")]))
    assert noted(made)[2] == ("mark_doubtful", 1 + 20)
    made.relay.end_journal()
    with patch("indexes.relays.relay.JOURNAL", N):
        made.apply(told("east"))
        made.relay.begin_journal()
        made.apply(ChangeLinks({"east": None}))
    assert made.relay.journal is None, "that was too much to be noted"


def test_an_index_that_was_taken_over_leaves_nothing_of_the_former_one() -> None:
    made = engine(["north", "west"])
    made.apply(told("north"))
    made.apply(add([("s", [(0, 1)])]))
    relay = made.relay
    former = ref(relay._all.arrays.held)
    aside = relay.aside()
    aside.change_links(["north"], [])
    relay.take_over(aside, ["north"], [])
    del aside
    collect()
    assert former() is None


def test_a_large_change_of_links_is_a_step_of_its_own_when_it_is_folded_in() -> None:
    made = engine(["north", "west"])
    made.apply(told("north"))
    capture = made.capture(journal=True)
    while not capture.done:
        capture.execute(1.0)
        capture.publish()
    made.apply(ChangeLinks({"north": None}))
    for i in range(4):
        made.apply(add([(f"s{i}", [(i, i + 1)])]))
    steps = []
    fresh = relay_of(state_of(present(capture.captured)))
    with patch("indexes.relays.plans.maintenance.FOLD", N):
        swapped = False
        while not swapped:
            fold = made.fold(fresh)
            before = len(noted(made))
            while not fold.done:
                fold.execute(1.0)
                fold.publish()
            swapped = fold.swapped
            steps.append(before - (0 if swapped else len(noted(made))))
    assert steps == [1, 4]
    made.check()


@pytest.mark.parametrize("linked", [False, True])
def test_what_a_rederivation_changes_is_told_by_column(linked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made, other = (engine(["north", "west"] if linked else []) for _ in range(2))
    rows = [(f"s{i}", [(10.0 * i, 10.0 * i + 1)]) for i in range(N)]
    for one in (made, other):
        one.apply(add([*rows, ("all", [(0.0, 1e4)])]))
        if linked:
            one.apply(told("west"))
            one.apply(Restart("north", "e1"))
    one_by_one = other.apply(Rederive())[0]
    wanted = {name: (anew.subscribe, anew.unsubscribe) for name, anew in one_by_one.rederived.items()}

    def never(*given: object) -> str:
        raise AssertionError("one by one")

    monkeypatch.setattr(Names, "name", never)
    monkeypatch.setattr(links, "shown", never)
    plan, _ = made.apply(Rederive())
    monkeypatch.undo()
    assert all(isinstance(part, pa.LargeStringArray) for changed in plan.changed.values() for part in changed)
    assert plan.rederived == wanted and {name: len(old) for name, (_, old) in wanted.items()} == (
        {"north": N, "west": N} if linked else {"": N}
    )
    same_state(made, other)
    made.check()


def test_a_rederivation_that_nobody_hears_of_makes_no_ids() -> None:
    made = engine()
    made.apply(add([("s", [(1.0, 2.0)]), ("all", [(0.0, 9.0)])]))
    plan: Any = made.prepare(Rederive())
    plan.silent = True
    with patch.object(Names, "many", side_effect=AssertionError("nobody asked")):
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
    assert plan.changed == {} and made.relay.forwarded() == ["all"]


def test_keys_of_many_steps_are_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are named in the same command, and those that were there."""
    made = engine(["north"])
    made.apply(Restart("north", "e1"))
    wide = [(0.0, 1e4)]
    made.apply(add([("all", wide), *((f"s{i}", [(i, i + 1)]) for i in range(MANY))]))
    keys = [*(f"s{i}" for i in range(MANY)), "new", "all"]
    slots = np.array([made.relay.names.find(key) for key in keys], np.int32)
    slots[MANY] = 10**6
    monkeypatch.setattr(Names, "name", lambda *given: pytest.fail("one by one"))
    assert made.relay._keys(slots, {10**6: "new"}) == keys
    assert made.relay._keys(slots[:MANY], {}) == keys[:MANY]
    monkeypatch.undo()
    assert made.apply(Notify(np.array([[0.5]])))[0].results[0].subscriptions == ["all", "s0"]
