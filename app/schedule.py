"""What the clock asks for: the nightly rebuild, and a snapshot every so often while the log grows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from app import logs
from app.jobs import Job, Jobs, Kind, Maintenance, Run
from app.problems import Problem
from app.settings import Settings, timezone_of

if TYPE_CHECKING:
    from apscheduler.triggers.base import BaseTrigger  # type: ignore[import-untyped, unused-ignore]

LATE = 3600
"""Seconds that a run may begin late, as when the process was stopped or the machine asleep; after that it waits for the
next time."""

log = logs.get("schedule")


class Schedule:
    """The runs of one service, from `start` to `stop`. A run that is still going is not started a second time.

    `grown` says whether the log has rows that the newest snapshot lacks.
    """

    def __init__(self, settings: Settings, jobs: Jobs, maintenance: Maintenance, grown: Callable[[], bool]) -> None:
        # 10 ms that listening need not wait for.
        from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped, unused-ignore]
        from apscheduler.triggers.interval import IntervalTrigger  # type: ignore[import-untyped, unused-ignore]

        from app.crontab import trigger

        self._settings = settings
        self._jobs = jobs
        self._maintenance = maintenance
        self._grown = grown
        self._stopped = True
        self._timezone = timezone_of(settings.nightly_timezone)
        self.scheduler = AsyncIOScheduler(timezone=self._timezone)
        if settings.nightly is not None:
            self._add("nightly run", self.nightly, trigger(settings.nightly, self._timezone))
        if settings.snapshot_every_minutes:
            every = IntervalTrigger(seconds=max(1, round(settings.snapshot_every_minutes * 60)))
            self._add("snapshot", self.snapshot, every)

    def _add(self, name: str, run: Callable[[], object], when: BaseTrigger) -> None:
        self.scheduler.add_job(run, when, id=name, name=name, coalesce=True, max_instances=1, misfire_grace_time=LATE)

    def start(self) -> None:
        """Run what comes due from now on."""
        self.scheduler.start()
        self._stopped = False
        for run in self.scheduler.get_jobs():
            log.info("scheduled", run=run.name, next=run.next_run_time.isoformat(timespec="seconds"))

    def stop(self) -> None:
        """Begin nothing more. Jobs that were begun are not touched."""
        if not self._stopped:
            self._stopped = True
            self.scheduler.shutdown(wait=False)

    async def nightly(self) -> None:
        """Rebuild everything, then verify it if that is set; returns when that is done."""
        engine = self._settings.nightly_engine
        rebuild = partial(self._maintenance.rebuild, resources=None, engine=engine)
        done = await self._run("nightly run", "rebuild", rebuild)
        if done is not None and done.state == "succeeded" and self._settings.nightly_verify:
            await self._run("nightly run", "verify", partial(self._maintenance.verify, resources=None, engine=engine))

    async def snapshot(self) -> None:
        """Take a snapshot if the log has grown and no job that takes one is there already."""
        if self._grown() and not any(job.kind in ("snapshot", "rebuild") for job in self._jobs.open()):
            await self._run("snapshot", "snapshot", self._maintenance.snapshot)

    async def _run(self, what: str, kind: Kind, run: Run) -> Job | None:
        """The job once it has ended; None when it could not be queued, which is logged."""
        try:
            job = self._jobs.submit(kind, run)
        except Problem as refusal:
            log.warning("left out", run=what, kind=kind, why=refusal.detail)
            return None
        log.info("begun", run=what, kind=kind, job=job.id)
        await job.wait()
        return job
