"""What the database keeps of webhooks, on both kinds: positions and outbox go together, and twice is once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.storage.log import Log
from app.storage.webhooks import OutboxRow, PositionRow, Progress, WebhookRow, WebhookStore
from tests.support.databases import FreshDatabase

ROW = WebhookRow("ops", "made", "https://example.org", "boards/b", 1, "whsec_", 5.0)


@pytest.fixture
def log(database: FreshDatabase) -> Iterator[Log]:
    found = Log.open(database.url)
    yield found
    found.close()


def event(n: int, id: str = "mine") -> OutboxRow:
    return OutboxRow("ops", n, id, 10 + n, "change", b"id: e:%d\n" % n)


def test_what_is_stored_twice_is_there_once(log: Log) -> None:
    store = WebhookStore(log.ownership)
    store.put(ROW, [PositionRow("ops", "mine", "new", -1), PositionRow("ops", "yours", "new", -1)], ())
    live = [PositionRow("ops", "mine", "live", 12)]
    progress = Progress(ROW._replace(seq=12, delivered=3), live, ["yours"], 1, [], [event(2), event(3)])
    for _ in range(2):
        # The second is what follows a transaction of which it is not known whether it was taken.
        store.store([progress])
        assert store.all() == [(ROW._replace(seq=12, delivered=3), live)]
        assert store.waiting("ops") == [event(2), event(3)]
    store.store([Progress(progress.row, [], [], 2, [3], [event(4)])])
    assert store.waiting("ops") == [event(4)]


def test_a_webhook_that_was_made_again_has_nothing_of_the_one_before(log: Log) -> None:
    store = WebhookStore(log.ownership)
    store.put(ROW, [PositionRow("ops", "mine", "live", 1)], ())
    store.store([Progress(ROW, [], [], 0, [], [event(1)])])
    store.delete("ops")
    assert store.all() == [] == store.waiting("ops")
    again = ROW._replace(made="again")
    store.put(again, [PositionRow("ops", "mine", "new", -1)], ())
    store.store([Progress(ROW._replace(delivered=9), [], [], 0, [], [event(1)])])
    assert store.all() == [(again, [PositionRow("ops", "mine", "new", -1)])]
    assert store.waiting("ops") == []


def test_subscriptions_that_leave_take_their_events_along(log: Log) -> None:
    store = WebhookStore(log.ownership)
    store.put(ROW, [PositionRow("ops", id, "live", 1) for id in ("mine", "yours")], ())
    store.store([Progress(ROW, [], [], 0, [], [event(1), event(2, "yours"), event(3)])])
    store.put(ROW._replace(url="https://example.com"), [], ["mine"])
    assert store.waiting("ops") == [event(2, "yours")]
    assert store.all() == [(ROW._replace(url="https://example.com"), [PositionRow("ops", "yours", "live", 1)])]
