from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from app.demo import lists, player
from app.demo.lists import FRESH_SECONDS, Lists
from app.demo.tally import Count
from rankcast_client import (
    AsyncRankcast,
    Change,
    ChangedEntry,
    Entry,
    Gone,
    ProblemError,
    Ready,
    Reset,
    Snapshot,
    StreamEvent,
    Unreachable,
)
from rankcast_client.ws import Message, Refused
from tests.unit.demo.helpers import Clock

MIDDLE, REST = "from-500-to-1000-best-5", "all-best-5"
A, B, C = (Entry(id, {"distance": 700, "delay": delay}, 0) for id, delay in (("a", 90), ("b", 80), ("c", 70)))


def message(id: str, event: StreamEvent | Gone | Refused, *entries: Entry) -> Message:
    return Message("delays", id, event, entries)


def changed(*entries: Entry) -> Change:
    return Change(2, tuple(ChangedEntry(entry.id, None, 1, entry) for entry in entries))


class Seen:
    def __init__(self) -> None:
        self.clock = Clock()
        self.changes = Count(self.clock)
        self.first: list[float] = []
        self.lists = Lists(self.changes, self.first.append, ((500, 1_000), (None, None)), self.clock)
        self.middle, self.rest = self.lists.bands


def test_the_bands_shown_are_among_the_subscriptions_of_the_demo() -> None:
    ids = {want["id"]: want for want in player.bands()}
    for band in Lists(Count(), lambda at: None).bands:
        assert ids[band.id]["k"] == lists.SHOWN_K
        assert ids[band.id]["range"] == {"distance": (band.low, band.high)}


def test_a_list_is_what_the_stream_says_and_its_changes_are_counted() -> None:
    seen = Seen()
    assert seen.middle.state == "waiting"
    seen.lists.take(message(MIDDLE, Snapshot(1, (B,)), B))
    assert (seen.middle.state, seen.middle.entries, seen.changes.total) == ("live", (B,), 0)
    seen.lists.take(message(MIDDLE, changed(A), A, B))
    seen.lists.take(message(MIDDLE, Ready(2), A, B))
    seen.lists.take(message(REST, changed(A), A))
    assert (seen.middle.entries, seen.rest.entries, seen.changes.total) == ((A, B), (A,), 2)
    seen.lists.take(message(MIDDLE, Reset(9, (C,)), C))
    assert (seen.middle.entries, seen.changes.total) == ((C,), 2)


def test_what_came_just_now_is_fresh_until_it_leaves_or_grows_old() -> None:
    seen = Seen()
    seen.lists.take(message(MIDDLE, Snapshot(1, (B,)), B))
    assert seen.lists.fresh(seen.middle) == set()
    seen.lists.take(message(MIDDLE, changed(A), A, B))
    seen.clock.now += FRESH_SECONDS / 2
    seen.lists.take(message(MIDDLE, changed(C), A, B, C))
    assert seen.lists.fresh(seen.middle) == {"a", "c"}
    seen.clock.now += FRESH_SECONDS / 2
    assert seen.lists.fresh(seen.middle) == {"c"}
    seen.lists.take(message(MIDDLE, Change(4, (ChangedEntry("c", 3, None, None),)), A, B))
    assert seen.lists.fresh(seen.middle) == set()


def test_the_first_list_is_the_first_with_a_flight_in_it() -> None:
    seen = Seen()
    seen.lists.take(message(MIDDLE, Snapshot(0, ())))
    assert seen.first == []
    seen.clock.now += 3
    seen.lists.take(message(REST, changed(A), A))
    seen.clock.now += 3
    seen.lists.take(message(MIDDLE, changed(A), A))
    assert seen.first == [103.0]


def test_a_subscription_that_is_deleted_ends_its_list_alone() -> None:
    seen = Seen()
    seen.lists.take(message(MIDDLE, Snapshot(1, (A,)), A))
    seen.lists.take(message(REST, Snapshot(1, (A,)), A))
    seen.lists.take(message(MIDDLE, Gone(2), A))
    assert (seen.middle.state, seen.middle.entries) == ("deleted", ())
    assert (seen.rest.state, seen.rest.entries) == ("live", (A,))
    seen.lists.take(message(REST, Refused(ProblemError(403, "/problems/forbidden", "Forbidden")), A))
    assert (seen.rest.state, seen.rest.entries) == ("ended", (A,))


class Script:
    """A client whose sockets say what is written here, one element a socket: messages, and what ends it."""

    def __init__(self, *sockets: list[Message | Exception]) -> None:
        self.sockets = list(sockets)
        self.subscribed: list[list[str]] = []

    def socket(self) -> Script:
        self.subscribed.append([])
        return self

    async def __aenter__(self) -> Script:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.sockets.pop(0)

    async def subscribe(self, board: str, id: str) -> None:
        assert board == player.BOARD
        self.subscribed[-1].append(id)

    async def __aiter__(self) -> AsyncIterator[Message]:
        for said in self.sockets[0]:
            if isinstance(said, Exception):
                raise said
            yield said


def test_lists_survive_a_service_out_of_reach_and_end_where_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "RETRY_SECONDS", 0.0)
    seen = Seen()
    script = Script(
        [Unreachable("nobody there")],
        [message(MIDDLE, Gone(2)), message(REST, Snapshot(1, (A,)), A), Unreachable("nobody there")],
        [message(REST, Snapshot(3, (B,)), B), ProblemError(401, "/problems/unauthorized", "A key is needed")],
    )
    why = asyncio.run(seen.lists.follow(cast(AsyncRankcast, script)))
    assert "A key is needed" in why
    assert script.subscribed == [[MIDDLE, REST], [MIDDLE, REST], [REST]]
    assert script.sockets == []
    assert (seen.middle.state, seen.rest.state, seen.rest.entries) == ("deleted", "ended", (B,))
