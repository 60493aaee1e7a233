"""Passes of kernels: the parts that they work with, and what a board learns of how long its events take."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from indexes.boards import painter as painters
from indexes.boards.commands import UPSERT, Configure, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels.changes import DELETE, SET, Changes
from indexes.boards.painter import Painter
from indexes.boards.plans.events import EventsPlan
from indexes.boards.regions import between, everywhere


@pytest.fixture
def painter() -> Painter:
    painter = Painter(BoardConfig(("x",), "y"))
    for _ in range(30):
        painter._learn(16 * 15e-6, 16)
    assert painter.usual_seconds == pytest.approx(15e-6, rel=0.01)
    return painter


def test_one_costly_pass_says_little_about_the_next(painter: Painter) -> None:
    painter._learn(16 * 5e-3, 16)
    assert painter.usual_seconds < 30e-6


def test_two_costly_passes_in_a_row_count(painter: Painter) -> None:
    for _ in range(2):
        painter._learn(16 * 5e-3, 16)
    assert painter.usual_seconds > 500e-6


def test_what_a_single_event_takes_counts_as_one_event(painter: Painter) -> None:
    """In a closed loop of 32 connections groups of 31 and of 1 may take turns."""
    for _ in range(20):
        painter._learn(70e-6, 1)
        painter._learn(31 * 12e-6, 31)
    assert 31 * painter.usual_seconds < 0.5e-3


def test_single_events_alone_are_learnt(painter: Painter) -> None:
    for _ in range(30):
        painter._learn(100e-6, 1)
    assert painter.usual_seconds == pytest.approx(100e-6, rel=0.05)


def test_a_long_command_is_forgotten_as_soon_as_a_short_one(painter: Painter) -> None:
    painter._learn(100_000 * 10e-6, 100_000)
    for _ in range(25):
        painter._learn(16 * 40e-6, 16)
    assert painter.usual_seconds == pytest.approx(40e-6, rel=0.05)


@pytest.mark.parametrize("grid", [32, 1 << 20])
@pytest.mark.parametrize("algorithm", ["sparse", "dense"])
def test_tiles_that_nobody_gets_are_counted_as_if_they_were_made(
    algorithm: Literal["sparse", "dense"], grid: int
) -> None:
    """Objects are inserted, moved and deleted among so many subscriptions that squares are searched, too."""
    rng = np.random.default_rng(grid)
    n, m = 600, 6_000
    x, y = rng.integers(0, grid, n) / grid, rng.integers(0, grid, n) / grid
    row, kind = rng.integers(0, 60, n).astype(np.int32), np.where(rng.random(n) < 0.1, DELETE, SET).astype(np.uint8)
    there = set[int]()
    for at in range(n):
        if kind[at] == DELETE and int(row[at]) not in there:
            kind[at] = SET
        (there.discard if kind[at] == DELETE else there.add)(int(row[at]))
    changes = Changes(kind, row, x, y, np.arange(n), np.zeros(n, np.uint8))
    ends = np.sort(rng.integers(0, grid, (m, 2)) / grid, 1)
    found = []
    for keep in (False, True):
        painter = Painter(BoardConfig(("x",), "y", "asc", (2, 5), algorithm))
        for k, sids in ((2, np.arange(0, m, 5)), (5, np.arange(m)[np.arange(m) % 5 > 0])):
            painter.subscriptions.insert_many(painter.class_of(k), sids, ends[sids, 0], ends[sids, 1])
        painter.reserve(n, 60)
        counted = [painter.run(changes, at, at + 1, 1.0, keep)[1] for at in range(n)]
        painter.check()
        assert not keep or counted[-1] == int(painter.tiles.n[0])
        found.append(counted)
    assert found[0] == found[1] and sum(found[0]) > 10 * n


def _scripted(index: Literal["range-tree", "kd-tree"]) -> BoardEngine:
    """A board with one subscription and no object."""
    board = BoardEngine(BoardConfig(("x",), "y", ks=(1, 3), index=index))
    board.apply(SetSubscription("all", everywhere(1), 3))
    return board


@pytest.mark.parametrize("index", ["range-tree", "kd-tree"])
def test_parts_that_are_replaced_are_used_from_then_on(
    index: Literal["range-tree", "kd-tree"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects, subscriptions, classes, live lists and buffers of one board outgrow their arrays between events, while
    another one paints the same events as a board that has just been filled.
    """
    monkeypatch.setattr(painters, "TILES", 1)
    board, rng = _scripted(index), np.random.default_rng(5)
    monkeypatch.undo()
    values, watched = dict[str, tuple[float, float]](), list[int]()
    for i in range(400):
        if i % 40 == 0:
            l, r = sorted(rng.random(2).tolist())
            board.apply(SetSubscription(f"s{i}", between(l, r), 1 + 2 * (i % 80 > 0)))
            watched.append(board.watch(f"s{i}"))
        if i == 200:
            board.apply(Configure(algorithm="dense"))
        key, x, y = f"o{rng.integers(1 + i // 2)}", float(rng.random()), float(rng.random())
        event = Events(np.full(1, UPSERT, np.uint8), [key], np.array([x]), np.array([y]))
        plan, _ = board.apply(event, keep_tiles=10_000)
        if i % 20 == 19:
            fresh = _scripted(index)
            for one in board.subscriptions(None, 100):
                fresh.apply(SetSubscription(one.id, one.region, one.k))
            if i >= 200:
                fresh.apply(Configure(algorithm="dense"))
            for other, at in values.items():
                fresh.apply(Events(event.op, [other], *np.array(at)[:, None]))
            wanted, _ = fresh.apply(event, keep_tiles=10_000)
            assert isinstance(plan, EventsPlan) and isinstance(wanted, EventsPlan)
            assert plan.tiles == wanted.tiles
            board.check()
        values[key] = x, y
    assert len(board.painter.event) > 1 and len(watched) == 10
