import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from app.runtime.metrics import Metrics
from app.settings import Settings
from app.write_path.jobs import Jobs, Kind
from app.write_path.schedule import Schedule
from tests.support.fake_maintenance import FakeMaintenance, different
from tests.support.patience import PATIENCE

LIMIT = PATIENCE
NIGHTLY = {"nightly": "15 3 * * *"}


class World:
    """A schedule over a stand-in, whose runs come due when a test says so."""

    def __init__(self, **settings: Any) -> None:
        self.work = FakeMaintenance()
        self.jobs = Jobs(Metrics())
        self.grown = True
        self.schedule = Schedule(Settings(**settings), self.jobs, self.work, lambda: self.grown)
        self.schedule.start()

    def runs(self) -> dict[str, datetime]:
        scheduler = self.schedule.scheduler
        return {} if scheduler is None else {run.id: run.next_run_time for run in scheduler.get_jobs()}

    def come_due(self, name: str) -> None:
        assert self.schedule.scheduler is not None
        self.schedule.scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    async def until(self, true: Callable[[], object]) -> None:
        while not true():
            await asyncio.sleep(0.002)

    def ended(self) -> list[tuple[Kind, str]]:
        return [(job.kind, job.state) for job in self.jobs if job.over]


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        await asyncio.wait_for(test(), LIMIT)

    asyncio.run(within())


def test_the_settings_say_what_runs_and_when() -> None:
    async def test() -> None:
        assert World().runs() == {}, "snapshots follow no calendar"
        assert World(snapshot_every_minutes=0).runs() == {}
        world = World(**NIGHTLY, nightly_timezone="Asia/Tokyo", snapshot_every_minutes=0)
        (at,) = world.runs().values()
        assert (at.astimezone(UTC).hour, at.minute) == (18, 15)
        world.schedule.stop()
        world.schedule.stop()

    run(test)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_the_night_rebuilds_everything(engine: str) -> None:
    async def test() -> None:
        world = World(**NIGHTLY, nightly_engine=engine)
        world.come_due("nightly run")
        await world.until(lambda: world.ended() == [("rebuild", "succeeded")])
        assert world.work.calls == [("rebuild", None, engine)]

    run(test)


def test_the_night_verifies_what_it_rebuilt_if_it_is_to() -> None:
    async def test() -> None:
        world = World(**NIGHTLY, nightly_verify=True)
        world.come_due("nightly run")
        await world.until(lambda: len(world.ended()) == 2)
        assert world.ended() == [("rebuild", "succeeded"), ("verify", "succeeded")]
        assert world.work.calls == [("rebuild", None, "local"), ("verify", None, "local")]

    run(test)


def test_a_rebuild_that_failed_is_not_verified() -> None:
    async def test() -> None:
        world = World(**NIGHTLY, nightly_verify=True)
        world.work.fails = different(1)
        await world.schedule.nightly()
        assert world.ended() == [("rebuild", "failed")]
        assert world.jobs.open() == []

    run(test)


def test_a_night_that_is_not_over_is_not_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        world = World(**NIGHTLY)
        world.work.go.clear()
        world.come_due("nightly run")
        await world.until(lambda: world.work.calls)
        with caplog.at_level(logging.WARNING, "apscheduler"):
            world.come_due("nightly run")
            await world.until(lambda: "maximum number of running instances reached" in caplog.text)
        assert len(list(world.jobs)) == 1
        world.work.go.set()
        await world.until(lambda: world.ended() == [("rebuild", "succeeded")])
        world.come_due("nightly run")
        await world.until(lambda: len(world.ended()) == 2)

    run(test)


def test_a_snapshot_is_taken_only_when_the_log_has_grown() -> None:
    async def test() -> None:
        world = World()
        world.grown = False
        await world.schedule.snapshot()
        assert list(world.jobs) == []
        world.grown = True
        await world.schedule.snapshot()
        await world.until(lambda: world.ended() == [("snapshot", "succeeded")])
        assert world.work.calls == [("snapshot",)]

    run(test)


@pytest.mark.parametrize("kind", ["snapshot", "rebuild"])
def test_no_snapshot_is_asked_for_beside_a_job_that_takes_one(kind: Kind) -> None:
    async def test() -> None:
        world = World()
        world.work.go.clear()
        job = world.jobs.submit(kind, world.work.snapshot)
        await world.schedule.snapshot()
        assert list(world.jobs) == [job]
        world.work.go.set()
        await job.wait()
        await world.schedule.snapshot()
        assert len(list(world.jobs)) == 2

    run(test)


def test_a_run_that_finds_the_queue_full_is_left_out() -> None:
    async def test() -> None:
        world = World(**NIGHTLY)
        world.work.go.clear()
        for _ in range(16):
            world.jobs.submit("verify", world.work.snapshot)
        await world.schedule.nightly()
        assert {job.kind for job in world.jobs} == {"verify"}
        await world.jobs.close()
        await world.schedule.nightly()

    run(test)


def test_snapshots_go_on_when_the_clock_is_set_back() -> None:
    """A time of day that jumps ahead and comes back stops none: they follow the loop's clock."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        real, ahead = loop.time, 0.0
        loop.time = lambda: real() + ahead  # type: ignore[method-assign]
        world = World(snapshot_every_minutes=1)
        await asyncio.sleep(0)
        assert world.schedule.scheduler is None

        def taken(expected: list[tuple[Kind, str]]) -> bool:
            return world.ended() == expected

        for number in (1, 2, 3):
            ahead += 61
            expected: list[tuple[Kind, str]] = [("snapshot", "succeeded")] * number
            await world.until(partial(taken, expected))
        world.schedule.stop()

    run(test)
