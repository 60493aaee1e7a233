"""Changes of live lists by column say what the same changes say one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.rendering.boards import BoardJson, number
from app.rendering.boards import numbers as written
from indexes.boards.changed_lists import ChangedLists, JoinedChanges, joined, parts_of
from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.plans import events
from indexes.boards.plans.events import EventsGroup
from indexes.boards.regions import between, everywhere
from indexes.boards.results import ListChange

NEVER = 1 << 30
WRITE = BoardJson("x", "y")

numbers = st.one_of(st.integers(0, 4).map(float), st.sampled_from([-0.0, 0.1, 2.5, 1e300]))
changes = st.tuples(
    st.sampled_from([UPSERT, UPSERT, UPDATE, DELETE]),
    st.sampled_from([f"o{i}" for i in range(6)]),
    numbers,
    numbers,
    st.sampled_from(["leave", "leave", "leave", b"1", None]),
)
commands = st.lists(st.tuples(st.lists(changes, min_size=1, max_size=8), st.booleans()), max_size=5)


def make(command: Any, batch: bool) -> Events:
    rows = [(op, key, *((np.nan, np.nan) if op == DELETE else (x, y))) for op, key, x, y, _ in command]
    op, ids, x, y = zip(*rows, strict=True)
    payload = {at: one[4] for at, one in enumerate(command) if one[4] != "leave" and one[0] != DELETE}
    return Events(np.array(op, np.uint8), list(ids), np.array(x), np.array(y), payload, skip=True, batch=batch)


def board(order: Any = "asc") -> BoardEngine:
    """One with live lists that differ, and two that are alike."""
    made = BoardEngine(BoardConfig(("x",), "y", order, (1, 2)))
    regions = between(-np.inf, 2.0), between(1.0, np.inf), everywhere(1), everywhere(1)
    for n, (region, k) in enumerate(zip(regions, (1, 2, 2, 2), strict=True)):
        made.apply(SetSubscription(f"s{n}", region, k))
        made.watch(f"s{n}")
    return made


def slices(engine: BoardEngine, plan: Any) -> list[Sequence[ListChange]]:
    found = []
    while not plan.done:
        plan.execute(1.0)
        part = plan.publish()
        if part is not None:
            found.append(part.changes)
    return found


def in_order(all_changes: Sequence[ListChange]) -> list[ListChange]:
    """Which of the lists that change at one seq comes first is left open."""
    return sorted(all_changes, key=lambda one: (one.seq, one.live))


def run(script: Any, order: Any, many: int) -> list[Sequence[ListChange]]:
    with patch.object(events, "MANY", many):
        engine = board(order)
        return [part for one, batch in script for part in slices(engine, engine.prepare(make(one, batch)))]


@settings(max_examples=150, deadline=None)
@given(script=commands, order=st.sampled_from(["asc", "desc"]))
def test_columns_have_the_changes_and_write_them_as_they_are_written_one_by_one(script: Any, order: Any) -> None:
    wanted, found = run(script, order, NEVER), run(script, order, 1)
    assert [in_order(one) for one in wanted] == [in_order(one) for one in found]
    for part in found:
        assert [one.seq for one in part] == sorted(one.seq for one in part)
        if isinstance(part, ChangedLists):
            check_text(part)


def check_text(part: ChangedLists) -> None:
    assert part.distinct == (len({one.seq for one in part}) == len(part))
    words = "<", "|", ">"
    for old in (False, True):
        texts = WRITE.changed(part, words, old)
        for one, slot, seq, text in zip(part, part.slots(), part.seqs(), texts, strict=True):
            assert (slot, seq) == (one.live, one.seq)
            wanted = f'<{seq}|"seq":{seq},"changes":{WRITE.changes(one.entries, old)}>'
            assert text.decode() == wanted


def test_many_changes_come_by_column_and_a_few_one_by_one() -> None:
    engine = board()
    rows = [(UPSERT, f"o{i}", float(i), -float(i), "leave") for i in range(events.MANY)]
    (many,) = slices(engine, engine.prepare(make(rows, False)))
    assert isinstance(many, ChangedLists)
    (few,) = slices(engine, engine.prepare(make([(UPDATE, "o0", 1.0, -99.0, "leave")], False)))
    assert isinstance(few, list)


def test_equal_changes_of_a_seq_share_their_entries_and_their_text() -> None:
    with patch.object(events, "MANY", 1):
        engine = board()
        (found,) = slices(engine, engine.prepare(make([(UPSERT, "o", 1.0, 1.0, "leave")], False)))
    assert isinstance(found, ChangedLists)
    assert len(found) == 4
    assert len({id(one.entries) for one in found}) == 1
    assert len({id(text) for text in WRITE.changed(found, ("", "", ""))}) == 1


def test_an_object_that_a_batch_deletes_and_inserts_again_is_one_to_subscribers() -> None:
    with patch.object(events, "MANY", 1):
        engine = board()
        slices(engine, engine.prepare(make([(UPSERT, "o", 1.0, 1.0, "leave")], False)))
        script = [(DELETE, "o", 0.0, 0.0, "leave"), (UPSERT, "o", 1.0, 2.0, "leave")]
        (found,) = slices(engine, engine.prepare(make(script, True)))
    assert [(entry.id, entry.old_rank, entry.new_rank) for one in found for entry in one.entries] == [("o", 1, 1)] * 4


def test_commands_that_are_painted_together_hand_over_their_columns_one_after_another() -> None:
    engine = board()
    rows = [(UPSERT, f"o{i}", float(i), -float(i), "leave") for i in range(events.MANY)]
    plans: list[Any] = []
    for _ in range(2):
        plans.append(engine.prepare(make(rows, False)))
        rows = [(op, key, x, y - 1.0, payload) for op, key, x, y, payload in rows]
    (found,) = slices(engine, EventsGroup(plans))
    parts = parts_of(found)
    assert isinstance(found, JoinedChanges)
    assert [type(part) for part in parts] == [ChangedLists, ChangedLists]
    assert list(found) == [one for part in parts for one in part]
    assert (len(found), found[0], found[-1:]) == (sum(map(len, parts)), parts[0][0], [parts[1][-1]])
    assert joined([found[:2]]) == found[:2]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 2.0**53, 2.0**53 + 2, 0.5, -1e300])
def test_a_column_is_written_as_its_numbers_are(value: float) -> None:
    for column in ([value], [value, 3.0], [value, 0.25]):
        assert written(np.array(column)) == [number(one) for one in column]
