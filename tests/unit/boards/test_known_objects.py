"""Events whose ids are given as bytes do what those with a list of ids do."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import between
from indexes.compiled.text import EIGHT
from indexes.core.commands import Refused
from indexes.core.spaced_ids import SpacedIds


def _updates(draw: random.Random, ids: list[str]) -> Events:
    """Updates of objects, some of which may not be there; more than are checked at once."""
    some = draw.choices(ids, k=draw.choice([5, 300]))
    texts = np.frombuffer("".join(f"{id} " for id in some).encode() + bytes(EIGHT), np.uint8)[:-EIGHT]
    values = np.array([draw.random() for _ in some])
    op = np.full(len(some), UPDATE, np.uint8)
    return Events(op, SpacedIds(texts, len(some)), np.full(len(some), np.nan), values, skip=draw.random() < 0.3)


def _changes(draw: random.Random, ids: list[str]) -> Events:
    """Objects that come and go."""
    some = draw.sample(ids, draw.randrange(1, 6))
    op = np.array([draw.choice([UPSERT, DELETE]) for _ in some], np.uint8)
    x, y = (np.where(op == DELETE, np.nan, [draw.random() for _ in some]) for _ in range(2))
    return Events(op, some, x, y, skip=True)


def _outcome(board: BoardEngine, command: Events) -> object:
    try:
        plan, _ = board.apply(command)
    except Refused as refused:
        return refused.faults
    return plan.count, plan.faults, plan.response_fields()


@pytest.mark.parametrize("seed", range(8))
def test_known_ids_change_nothing(seed: int) -> None:
    draw = random.Random(seed)
    ids = [f"o{i}" for i in range(40)] + ["b" * 24, "c" * 25]
    boards = [BoardEngine(BoardConfig(("x",), "y", "asc", (2,))) for _ in range(2)]
    for board in boards:
        board.apply(SetSubscription("s", between(0.2, 0.8), 2))
    for step in range(60):
        command = _changes(draw, ids) if 0 < step < 3 or draw.random() < 0.3 else _updates(draw, ids)
        if isinstance(command.ids, SpacedIds) and draw.random() < 0.7:
            there = [id for id in ids if boards[0].object(id) is not None]
            command = _updates(draw, there) if there else command
        assert _outcome(boards[0], command) == _outcome(boards[1], replace(command, ids=list(command.ids)))
        assert boards[0].objects(None, 100) == boards[1].objects(None, 100)
    boards[0].check()
