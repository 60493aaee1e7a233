"""Questions that are answered together: who goes with whom, and what becomes of the others when one fails or leaves."""

import asyncio
from collections.abc import Sequence

import pytest

from app.api.coalescing import Gathering


class Desk:
    """Answers a place with its double at once, or when it is let to; a place below zero makes it fail."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[int]]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def answer(self, key: str, places: Sequence[int]) -> tuple[int, list[int]]:
        self.asked.append((key, list(places)))
        await self.open.wait()
        if min(places) < 0:
            raise ValueError(f"{key}: below zero")
        return len(self.asked), [2 * place for place in places]


def test_what_comes_in_one_turn_is_asked_together_by_key() -> None:
    async def run() -> None:
        desk = Desk()
        together: Gathering[str, int, int] = Gathering(desk.answer)
        found = await asyncio.gather(*(together.ask("a" if i % 2 else "b", i) for i in range(6)))
        assert [answer for _, answer in found] == [0, 2, 4, 6, 8, 10]
        assert desk.asked == [("b", [0, 2, 4]), ("a", [1, 3, 5])]
        assert [seq for seq, _ in found] == [1, 2, 1, 2, 1, 2]

    asyncio.run(run())


def test_what_comes_meanwhile_goes_next_and_no_more_than_the_most_at_once() -> None:
    async def run() -> None:
        desk = Desk()
        desk.open.clear()
        together: Gathering[str, int, int] = Gathering(desk.answer, most=3)
        first = asyncio.create_task(together.ask("a", 0))
        while not desk.asked:
            await asyncio.sleep(0)
        later = [asyncio.create_task(together.ask("a", i)) for i in range(1, 6)]
        await asyncio.sleep(0)
        desk.open.set()
        assert [answer for _, answer in await asyncio.gather(first, *later)] == [0, 2, 4, 6, 8, 10]
        assert desk.asked == [("a", [0]), ("a", [1, 2, 3]), ("a", [4, 5])]
        assert await together.ask("a", 7) == (4, 14)

    asyncio.run(run())


def test_a_failure_is_told_to_those_who_were_asked_together_alone() -> None:
    async def run() -> None:
        desk = Desk()
        together: Gathering[str, int, int] = Gathering(desk.answer)
        asked = (together.ask("a", 1), together.ask("a", -1), together.ask("b", 3))
        one, two, three = await asyncio.gather(*asked, return_exceptions=True)
        assert str(one) == str(two) == "a: below zero"
        assert three == (2, 6)
        with pytest.raises(ValueError, match="below zero"):
            await together.ask("a", -2)
        assert await together.ask("a", 2) == (4, 4)

    asyncio.run(run())


def test_who_leaves_takes_no_one_along_and_is_not_asked_for() -> None:
    async def run() -> None:
        desk = Desk()
        desk.open.clear()
        together: Gathering[str, int, int] = Gathering(desk.answer)
        first, second = (asyncio.create_task(together.ask("a", i)) for i in (1, 2))
        while not desk.asked:
            await asyncio.sleep(0)
        third, fourth = (asyncio.create_task(together.ask("a", i)) for i in (3, 4))
        await asyncio.sleep(0)
        first.cancel()
        third.cancel()
        await asyncio.wait([first, third])
        desk.open.set()
        assert await second == (1, 4)
        assert await fourth == (2, 8)
        assert desk.asked == [("a", [1, 2]), ("a", [4])]

    asyncio.run(run())
