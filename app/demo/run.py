"""One run of the demo: what is playing, what is measured, and the view of both."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from app.demo.flights import DAY, Arrivals, moment
from app.demo.lists import Band, Lists
from app.demo.process import readiness
from app.demo.screen import Figure, Listed, View
from app.demo.tally import Tally
from rankcast_client import AsyncBoard, AsyncRankcast, Published, RankcastError

SURVEY_SECONDS = 2.0
_IMPORTED = time.monotonic()


class Run:
    """What one run has played and received so far.

    `first_list` is the time from the start of this process to the first list received, in seconds; None before.
    `subscriptions` is the board's own count, `warm` the share of the service's kernels that are compiled, each None
    where the service has not said. `notices` replace the commands at the foot of the screen. `console` is the address
    of the console, which a note names.
    """

    def __init__(self, arrivals: Arrivals, speed: float, commands: Sequence[str] = (), console: str = "") -> None:
        self.arrivals = arrivals
        self.console = console
        self.speed = speed
        self.commands = commands
        self.tally = Tally()
        self.lists = Lists(self.tally.changes, self._first)
        self.first_list: float | None = None
        self.subscriptions: int | None = None
        self.warm: float | None = None
        self.notices: Sequence[str] = ()
        self._arrival: int | None = None
        self._came = asyncio.Event()

    def played(self, arrival: int, answer: Published) -> None:
        """Note one answered write, the last of whose arrivals is this one."""
        self._arrival = arrival
        self.tally.published(answer)

    @property
    def at(self) -> datetime | None:
        """When the last flight landed, in New York; None before the first."""
        return None if self._arrival is None else moment(int(self.arrivals.landed[self._arrival]))

    @property
    def day(self) -> int:
        """The day of the year of the last flight, from 0; -1 before the first."""
        return -1 if self._arrival is None else int(self.arrivals.landed[self._arrival]) // DAY

    async def first(self) -> float:
        """Waits for the first list. Returns the seconds from the start of this process until it came."""
        await self._came.wait()
        assert self.first_list is not None
        return self.first_list

    def _first(self, now: float) -> None:
        self.first_list = now - started()
        self._came.set()

    async def survey(self, client: AsyncRankcast, board: AsyncBoard) -> None:
        """Ask the service now and then how many subscriptions the board has and how far its kernels are."""
        while True:
            with suppress(RankcastError):
                found = (await board.info()).more.get("subscriptions")
                self.subscriptions = found if isinstance(found, int) else None
            if self.warm is None or self.warm < 1:
                self.warm = (await readiness(client)).warm
            await asyncio.sleep(SURVEY_SECONDS)

    def view(self) -> View:
        """What the screen shows now."""
        tally = self.tally
        kept = "" if self.subscriptions is None else f"{self.subscriptions:,}"
        figures = (
            Figure("flights", f"{tally.arrivals.total:,}", tally.arrivals.per_second()),
            Figure("list changes", f"{tally.changes.total:,}", tally.changes.per_second()),
            Figure("tiles", f"{tally.tiles.total:,}", tally.tiles.per_second()),
            Figure("lists kept", kept),
        )
        notes = ["The lists come over one WebSocket. Tiles are the messages that keep all lists right."]
        if self.warm is not None and self.warm < 1:
            notes.append(f"{self.warm:.0%} of the kernels are compiled; the rest follow in the background.")
        said = [f"In a browser: {self.console}."] if self.console else []
        said += [] if self.first_list is None else [f"First list after {self.first_list:.1f} s."]
        return View(
            self.at,
            f"the longest delays, {pace(self.speed)}",
            figures,
            [self._listed(band) for band in self.lists.bands],
            () if self.notices else self.commands,
            self.notices,
            (*notes, " ".join([*said, "Ctrl-C ends it."])),
        )

    def _listed(self, band: Band) -> Listed:
        note = {"deleted": "deleted", "waiting": "waiting for its list ..."}.get(band.state, "")
        title = f"{band.title} (ended)" if band.state == "ended" else band.title
        return Listed(title, band.entries, self.lists.fresh(band), note)


def pace(speed: float) -> str:
    """The speed in words.

    >>> pace(1.0), pace(2.5)
    ('a day a second', '2.5 days a second')
    """
    return "a day a second" if speed == 1 else f"{speed:g} days a second"


def started() -> float:
    """When this process started, on the clock of time.monotonic(): from the kernel, else the time of this import."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return _IMPORTED
    now = time.monotonic()
    return min(now - age, _IMPORTED) if age >= 0 else _IMPORTED


async def first_of(*work: Coroutine[Any, Any, Any]) -> None:
    """Run all of it until one ends, cancel the others, and raise what that one raised."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()
