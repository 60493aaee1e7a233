"""Explanations and what they foretell."""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.boards.commands import Events
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.explain import Explanation


def foretold(board: BoardEngine, command: Events, keep: int = 10**6, **painting: Any) -> Explanation:
    plan = board.explain(command, keep, **painting)
    assert plan.count == 0
    while not plan.done:
        plan.execute(1.0)
        assert plan.publish() is None
    assert plan.explanation is not None
    return plan.explanation


def state(board: BoardEngine) -> Any:
    """All that a command could change, the kernel side included."""
    catalogue, painter = board.catalogue, board.painter
    objects = zip(*(column.tolist() for column in painter.objects.contents()), strict=True)
    return (
        (board.seq, board.next_seq, board.config, board.latest_config),
        (board.objects(None, 100), board.subscriptions(None, 100), catalogue.reserved(), catalogue.rows.copy()),
        (catalogue.ids.copy(), catalogue.created.copy(), catalogue.payloads.copy(), catalogue._latest_payloads.copy()),
        (catalogue._pending.entries.copy(), sorted(objects), painter.work.stats.tolist(), int(painter.tiles.n[0])),
        [painter.live.rows(live).tolist() for live in board.live_of.values()],
    )


def sides_of(row: list[float]) -> tuple[float | None, float | None, float | None, float | None]:
    """The sides of a tile, None where it is unbounded."""
    a, b, c, d = (None if np.isinf(side) else side for side in row)
    return a, b, c, d
