"""The balance of zones: how many subscriptions each has, and cutting them again where they drift."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import numpy as np

from app.runtime import logs
from indexes.boards.engine import BoardEngine
from indexes.boards.zones import Cut, Zone, counts_of, cut_zones, imbalance
from indexes.core.arrays import Floats

CHECK_EVERY = 2.0
"""Seconds between two looks at the balance of zones."""

SAMPLE = 200_000
"""Subscriptions that a look at the balance takes into account."""

WORTH = 0.9
"""The share of the imbalance that a new cut may have, to be worth it."""

EACH = 8
"""Subscriptions for each zone from which on zones are balanced by themselves."""

log = logs.get("zones")


def points_of(board: BoardEngine, most: int | None = None) -> tuple[Floats, Floats]:
    """A copy of the (l, r) of a board's subscriptions, of every few where there are more than `most`. O(m)."""
    subscribers = board.subscribers
    rows = np.flatnonzero(subscribers.k)
    if most is not None and len(rows) > most:
        rows = rows[:: -(-len(rows) // most)]
    return subscribers.regions.l[rows], subscribers.regions.r[rows]


async def zone_counts(board: BoardEngine, cut: Cut) -> list[int]:
    """How many subscriptions each zone of a board has."""
    return await asyncio.to_thread(counts_of, cut.zones, *points_of(board))


async def new_cut(board: BoardEngine, n: int) -> tuple[Zone, ...]:
    """The plane cut into n zones by the present subscriptions of a board."""
    return await asyncio.to_thread(cut_zones, *points_of(board), n)


async def better_cut(board: BoardEngine, drift: float) -> tuple[Zone, ...] | None:
    """Another cut, where the zones of a board have drifted so far and it is better; None where not."""
    n, cut = board.config.zones, board.config.cut
    if n is None or cut is None:
        return None
    l, r = points_of(board, SAMPLE)
    if len(l) < EACH * n:
        return None

    def find() -> tuple[Zone, ...] | None:
        present = imbalance(counts_of(cut.zones, l, r), n)
        if present < drift:
            return None
        zones = cut_zones(l, r, n)
        return zones if imbalance(counts_of(zones, l, r), n) <= WORTH * present else None

    return await asyncio.to_thread(find)


class Balance:
    """Cuts zones again by itself. `names` are the boards, `cut` gives a board other zones."""

    def __init__(
        self,
        drift: float,
        names: Callable[[], Iterable[str]],
        find: Callable[[str], BoardEngine | None],
        cut: Callable[[str, tuple[Zone, ...]], Awaitable[object]],
    ) -> None:
        self._drift = drift
        self._names = names
        self._find = find
        self._cut = cut
        self._seen: dict[str, int] = {}

    async def run(self) -> None:
        """Look at all boards for ever."""
        while self._drift:
            await asyncio.sleep(CHECK_EVERY)
            for name in list(self._names()):
                try:
                    await self.look(name)
                except Exception as error:
                    log.warning("zones cannot be balanced yet", board=name, error=str(error))

    async def look(self, name: str) -> None:
        """Cut the zones of one board again, if they have drifted."""
        board = self._find(name)
        if board is None or board.config.cut is None or self._seen.get(name) == board.seq:
            return
        seq = board.seq
        zones = await better_cut(board, self._drift)
        if zones is not None:
            await self._cut(name, zones)
            log.info("zones cut again", board=name, zones=len(zones))
        self._seen[name] = seq
