"""An eager coroutine does what a task does, and no task is made where nothing has to be waited for."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Literal, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from app.runtime.eager import EagerCoroutine

Step: TypeAlias = tuple[Literal["turn"]] | tuple[Literal["wait"], int] | tuple[Literal["note"], int]

WAITS = 4

STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.just(("turn",)),
        st.tuples(st.just("wait"), st.integers(0, WAITS - 1)),
        st.tuples(st.just("note"), st.integers(0, 9)),
    ),
    max_size=8,
)

_noted: ContextVar[int] = ContextVar("noted", default=-1)


async def work(steps: list[Step], futures: list[asyncio.Future[int]], seen: list[object]) -> None:
    """Waits and notes; what it has seen says what a caller of it could know."""
    for step in steps:
        seen.append(_noted.get())
        try:
            if step[0] == "turn":
                await asyncio.sleep(0)
            elif step[0] == "wait":
                seen.append(await futures[step[1]])
            else:
                _noted.set(step[1])
        except (ValueError, asyncio.CancelledError) as error:
            seen.append(type(error))
    seen.append("ended")


async def carried_out(eager: bool, steps: list[Step], ends: list[int], early: int, cancelled: bool) -> list[object]:
    """What the work has seen: of its futures some are there before it goes on, by `ends` with a value or an error."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[int]] = [loop.create_future() for _ in range(WAITS)]
    seen: list[object] = []

    def end(at: int) -> None:
        if futures[at].done():
            return
        if ends[at] % 2:
            futures[at].set_exception(ValueError())
            futures[at].exception()
        else:
            futures[at].set_result(ends[at])

    task: asyncio.Task[None] | None = None
    if eager:
        one = EagerCoroutine(work(steps, futures, seen))
        ended = one.advance()
        for at in range(early):
            end(at)
        if not ended and not one.advance():
            task = asyncio.create_task(one.finish())
    else:
        task = asyncio.create_task(work(steps, futures, seen))
        await asyncio.sleep(0)
        for at in range(early):
            end(at)
    if task is not None:
        for _ in range(2 * len(steps) + 2):
            await asyncio.sleep(0)
        if cancelled:
            task.cancel()
            await asyncio.sleep(0)
        for at in range(WAITS):
            end(at)
        await task
    assert _noted.get() == -1, "it has a context of its own"
    return seen


@given(STEPS, st.lists(st.integers(0, 9), min_size=WAITS, max_size=WAITS), st.integers(0, WAITS), st.booleans())
def test_it_sees_what_a_task_sees(steps: list[Step], ends: list[int], early: int, cancelled: bool) -> None:
    found, wanted = (asyncio.run(carried_out(eager, steps, ends, early, cancelled)) for eager in (True, False))
    assert found == wanted


def test_no_task_is_made_where_what_it_waits_for_is_there() -> None:
    async def run() -> None:
        future = asyncio.get_running_loop().create_future()
        seen: list[object] = []
        one = EagerCoroutine(work([("wait", 0), ("wait", 0)], [future], seen))
        assert not one.advance()
        assert not one.advance()
        future.set_result(3)
        assert one.advance()
        assert seen == [-1, 3, -1, 3, "ended"]

    asyncio.run(run())


def test_what_comes_before_the_task_begins_takes_no_further_turn() -> None:
    async def run() -> None:
        future = asyncio.get_running_loop().create_future()
        seen: list[object] = []
        one = EagerCoroutine(work([("wait", 0)], [future], seen))
        assert not one.advance()
        task = asyncio.create_task(one.finish())
        future.set_result(3)
        await asyncio.sleep(0)
        assert task.done()
        assert seen[-1] == "ended"

    asyncio.run(run())


def test_what_fails_is_reported_and_holds_up_nobody() -> None:
    async def fail() -> None:
        raise ValueError

    async def run() -> None:
        reported = list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: reported.append(type(about["exception"])))
        assert EagerCoroutine(fail()).advance()
        assert reported == [ValueError]

    asyncio.run(run())
