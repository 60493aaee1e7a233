"""The moves of one socket where the service fails."""

import asyncio
from typing import Any

import pytest

from app.delivery.moves import Moves


@pytest.mark.anyio
async def test_moves_that_fail_are_refused_and_those_behind_them_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    async def carry(resource: str, ids: list[str], locations: list[Any]) -> list[Any]:
        await asyncio.sleep(0)
        raise RuntimeError("a defect")

    moves = Moves(carry, lambda answer: None, lambda move, problem: refused.append(f"{move['id']} {problem.slug}"))
    monkeypatch.setattr("app.delivery.moves.MOST_WAITING", 2)
    count = 6
    async with asyncio.timeout(30):
        for i in range(count):
            await moves.add({"resource": f"maps/m{i % 2}", "id": str(i), "location": [0, 0]})
        while len(refused) < count:
            await asyncio.sleep(0)
    assert refused == [f"{i} internal" for i in range(count)]
