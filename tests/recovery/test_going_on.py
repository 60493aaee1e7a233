"""A kernel thread goes on with the next command before the last one is published, and nobody can tell."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.write_path import applying
from app.write_path.kernel_threads import COUNT, KernelThreads, SliceRunner
from app.write_path.writer import Failed
from indexes.boards.commands import Events, SetSubscription
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.events import EventsPlan
from indexes.boards.regions import everywhere
from tests.recovery.commands import CONFIG, upsert
from tests.recovery.writers import run


class Step:
    """A job whose slice lasts until it is `released`."""

    def __init__(self, lets: bool = True, fails: bool = False) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self._lets, self._fails = lets, fails
        self.executed = 0

    def execute(self, budget: float) -> None:
        self.begun.set()
        assert self.released.wait(60)
        self.executed += 1
        if self._fails:
            raise RuntimeError("as wanted")

    def lets_begin(self, following: Any) -> bool:
        return self._lets


def steps(story: Callable[[SliceRunner], Awaitable[None]]) -> None:
    async def whole() -> None:
        threads = KernelThreads()
        await asyncio.wait_for(story(SliceRunner(threads, 1.0)), 60)
        threads.shutdown()

    asyncio.run(whole())


def test_the_thread_goes_on_by_itself() -> None:
    async def story(runner: SliceRunner) -> None:
        first, second, third = Step(), Step(), Step()
        first.released.set()
        await runner.execute(first, 1.0, second)
        assert runner.ahead is not None and runner.ahead.job is second
        # What is offered while nothing is waited for is not taken.
        runner.offer(third)
        waiting = asyncio.create_task(runner.execute(second, 1.0, None))
        await asyncio.sleep(0)
        runner.offer(third)
        second.released.set()
        await waiting
        assert runner.ahead is not None and runner.ahead.job is third
        third.released.set()
        await runner.end()
        assert [step.executed for step in (first, second, third)] == [1, 1, 1]

    steps(story)


@pytest.mark.parametrize("why", ["not let", "failed", "withdrawn", "not offered", "others wait"])
def test_the_thread_ends_otherwise(why: str) -> None:
    async def story(runner: SliceRunner) -> None:
        end, others = threading.Event(), COUNT if why == "others wait" else 0
        for _ in range(others - 1):
            runner._threads.submit(end.wait, 60)
        first, second = Step(lets=why != "not let", fails=why == "failed"), Step()
        second.released.set()
        waiting = asyncio.create_task(runner.execute(first, 1.0, None if why == "not offered" else second))
        await asyncio.sleep(0)
        if why == "withdrawn":
            runner.withdraw()
        if others:
            runner._threads.submit(end.wait, 60)
            assert runner._threads.crowded
        first.released.set()
        if why == "failed":
            with pytest.raises(RuntimeError, match="as wanted"):
                await waiting
        await asyncio.wait([waiting])
        assert runner.ahead is None and not second.begun.is_set()
        end.set()
        await runner.execute(second, 1.0, None)
        assert second.executed == 1

    steps(story)


@pytest.mark.parametrize("why", ["none behind", "not let", "ahead", "others wait"])
def test_a_job_that_comes_late_is_begun_before_the_last_one_is_published(why: str) -> None:
    async def story(runner: SliceRunner) -> None:
        first, second = Step(lets=why != "not let"), Step()
        first.released.set()
        await runner.execute(first, 1.0, second if why == "ahead" else None)
        ahead, end = runner.ahead, threading.Event()
        for _ in range(COUNT + 1 if why == "others wait" else 0):
            runner._threads.submit(end.wait, 60)
        runner.go_on(first, None if why == "none behind" else second)
        assert runner.ahead is ahead
        end.set()
        second.released.set()
        await runner.execute(second, 1.0, None)
        assert second.executed == 1
        third = Step()
        third.released.set()
        runner.go_on(second, third)
        assert runner.ahead is not None and runner.ahead.job is third
        await runner.execute(third, 1.0, None)
        assert third.executed == 1 and runner.ahead is None

    steps(story)


def test_what_fails_ahead_is_raised_in_its_turn() -> None:
    async def story(runner: SliceRunner) -> None:
        first, second = Step(), Step(fails=True)
        first.released.set()
        second.released.set()
        await runner.execute(first, 1.0, second)
        with pytest.raises(RuntimeError, match="as wanted"):
            await runner.execute(second, 1.0, None)
        await runner.execute(first, 1.0, second)
        await runner.end()

    steps(story)


def updates(value: float) -> Events:
    return upsert(("o", value, value))


class Watched:
    """Which events are executed: the second of those submitted when the first one has been, and is not published."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> None:
        self.second, self.go = threading.Event(), threading.Event()
        self.executed = list[float]()
        execute = EventsPlan.execute

        def watched(plan: EventsPlan, budget: float) -> None:
            value = float(plan.command.y[0])
            if value == 1.0:
                assert self.go.wait(60)
            if value == 2.0 and fails:
                raise RuntimeError("as wanted")
            execute(plan, budget)
            self.executed.append(value)
            if value == 2.0:
                self.second.set()

        monkeypatch.setattr(EventsPlan, "execute", watched)
        monkeypatch.setattr(applying, "INLINE", -1.0)


def test_the_state_is_that_of_what_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(writer: Any) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", updates(0.0))
        watched, seen = Watched(monkeypatch), list[Any]()
        board = writer.catalog.engine("boards/a")

        def published(plan: EventsPlan) -> None:
            if plan.command.y[0] == 1.0:
                # The loop has not published yet what its thread has done meanwhile.
                assert watched.second.wait(60)
            seen.append((board.seq, board.object("o").y, watched.executed[-1]))

        tasks = [asyncio.create_task(writer.submit("boards/a", updates(v), then=published)) for v in (1.0, 2.0)]
        while board.next_seq < 4 or not writer.committer.idle:
            await asyncio.sleep(0)
        watched.go.set()
        await asyncio.gather(*tasks)
        assert seen == [(2, 1.0, 2.0), (3, 2.0, 2.0)]
        board.check()

    run(tmp_path, story)


def test_what_waits_for_the_end_of_a_slice_is_called_while_none_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(writer: Any) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", updates(0.0))
        watched = Watched(monkeypatch)
        board = writer.catalog.engine("boards/a")
        tasks = [asyncio.create_task(writer.submit("boards/a", updates(v))) for v in (1.0, 2.0)]
        while board.next_seq < 4 or not writer.committer.idle:
            await asyncio.sleep(0)
        between = asyncio.create_task(writer.between("boards/a", lambda: (board.seq, list(watched.executed))))
        await asyncio.sleep(0)
        watched.go.set()
        assert await between == (2, [1.0])
        await asyncio.gather(*tasks)
        assert watched.executed == [1.0, 2.0]

    run(tmp_path, story)


def test_what_is_ahead_when_the_service_ends_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is executed: otherwise it could be read before it is visible. What is behind it is left to the next start."""

    async def story(writer: Any) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", updates(0.0))
        watched, reads = Watched(monkeypatch), list[asyncio.Task[Any]]()
        board = writer.catalog.engine("boards/a")

        def published(plan: EventsPlan) -> None:
            assert watched.second.wait(60)
            writer.repair.abandoning = True
            reads.append(asyncio.create_task(writer.between("boards/a", lambda: (board.seq, board.object("o").y))))

        submit = partial(writer.submit, "boards/a")
        tasks = [asyncio.create_task(submit(updates(1.0), then=published))]
        tasks += [asyncio.create_task(submit(updates(v))) for v in (2.0, 3.0)]
        while board.next_seq < 5 or not writer.committer.idle:
            await asyncio.sleep(0)
        watched.go.set()
        await asyncio.wait_for(asyncio.gather(*tasks[:2]), 60)
        assert await reads[0] == (3, 2.0)
        assert watched.executed == [1.0, 2.0] and not tasks[2].done()
        tasks[2].cancel()

    run(tmp_path, story)


def test_a_command_that_fails_ahead_undoes_nothing_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(writer: Any) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", updates(0.0))
        watched = Watched(monkeypatch, fails=True)
        board = writer.catalog.engine("boards/a")
        tasks = [asyncio.create_task(writer.submit("boards/a", updates(v))) for v in (1.0, 2.0)]
        while board.next_seq < 4 or not writer.committer.idle:
            await asyncio.sleep(0)
        watched.go.set()
        first, second = await asyncio.gather(*tasks, return_exceptions=True)
        assert first.done and isinstance(second, Failed)
        await writer.repair.settled()
        assert writer.catalog.engine("boards/a").object("o").y == 1.0

    run(tmp_path, story)


@pytest.mark.parametrize("why", ["", "tiles", "a live list", "unfinished", "another command"])
def test_events_let_others_begin_where_nobody_is_notified(why: str) -> None:
    board = BoardEngine(CONFIG)
    board.apply(updates(0.0))
    board.apply(SetSubscription("s", everywhere(1), 2, None))
    if why == "a live list":
        board.watch("s")
    plan = board.prepare(updates(1.0), 10 if why == "tiles" else 0)
    behind: Any = board.prepare(updates(2.0))
    if why == "another command":
        behind = board.prepare(SetSubscription("t", everywhere(1), 2, None))
    if why != "unfinished":
        plan.execute(1.0)
    assert plan.lets_begin(behind) == (not why)
