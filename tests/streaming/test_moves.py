"""The moves of one socket where the service fails."""

import asyncio
from typing import Any

import pytest

from app.errors import ServiceError
from app.streaming.moves import Moves
from app.streaming.operations import Operation


@pytest.mark.anyio
async def test_moves_that_fail_are_refused_and_those_behind_them_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    async def carry(resource: str, ids: list[str], locations: list[Any]) -> list[Any]:
        await asyncio.sleep(0)
        raise RuntimeError("a defect")

    def refuse(move: dict[str, Any], problem: Exception) -> None:
        assert isinstance(problem, ServiceError)
        refused.append(f"{move['id']} {problem.code}")

    moves = Moves(carry, lambda operation, answer: None, refuse)
    monkeypatch.setattr("app.streaming.moves.MOST_WAITING", 2)
    count = 6
    async with asyncio.timeout(30):
        for i in range(count):
            await moves.add(Operation(resource=f"maps/m{i % 2}", id=str(i), location=[0, 0]))
        while len(refused) < count:
            await asyncio.sleep(0)
    assert refused == [f"{i} internal" for i in range(count)]
