"""What concerns a whole link takes no work for each message and each subscription on the event loop.

It comes to the same however much it is.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from indexes.relays.commands import Acked, ChangeLinks, DeleteSubscriptions, Receive, Restart
from indexes.relays.kernels.forward import SUBSCRIBE
from indexes.relays.outbox import NOTIFY, Outbox
from indexes.relays.relay import Outgoing
from tests.unit.relays.direct import match
from tests.unit.relays.helpers import add, engine, reset, same_state
from tests.unit.relays.worlds import Graph


def waiting(made: Any, n: int) -> Outbox:
    """A queue to the north with n notifications, each behind a subscription that is forwarded."""
    box = made.outboxes["north"]
    for i in range(n):
        made.queue("north", Outgoing(np.array([SUBSCRIBE], np.uint8), [f"s{i}"], np.zeros((1, 2))))
        box.notify((float(i),), None if i % 3 else b"x" * i)
    return box


def test_a_queue_begins_anew_without_work_for_each_message() -> None:
    made = engine(["north"])
    made.apply(Restart("north", "e1"))
    box = waiting(made, 3_000)
    box.check()
    was = [row for part in box._parts() for row in part.rows() if row.op == NOTIFY]
    with patch("indexes.relays.outbox.Chunk.rows", side_effect=AssertionError("they are taken one by one")):
        box.mark_stale()
        assert (len(box), box.notifications, box.stale) == (3_000, 3_000, True)
        made.apply(Restart("north", "e2"))
    fresh = made.outboxes["north"]
    for one in (box, fresh, Outbox.of(box.state()), Outbox.of(fresh.state())):
        one.check()
        assert [row for part in one._parts() for row in part.rows()][-3_000:] == was
    assert [message.op for message in fresh.messages(0, 2)] == ["reset", "notify"]
    made.apply(Acked("north", "e2", 3_001))
    assert (len(fresh), fresh.bytes) == (0, 0)


def test_a_queue_gives_its_first_epoch_to_what_waits() -> None:
    made = engine(["north"])
    box = made.outboxes["north"]
    for i in range(2_500):
        box.notify((float(i),), b"1")
    made.apply(Restart("north", "e1"))
    box = made.outboxes["north"]
    assert [message.mark for message in box.messages(1, 9_999)] == [("e1", i) for i in range(2_500)]
    box.notify((0.0,), None)
    assert box.messages(2_501, 1)[0].mark == ("e1", 2_500)


def beside(made: Any, command: ChangeLinks) -> list[tuple[int, str]]:
    """Carry out a command whose long part is done in another thread, while what stood before is what is read."""

    def read() -> tuple[int, int, list[Any], list[str], Any, list[Any]]:
        found = made.subscription("n3"), match(made.relay, np.array([[3.0]]))
        return made.seq, made.subscription_count, made.links(), made.relay.forwarded("south"), *found

    plan, before = made.prepare(command), read()
    gone: list[Any] = []
    while not plan.done:
        assert read() == before
        plan.execute(0.0 if plan._task is None else 0.01)
        with patch("indexes.core.names.Names.delete", side_effect=AssertionError("ids go one by one")):
            part = plan.publish()
        gone += part.gone if part is not None else []
    return gone


def linked(n: int) -> Any:
    """A relay with n subscriptions that came over its link to the north, "s" and some others."""
    made = engine(["north", "south"])
    made.apply(Restart("south", "e1"))
    rows = [(f"n{i}", [(i % 7, 7 + i % 50)]) for i in range(n)]
    made.apply(add(rows, link=pa.array(["north"] * n), ttl={3: 9.0}))
    made.apply(add([("s", [(8, 9)]), ("t", [(8, 8.5)])], ttl={0: 5.0}))
    made.watch("n5")
    made.watch("s")
    return made


def test_what_came_over_a_link_goes_with_it_at_once_however_much_it_is() -> None:
    made, other = linked(600), linked(600)
    assert beside(made, ChangeLinks({"north": None})) == [(made.seq, "n5")]
    with patch("indexes.relays.plans.links.FEW", 1_000):
        other.apply(ChangeLinks({"north": None}))
    same_state(made, other)
    assert (made.subscription_count, made.ttl, made.watched) == (2, {"s": 5.0}, {"s"})
    for one in (made, other):
        one.apply(add([("n3", [(0, 9)])]))
        one.check()
    same_state(made, other)


def test_what_is_not_said_again_goes_at_once_however_much_it_is() -> None:
    made, other = engine(["north", "south"]), engine(["north", "south"])
    rows = [(f"n:e:{i}", [(float(i % 7), float(7 + i % 50))]) for i in range(600)]
    for one in (made, other):
        one.apply(Restart("south", "e1"))
        one.apply(Receive("north", "n1", reset(*rows)))
    anew = Receive("north", "n2", reset(*rows[:2], ("n:e:x", [(0.0, 99.0)])))
    with patch("indexes.core.names.Names.delete", side_effect=AssertionError("ids go one by one")):
        made.apply(anew)
    with patch("indexes.relays.plans.links.FEW", 1_000):
        other.apply(anew)
    same_state(made, other)
    assert [view.id for view in made.subscriptions(None, 9)] == ["n:e:0", "n:e:1", "n:e:x"]
    made.check()


def test_time_limits_end_with_the_link_that_subscriptions_came_over() -> None:
    made = linked(9)
    plan = made.apply(ChangeLinks({"north": None}))[0]
    assert list(plan.lifetimes()) == [("n3", None)]


@pytest.mark.parametrize("graph", ["G", "G*", "poset"])
def test_what_links_forward_is_told_without_a_scan(graph: Graph) -> None:
    """It is asked for on the event loop, and whenever a command is done."""
    one = engine(["north", "south"], graph=graph)
    one.apply(add([("s1", [(0, 9)]), ("s2", [(1, 2)]), ("s3", [(3, 4)])], link=pa.array([None, None, "south"])))
    with patch("indexes.relays.relay.Relay.concerning", side_effect=AssertionError("it is scanned")):
        assert [(view.forwarded, view.covering_ratio) for view in one.links()] == [(1, 1 - 1 / 3), (1, 0.5)]
        one.apply(DeleteSubscriptions(["s1"]))
        assert [(view.forwarded, view.covering_ratio) for view in one.links()] == [(2, 0.0), (1, 0.0)]
