"""Scheduled jobs: the nightly rebuild, and periodic snapshots while the log grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from app.errors import ServiceError
from app.runtime import logs
from app.settings import Settings, timezone_of
from app.write_path.jobs import Job, Jobs, Kind, Maintenance, Run

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped, unused-ignore]

CHECK_ROWS_EVERY = 5.0
"""Seconds between two checks of how many rows the newest snapshot lacks."""

CHECK_ROWS_AT_LEAST_EVERY = 3600.0
"""Most seconds until the next check after failed snapshots."""

LATE = 3600
"""Seconds that a run may start late, as after a suspended machine; past that it is skipped."""

log = logs.get("schedule")


class Schedule:
    """The runs of one service, from `start` to `stop`. A run that has not ended is not started a second time.

    `grown` says whether the log has rows that the newest snapshot lacks, `rows` how many, `leads` whether a rebuild may
    write commands: at a replica it packs indexes alone.
    """

    def __init__(
        self,
        settings: Settings,
        jobs: Jobs,
        maintenance: Maintenance,
        grown: Callable[[], bool],
        rows: Callable[[], int] = lambda: 0,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._maintenance = maintenance
        self._grown = grown
        self._rows = rows
        self._leads = leads
        self._stopped = True
        self.scheduler = None if settings.nightly is None else self._by_calendar(settings.nightly)
        """The calendar of the nightly run; None if there is none."""
        self._every = max(1, round(settings.snapshot_every_minutes * 60)) if settings.snapshot_every_minutes else None
        self._task: asyncio.Task[None] | None = None

    def _by_calendar(self, text: str) -> AsyncIOScheduler:
        """The nightly run, at the times of a text such as ``15 3 * * *``."""
        # The import takes as long as a tenth of a start.
        from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped, unused-ignore]

        from app.crontab import trigger

        timezone = timezone_of(self._settings.nightly_timezone)
        name = "nightly run"
        scheduler = AsyncIOScheduler(timezone=timezone)
        when = trigger(text, timezone)
        scheduler.add_job(
            self.nightly, when, id=name, name=name, coalesce=True, max_instances=1, misfire_grace_time=LATE
        )
        return scheduler

    def start(self) -> None:
        """Run what comes due from now on."""
        self._stopped = False
        if self.scheduler is not None:
            self.scheduler.start()
            for run in self.scheduler.get_jobs():
                log.info("scheduled", run=run.name, next=run.next_run_time.isoformat(timespec="seconds"))
        if self._every is not None:
            self._task = asyncio.get_running_loop().create_task(self._snapshots(self._every))
            log.info("scheduled", run="snapshot", seconds=self._every)

    def stop(self) -> None:
        """Start nothing more. Running jobs continue."""
        if not self._stopped:
            self._stopped = True
            if self.scheduler is not None:
                self.scheduler.shutdown(wait=False)
            if self._task is not None:
                self._task.cancel()

    async def nightly(self) -> None:
        """Rebuild everything, then verify it if that is set; return when that is done."""
        engine = self._settings.nightly_engine
        rebuild = partial(self._maintenance.rebuild, resources=None, engine=engine, rederive=self._leads())
        done = await self._run("nightly run", "rebuild", rebuild)
        if done is not None and done.state == "succeeded" and self._settings.nightly_verify:
            await self._run("nightly run", "verify", partial(self._maintenance.verify, resources=None, engine=engine))

    async def snapshot(self) -> None:
        """Take a snapshot if the log has grown and no job that takes one is there already."""
        if self._grown() and not any(job.kind in ("snapshot", "rebuild") for job in self._jobs.open()):
            await self._run("snapshot", "snapshot", self._maintenance.snapshot)

    async def _snapshots(self, every: float) -> None:
        """Take a snapshot every `every` seconds of the loop's monotonic clock: an interval of the scheduler would pause
        after the system's clock was set back.
        """
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            # Missed runs are made up for by one.
            due = max(due + every, loop.time())
            await asyncio.sleep(due - loop.time())
            try:
                await self.snapshot()
            except Exception as error:
                log.error("the snapshot failed", exc_info=error)

    async def by_rows(self, every: float = CHECK_ROWS_EVERY) -> None:
        """Take a snapshot whenever it lacks as many rows as the settings say, since a start replays them. After a
        failure the next one comes later each time.
        """
        pause = every
        while self._settings.snapshot_rows:
            await asyncio.sleep(pause)
            if self._rows() < self._settings.snapshot_rows or self._stopped:
                continue
            if any(job.kind in ("snapshot", "rebuild") for job in self._jobs.open()):
                continue
            done = await self._run("snapshot by rows", "snapshot", self._maintenance.snapshot)
            failed = done is None or done.state != "succeeded"
            pause = min(2 * pause, CHECK_ROWS_AT_LEAST_EVERY) if failed else every

    async def _run(self, what: str, kind: Kind, run: Run) -> Job | None:
        """The job once it has ended; None when it could not be queued, which is logged."""
        try:
            job = self._jobs.submit(kind, run)
        except ServiceError as refusal:
            log.warning("left out", run=what, kind=kind, why=refusal.detail)
            return None
        log.info("begun", run=what, kind=kind, job=job.id)
        await job.wait()
        return job
