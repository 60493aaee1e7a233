"""Plays arrivals into the board `delays`, with some hundred subscriptions to it.

An object is a flight number: its place is the distance flown, its rank the latest arrival delay, the worst first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import product

from app.demo.flights import DAY, Arrivals
from rankcast_client import AsyncBoard, Event, Published, Want, upsert

BOARD = "delays"
KS = (5, 10)
LONGEST = 5_000
TICK_SECONDS = 0.05
MOST_EVENTS = 1_000

Played = Callable[[int, Published], None]
"""Called with the last arrival of a write that the service has applied, and its answer."""


def events(arrivals: Arrivals, start: int, end: int) -> list[Event]:
    """The arrivals from `start` up to `end`, without it, as events."""
    return [
        upsert(id, {"distance": distance, "delay": delay}, arrivals.payload(i))
        for i, id, distance, delay in zip(
            range(start, end),
            arrivals.id[start:end].to_pylist(),
            arrivals.distance[start:end].tolist(),
            arrivals.delay[start:end].tolist(),
            strict=True,
        )
    ]


async def make_board(board: AsyncBoard) -> None:
    """Make the board, or find it there. Raises ProblemError when it is there and another one."""
    await board.put(["distance"], "delay", order="desc", ks=KS)


def band_id(low: int | None, high: int | None, k: int) -> str:
    """The id of the subscription to the `k` best of a band of distance.

    >>> band_id(500, 1000, 5), band_id(None, 500, 10), band_id(None, None, 5)
    ('from-500-to-1000-best-5', 'to-500-best-10', 'all-best-5')
    """
    words = ["" if low is None else f"from-{low}-", "" if high is None else f"to-{high}-"]
    return f"{''.join(words) or 'all-'}best-{k}"


def bands() -> Iterator[Want]:
    """The standing questions: bands of distance, narrow and wide, each half over the next, some open at an end."""
    ranges: list[tuple[int | None, int | None]] = [(None, None)]
    for width in (100, 250, 500, 1_000):
        ranges += [(low, low + width) for low in range(0, LONGEST - width + 1, width // 2)]
    ranges += [(low, None) for low in range(500, LONGEST, 500)]
    ranges += [(None, high) for high in range(500, LONGEST, 500)]
    for (low, high), k in product(ranges, KS):
        yield {"id": band_id(low, high, k), "range": {"distance": (low, high)}, "k": k}


async def subscribe(board: AsyncBoard) -> int:
    """Register the questions that are not there yet. Return how many there are."""
    wants = list(bands())
    there = {subscription.id async for subscription in board.subscriptions()}
    missing = [want for want in wants if want["id"] not in there]
    if missing:
        await board.register_many(missing, lists=False)
    return len(wants)


async def play(board: AsyncBoard, arrivals: Arrivals, speed: float, played: Played) -> None:
    """Play the year, again and again, at `speed` days a second; `played` is called after each write.

    Where the service is slower than that, the clock waits for it: no arrival is left out.
    """
    landed = arrivals.landed
    while True:
        minute = float(landed[0])
        at = 0
        before = time.monotonic()
        while at < len(arrivals):
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            minute += (now - before) * speed * DAY
            before = now
            end = int(landed.searchsorted(minute, side="right"))
            if end - at > MOST_EVENTS:
                end = at + MOST_EVENTS
                minute = float(landed[end - 1])
            if end > at:
                answer = await board.publish_many(events(arrivals, at, end), messages="count")
                at = end
                played(at - 1, answer)
