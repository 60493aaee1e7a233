"""The event loop polls after a request by itself, if requests come one soon after the other."""

from __future__ import annotations

import asyncio

import pytest

from app.runtime import busy_poll
from app.runtime.busy_poll import BusyPoll

TICK = 0.25
"""Seconds that pass between two looks at the clock."""


class Clock:
    """A clock that goes on whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        self.now += TICK
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(busy_poll, "perf_counter", clock)
    monkeypatch.setattr(busy_poll, "processors", lambda: 2)
    return clock


async def turns(count: int = 20) -> None:
    """Turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def polls(clock: Clock, seconds: float, gaps: list[float]) -> list[int]:
    """How often it looks at the clock after each of the answers to requests that come so long after the one before."""

    async def run() -> list[int]:
        poll, found = BusyPoll(seconds), list[int]()
        for gap in gaps:
            clock.now += gap
            poll.came = clock.now
            await turns()
            poll.begin()
            clock.looks = 0
            await turns()
            found.append(clock.looks)
        return found

    return asyncio.run(run())


def test_it_polls_for_so_long_after_a_request_that_came_soon(clock: Clock) -> None:
    # The first request has none before it.
    assert polls(clock, 1.0, [5.0, 0.5, 0.5]) == [0, 5, 0]
    assert polls(clock, 9.0, [5.0, 0.5, 0.5]) == [0, 20, 20]


def test_it_does_not_poll_for_one_that_waits_longer(clock: Clock) -> None:
    assert polls(clock, 1.0, [5.0, 3.0, 1.5]) == [0, 0, 0]
    assert polls(clock, 0.0, [5.0, 0.0, 0.0]) == [0, 0, 0]


def test_it_ends_with_the_next_request(clock: Clock) -> None:
    async def run() -> None:
        poll = BusyPoll(1_000.0)
        for _ in range(2):
            poll.came = clock.now
            poll.begin()
        await turns(3)
        assert clock.looks > 3
        poll.came = clock.now + TICK
        await turns(2)
        looks = clock.looks
        await turns()
        assert clock.looks == looks

    asyncio.run(run())


def test_it_does_not_poll_where_the_client_needs_the_processor(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_poll, "processors", lambda: 1)
    assert polls(clock, 9.0, [5.0, 0.5, 0.5]) == [0, 0, 0]
