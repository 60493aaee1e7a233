"""Moving clients: right at every step while objects change, and silent while they stay in their zone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import httpx
import pytest

from rankcast_client import (
    AsyncMap,
    MapAttribute,
    MapInfo,
    ProblemError,
    Rankcast,
    RankcastError,
    Skyline,
    Top,
)
from rankcast_client.map_models import answer_of
from rankcast_client.reach import Reach
from rankcast_client.transport import Retry
from tests.support.patience import PATIENCE
from tests.unit.client.map_world import SUM, MapWorld
from tests.unit.client.service import QUICK

TOP: Any = Top(3, SUM, m=4)  # type: ignore[arg-type]
QUESTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "top": (TOP, {"kind": "top", "k": 3, "m": 4, "score": SUM}),
    "skyline": (Skyline(), {"kind": "skyline"}),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankcast_client._base.RECONNECT", Retry(attempts=0, first=0.001, most=0.002))


def run(test: Callable[[MapWorld, AsyncMap], Awaitable[None]], objects: int = 15, seed: int = 0) -> MapWorld:
    """A test on a world with some objects."""

    async def main() -> MapWorld:
        world = MapWorld()
        draw = Random(seed)
        for n in range(objects):
            world.put(f"o{n}", *anything(draw))
        async with asyncio.timeout(PATIENCE), world.client() as client:
            await test(world, client.map("food"))
        return world

    return asyncio.run(main())


def anything(draw: Random) -> tuple[float, float, float, float]:
    """A place and values: some of them alike."""
    return (
        draw.choice([float(draw.randint(0, 9) * 10), draw.random() * 100]),
        draw.random() * 100,
        draw.randint(0, 4),
        1,
    )


@pytest.mark.parametrize("kind", ["top", "skyline"])
def test_without_changes_every_step_is_right_and_most_are_saved(kind: str) -> None:
    question, said = QUESTIONS[kind]

    async def walk(world: MapWorld, food: AsyncMap) -> None:
        moving = food.moving(question)
        for step in range(300):
            place = 20 + 0.2 * step, 80 - 0.15 * step
            answer = await moving.move(place)
            assert answer.location == place
            assert world.right(said, answer, place)
        assert moving.moves == 300 == moving.asked + moving.saved
        assert len(world.asked) == moving.asked + 1, "the map's configuration is asked for once"
        assert moving.saved > 150
        world.put("best", *place, 0, 5)
        again = await moving.refresh()
        assert again is not None and "best" in [one.id for one in again.objects]

    run(walk)


@pytest.mark.parametrize("kind", ["top", "skyline"])
@pytest.mark.parametrize("seed", range(4))
def test_with_a_standing_query_every_step_is_right_while_objects_change(kind: str, seed: int) -> None:
    question, said = QUESTIONS[kind]

    async def walk(world: MapWorld, food: AsyncMap) -> None:
        draw = Random(seed)
        x, y = 50.0, 50.0
        async with food.moving_query(question) as moving:
            await moving.move((x, y))
            for _ in range(250):
                what = draw.random()
                if what < 0.15:
                    world.put(f"o{draw.randint(0, 19)}", *anything(draw))
                elif what < 0.2:
                    world.delete(draw.choice(sorted(world.model.objects)))
                elif what < 0.23:
                    world.holding = True
                elif what < 0.25:
                    world.lose()
                    while moving.live:
                        await asyncio.sleep(0)
                elif what < 0.28:
                    x, y = draw.random() * 100, draw.random() * 100
                elif what < 0.4:
                    while not moving.live:
                        await asyncio.sleep(0.001)
                else:
                    x, y = x + draw.gauss(0, 0.4), y + draw.gauss(0, 0.4)
                if not world.holding or what > 0.9:
                    await world.heard()
                asked = len(world.asked)
                live = moving.live
                answer = await moving.move((x, y))
                assert answer.location == (x, y)
                assert world.right(said, answer, (x, y))
                if not live:
                    assert len(world.asked) > asked, "what nobody keeps right is asked for"
            assert moving.moves == 251 and moving.saved > 60
            assert moving.id in world.queries
        assert not world.queries, "what was made for the time is deleted"

    run(walk, seed=seed)


def test_within_the_zone_the_service_hears_nothing() -> None:
    async def stay(world: MapWorld, food: AsyncMap) -> None:
        async with food.moving_query(TOP, "q1", ttl=60) as moving:
            first = await moving.move((50, 50))
            radius = first.zone.radius
            assert radius is not None and radius > 0
            asked = len(world.asked)
            for part in range(100):
                await moving.move((50 + radius * part / 101, 50))
            assert len(world.asked) == asked and moving.saved == 100
            await moving.move((50 + 1.001 * radius, 50))
            assert world.asked[asked:] == [("PATCH", "/queries/q1")]
        assert "q1" in world.queries, "what was given an id stays"

    world = run(stay)
    assert [path for method, path in world.asked if method == "PUT"] == ["/queries/q1"]


def test_who_iterates_hears_what_changes_where_the_client_is() -> None:
    async def listen(world: MapWorld, food: AsyncMap) -> None:
        async with food.moving_query(TOP) as moving:
            with pytest.raises(RuntimeError, match="has not moved"):
                await anext(moving)
            await moving.move((50, 50))
            await moving.move((50.001, 50))
            world.put("best", 50, 50, 0, 5)
            answer = await anext(moving)
            assert answer.list[0].id == "best" and answer.location == (50.001, 50)
            assert answer.list[0].distance == pytest.approx(0.001)
            waiting = asyncio.ensure_future(anext(moving))
            await world.heard()
            assert not waiting.done(), "what was told is not told again"
            world.delete("best")
            assert "best" not in [one.id for one in (await waiting).list]

    run(listen)


def test_a_zone_that_is_on_its_way_is_asked_for() -> None:
    """The service holds another zone than the client knows of, and says of a place in it no more than that."""

    async def race(world: MapWorld, food: AsyncMap) -> None:
        async with food.moving_query(TOP, "q1") as moving:
            first = await moving.move((50, 50))
            assert first.zone.radius is not None
            world.holding = True
            for id in sorted(world.model.objects)[3:]:
                world.delete(id)
            place = 50 + 2 * first.zone.radius, 50.0
            asked = len(world.asked)
            answer = await moving.move(place)
            assert [method for method, _ in world.asked[asked:]] == ["PATCH", "GET"]
            assert answer.zone.radius is None and world._right(world.model, QUESTIONS["top"][1], answer, place)
            await world.heard()
            assert (await moving.move((1, 1))).zone.radius is None

    run(race)


def test_a_query_that_was_deleted_is_a_404() -> None:
    async def gone(world: MapWorld, food: AsyncMap) -> None:
        async with food.moving_query(TOP, "q1") as moving:
            await moving.move((50, 50))
            world.queries.clear()
            world.lose()
            await world.heard()
            while moving.live:
                await asyncio.sleep(0)
            with pytest.raises(ProblemError, match="404"):
                await moving.move((50, 50))
            async for _ in moving:
                pass

    run(gone)


def test_a_query_that_others_move_too_is_given_up() -> None:
    async def stolen(world: MapWorld, food: AsyncMap) -> None:
        async with food.moving_query(TOP, "q1") as moving:
            await moving.move((0, 0))
            honest = world._moved

            def elsewhere(id: str, location: list[float]) -> httpx.Response:
                honest(id, [99.0, 99.0])
                return world._said({"inside": True})

            world._moved = elsewhere  # type: ignore[method-assign]
            with pytest.raises(RankcastError, match="'q1' is moved by someone else"):
                await moving.move((60, 10))

    run(stolen)


def test_what_cannot_be_followed_is_raised() -> None:
    async def refused(world: MapWorld, food: AsyncMap) -> None:
        world._stream = lambda id, after: httpx.Response(403, json={"status": 403, "title": "No"})  # type: ignore
        async with food.moving_query(TOP) as moving:
            with pytest.raises(ProblemError, match="403"):
                await moving.move((50, 50))

    run(refused)


def test_the_synchronous_client_asks_as_seldom() -> None:
    world = MapWorld()
    draw = Random(1)
    for n in range(15):
        world.put(f"o{n}", *anything(draw))

    def answer(request: httpx.Request) -> httpx.Response:
        return asyncio.run(world.handle_async_request(request))

    transport = httpx.MockTransport(answer)
    with Rankcast("http://rankcast.test", transport=transport, retry=QUICK) as client:
        for kind in ("top", "skyline"):
            question, said = QUESTIONS[kind]
            moving = client.map("food").moving(question)
            assert moving.refresh() is None
            for step in range(100):
                place = 20 + 0.1 * step, 70.0
                assert world.right(said, moving.move(place), place)
            assert moving.moves == 100 == moving.asked + moving.saved and moving.saved > 50
            asked = moving.asked
            assert moving.refresh() is not None and moving.asked == asked + 1


def test_the_place_of_an_answer_holds_even_where_its_zone_has_no_area() -> None:
    world = MapWorld()
    world.put("a", 0, 0, 1, 1)
    world.put("b", 10, 0, 1, 1)
    info = MapInfo("food", {"price": MapAttribute(), "rating": MapAttribute("high")}, (0, 0, 100, 100))
    for question, said in QUESTIONS.values():
        question = Top(1, SUM) if isinstance(question, Top) else question  # type: ignore[arg-type]
        data = world.answer({**said, "k": 1, "m": 1}, [5.0, 3.0])
        answer = answer_of(data, (5.0, 3.0), 1)
        assert answer is not None
        reach = Reach(question, info)
        assert reach.at(answer, (5.0, 3.0)) is answer
        assert reach.at(answer, (5.0, 3.0000001)) is None
