"""A part of the plane while a stream runs: its subscriptions and all objects, commands in and tiles by zone out.

Every part takes every event, so that objects are the same in all of them, and of the commands about subscriptions those
that concern its area. Its engine numbers what it takes by itself; `seq` is the board's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from indexes.boards.commands import AddSubscriptions, Command, Configure, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels.forest import count
from indexes.boards.painter import Painter
from indexes.boards.results import Slice, TileView
from indexes.boards.zones import EVERYWHERE, Zone, touched
from indexes.core.arrays import Floats
from spark_jobs.zones.bases import inside
from spark_jobs.zones.layout import PartPlan

MAX = float(np.finfo(np.float64).max)


class ZoneMessage(NamedTuple):
    """What an event publishes to a zone: its tiles, in the order in which they apply."""

    seq: int
    zone: int
    tiles: list[dict[str, Any]]


class Part:
    """One part, at the board's `seq`."""

    def __init__(self, board: BoardEngine, plan: PartPlan, seq: int) -> None:
        self.board = board
        self.plan = plan
        self.seq = seq
        self.tiles = 0
        self.recipients = 0

    @property
    def subscriptions(self) -> int:
        """How many subscriptions it has."""
        return self.board.subscription_count

    def replay(self, command: Command, first_seq: int) -> None:
        """Take a command whose tiles were published already."""
        mine = self._own(command)
        taken = 0 if mine is None else self.board.replay(mine).count
        self._pass(command, first_seq, taken)

    def take(self, command: Command, first_seq: int) -> list[ZoneMessage]:
        """Take a command, whose first seq this is, 0 for the next one; returns what it publishes, in order of seq."""
        mine = self._own(command)
        if mine is None:
            self._pass(command, first_seq, 0)
            return []
        plan, slices = self.board.apply(mine)
        first = first_seq or self.seq + 1
        self._pass(command, first_seq, plan.count)
        return list(self._messages(slices, first - plan.first_seq)) if isinstance(command, Events) else []

    def _pass(self, command: Command, first_seq: int, taken: int) -> None:
        """Count the seqs of a command. Events take as many everywhere; the log says where others begin."""
        if isinstance(command, Events):
            self.seq = (first_seq or self.seq + 1) - 1 + taken

    def _own(self, command: Command) -> Command | None:
        """What of a command concerns this part, None for nothing."""
        area, known = self.plan.area, self.board.subscribers.ids
        match command:
            case Events():
                return replace(command, skip=True)
            case AddSubscriptions():
                rows = np.flatnonzero(inside(area, command.regions.l, command.regions.r)).tolist()
                return command.take(rows) if rows else None
            case SetSubscription():
                assert command.region is not None, "a command in the log says everything"
                l, r = (np.array([side], np.float64) for side in command.region.sides)
                if inside(area, l, r)[0]:
                    return replace(command, must_exist=False)
                return DeleteSubscriptions([command.id]) if known.find(command.id) >= 0 else None
            case DeleteSubscriptions():
                ids = [id for id in command.ids if known.find(id) >= 0]
                return DeleteSubscriptions(ids) if ids else None
            case Configure():
                return replace(command, zones=None, cut=None)

    def _messages(self, slices: list[Slice], shift: int) -> Iterator[ZoneMessage]:
        """The tiles of a command, by seq and zone; `shift` leads from the engine's seqs to the board's."""
        for painted in (one for part in slices for one in part.painted):
            rows = painted.rows
            sides = np.array(rows.numbers[:, :4])
            west = sides[:, :2]
            # Columns of tiles have unbounded ends without a sign.
            west[np.isinf(west)] = -np.inf
            views = [view for _, view in rows.views()]
            pairs: list[tuple[int, int, int]] = []
            for number, zone in self.plan.zones:
                for row in np.flatnonzero(touched(np.array([zone]), sides)).tolist():
                    pairs.append((painted.first_seq + rows.event[row] + shift, number, row))
            zones = dict(self.plan.zones)
            for (seq, number), group in groupby(sorted(pairs), lambda pair: pair[:2]):
                tiles = [self._tile(views[row], sides[row], zones[number]) for _, _, row in group]
                self.tiles += len(tiles)
                self.recipients += sum(tile["recipients"] for tile in tiles)
                yield ZoneMessage(seq, number, tiles)

    def _tile(self, view: Any, sides: Floats, zone: Zone) -> dict[str, Any]:
        assert isinstance(view, TileView)
        shown = view.object
        return {
            "k": view.k, "l_outer": view.l_outer, "l_inner": view.l_inner, "r_inner": view.r_inner,
            "r_outer": view.r_outer, "id": shown.id, "x": shown.x, "y": shown.y, "created": shown.created,
            "payload": None if shown.payload is None else shown.payload.decode(), "gone": view.gone,
            "recipients": self._recipients(view.k, sides, zone),
        }  # fmt: skip

    def _recipients(self, k: int, sides: Floats, zone: Zone) -> int:
        """How many subscriptions of a zone a tile reaches. O(sqrt m)."""
        painter = self.board.painter
        assert isinstance(painter, Painter)
        l_outer, l_inner, r_inner, r_outer = sides.tolist()
        l_outer = max(l_outer, float(np.nextafter(zone.l_lo, -np.inf)))
        if zone.l_hi < EVERYWHERE.l_hi:
            l_inner = min(l_inner, float(np.nextafter(zone.l_hi, -np.inf)))
        r_inner, r_outer = max(r_inner, zone.r_lo), min(r_outer, zone.r_hi)
        # The index has unbounded ends at the greatest numbers.
        l_inner, r_inner = max(l_inner, -MAX), min(r_inner, MAX)
        if l_outer >= l_inner or r_inner >= r_outer:
            return 0
        forest = painter.subscriptions.arrays
        q = painter.class_of(k)
        return int(count(forest, q, l_outer, l_inner, r_inner, r_outer))
