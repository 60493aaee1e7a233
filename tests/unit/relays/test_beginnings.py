"""Groups of beginnings: what is checked by few calls, and written by one, is what each would be by itself."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from indexes.core.commands import Refused
from indexes.relays.commands import EditSubscriptions
from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.points import are_sides, as_boxes, as_points
from indexes.relays.plans.subscriptions import BatchPlan
from indexes.relays.relay import Relay, Steps, wrong_sides
from tests.unit.relays.helpers import link_to, same_state

INF = float("inf")
ends = st.sampled_from([-INF, -2.0, -0.0, 0.0, 1.0, 1e300, INF, float("nan")])
boxes = st.lists(st.tuples(ends, ends), min_size=2, max_size=2)
ids = st.sampled_from([*(f"s{n}" for n in range(12)), "~n:e:1"])
edits = st.lists(
    st.tuples(
        st.sampled_from([SUBSCRIBE] * 5 + [UNSUBSCRIBE]), ids, boxes, st.sampled_from([None, None, "north", "no"])
    ),
    min_size=1,
    max_size=6,
)
sound = st.tuples(st.sampled_from([-2.0, 0.0]), st.sampled_from([0.0, 3.0]))
soundly = st.lists(
    st.tuples(st.just(SUBSCRIBE), ids, st.lists(sound, min_size=2, max_size=2), st.sampled_from([None, "north"])),
    min_size=1,
    max_size=6,
)


def edit(rows: list[Any]) -> EditSubscriptions:
    sides = np.array([box for _, _, box, _ in rows]).reshape(len(rows), 2, 2)
    lo, hi = np.ascontiguousarray(sides[:, :, 0]), np.ascontiguousarray(sides[:, :, 1])
    op, keys, links = np.array([row[0] for row in rows], np.uint8), [row[1] for row in rows], [row[3] for row in rows]
    return EditSubscriptions(op, keys, lo, hi, links if any(links) else None, {0: 7.0}, skip=len(rows) % 2 == 0)


@settings(max_examples=200, deadline=None)
@given(st.lists(edits | soundly, min_size=1, max_size=6), st.data())
def test_a_group_is_accepted_as_it_is_one_by_one(commands: list[list[Any]], data: st.DataObject) -> None:
    """Also behind commands that are accepted and not applied yet, and where one of them is taken back."""
    config = RelayConfig(("a", "b"), links={"north": link_to("north")})
    quick, slow = RelayEngine(config), RelayEngine(config)
    waiting: list[tuple[Any, Any]] = []
    for rows in commands:
        found: list[Any] = []
        for engine in (quick, slow):
            with patch.object(
                RelayEngine, "_all_begin", RelayEngine._all_begin if engine is quick else lambda *_: False
            ):
                try:
                    found.append(engine.prepare(edit(rows)))
                except Refused as refused:
                    found.append(refused.faults)
        if isinstance(found[0], list):
            assert found[0] == found[1]
            continue
        one, other = found
        assert (one.faults, one.positions, one.first_seq, one.last_seq) == (
            other.faults, other.positions, other.first_seq, other.last_seq,
        )  # fmt: skip
        waiting.append((one, other))
        if data.draw(st.booleans()):
            if data.draw(st.booleans()):
                for plan in waiting.pop():
                    plan.cancel()
            for pair in waiting:
                _apply(*pair)
            waiting = []
    for pair in waiting:
        _apply(*pair)
    same_state(quick, slow)
    quick.check()


@pytest.mark.parametrize("taken", [False, True])
def test_whether_all_begin_is_asked_once(taken: bool) -> None:
    """Also where an element has an id that is taken."""
    made, box, asked = RelayEngine(RelayConfig(("a", "b"))), [(0.0, 1.0), (0.0, 1.0)], list[bool]()
    made.apply(edit([(SUBSCRIBE, "s0", box, None)]))
    all_begin = RelayEngine._all_begin

    def noted(self: RelayEngine, command: EditSubscriptions) -> bool:
        asked.append(all_begin(self, command))
        return asked[-1]

    with patch.object(RelayEngine, "_all_begin", noted):
        rows = [(SUBSCRIBE, f"s{i + 1 - taken}", box, None) for i in range(2)]
        plan = made.prepare(edit(rows))
    assert asked == [not taken] and plan.count == 2 - taken
    _apply(plan, plan)
    made.check()


def test_a_slice_of_edits_in_which_none_ends_is_known_as_such() -> None:
    """What begins is written by one call, although the command has an end elsewhere."""
    made, box, known = RelayEngine(RelayConfig(("a", "b"))), [(0.0, 1.0), (0.0, 1.0)], list[tuple[int, bool]]()

    def run(relay: Relay, steps: Steps) -> Any:
        known.append((len(steps.op), steps.all_begin))
        return whole(relay, steps)

    plan = made.prepare(edit([*((SUBSCRIBE, f"s{i}", box, None) for i in range(5)), (UNSUBSCRIBE, "s1", box, None)]))
    whole = Relay.run
    with patch.object(Relay, "run", run):
        while not plan.done:
            plan.execute(2.5 * BatchPlan.seconds_a_step)
            plan.publish()
    assert known == [(2, True), (2, True), (2, False)]
    made.check()


def _apply(*plans: Any) -> None:
    for plan in plans:
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
    assert plans[0].response_fields() == plans[1].response_fields()
    assert list(plans[0].lifetimes()) == [
        one for one in plans[1].lifetimes() if one[1] is not None or plans[0].command.op.any()
    ]


@given(st.lists(boxes, max_size=5))
def test_sides_are_checked_as_they_are_by_column(world: list[Any]) -> None:
    sides = np.array(world).reshape(len(world), 2, 2)
    lo, hi = np.ascontiguousarray(sides[:, :, 0]), np.ascontiguousarray(sides[:, :, 1])
    assert are_sides(lo, hi) == (not wrong_sides(lo, hi).any())
    points = as_points(lo, hi)
    again = np.empty((len(world), 4))
    again[:, 0::2], again[:, 1::2] = -lo, hi
    assert (again + 0.0).tobytes() == points.tobytes() or np.isnan(points).any()
    if not np.isnan(points).any():
        assert all(np.array_equal(*pair) for pair in zip(as_boxes(points), (lo, hi), strict=True))


@pytest.mark.parametrize("links", [(), ("north", "west")])
def test_a_frozen_copy_stays_as_it_is_while_the_relay_goes_on(links: tuple[str, ...]) -> None:
    """What kernels keep is about the arrays of each."""
    rng = np.random.default_rng(3)
    engine = RelayEngine(RelayConfig(("a", "b"), links={name: link_to(name) for name in links}))

    def more(n: int, first: int) -> None:
        for at in range(first, first + n, 5):
            rows = [(SUBSCRIBE, f"s{i}", np.sort(rng.random((2, 2))).tolist(), None) for i in range(at, at + 5)]
            engine.apply(edit(rows))

    more(100, 0)
    frozen = engine.relay.frozen()
    before = {name: one.forwarded.copy() for name, one in frozen.neighbours.items()}
    table, held = frozen.table.exact.copy(), frozen.meets(np.array([[0.5, 0.5]]))[0].tolist()
    more(100, 100)
    assert (frozen.table.exact == table).all()
    assert frozen.meets(np.array([[0.5, 0.5]]))[0].tolist() == held
    assert all((frozen.neighbours[name].forwarded == was).all() for name, was in before.items())
    engine.check()
