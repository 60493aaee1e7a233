"""What keeps a service that runs for months fit: snapshots, rebuilds of its indexes, and checking them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from app import logs, spark
from app.jobs import JobFailed, Report
from app.kinds.upkeep import Upkeep
from app.metrics import Metrics
from app.settings import Settings
from app.storage import Stores
from app.storage.catalog import Catalog
from app.storage.log import LogUnavailable
from app.storage.snapshots import Snapshots
from app.writer import Busy, Failed, Standstill, Writer
from formats.folder import Damaged
from indexes.commands import Refused

T = TypeVar("T")

SHOWN = 100
"""Differences that a job's detail lists."""

log = logs.get("maintenance")


class Outcome(NamedTuple):
    """How many lists of a resource were compared, how many differences were found, and the first of them."""

    compared: int
    wrong: int
    differences: list[dict[str, Any]]


class Maintenance:
    """Does the work of the jobs, one at a time, beside reads and writes.

    A job that fails changes nothing that is served.
    """

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        catalog: Catalog,
        writer: Writer,
        snapshots: Snapshots,
        metrics: Metrics,
    ) -> None:
        self.snapshots = snapshots
        self.snapshot_lsn = 0
        self._settings = settings
        self._stores = stores
        self._catalog = catalog
        self._writer = writer
        self._metrics = metrics

    @property
    def grown(self) -> bool:
        """Whether the log has rows that the newest snapshot lacks."""
        return self._writer.last_lsn > self.snapshot_lsn

    def worn(self, share: float, least: int) -> list[str]:
        """The resources of at least so many subscriptions of which more than a share have changed since their index was
        laid out."""
        engines = ((name, self._catalog.engine(name)) for name in self._catalog.names())
        found = [(name, engine) for name, engine in engines if engine is not None]
        return [name for name, engine in found if self._upkeep(name).worn(engine, least) > share]

    async def snapshot(self, report: Report) -> dict[str, Any]:
        """Write a snapshot of everything and let old ones go: ``{"lsn", "bytes", "seconds"}``."""
        began = time.perf_counter()
        still = await self._stand_still(report)
        states = await self._states(still)
        size = await self._write(still, states, _part(report, 0.1, 0.9))
        return {"lsn": still.lsn, "bytes": size, "seconds": _since(began)}

    async def rebuild(
        self, report: Report, resources: list[str] | None, engine: str, rederive: bool = True
    ) -> dict[str, Any]:
        """Take a snapshot, pack the indexes of resources from it, and put them in place of those in use:
        ``{"engine", "rows", "seconds", "swap_seconds"}``, and ``"passed_over"``: those that have no packed indexes, as
        boards with several range attributes or with indexed fields. What Spark does not know is packed here.

        With `rederive` each relay forwards the least that it can from then on, and ``"rederived"`` says by resource
        what that changed (`app.kinds.relays`); so does the detail of a failure that comes after it.
        """
        began = time.perf_counter()
        names = self._names(resources)
        rows, pauses, left = 0, [], []
        rederived: dict[str, Any] = {}
        try:
            still = await self._stand_still(report, journal=names)
            states = await self._states(still)
            await self._write(still, states, _part(report, 0.02, 0.2))
            for i, name in enumerate(names):
                if name not in states:
                    continue
                part = _part(report, 0.2 + 0.7 * i / len(names), 0.2 + 0.7 * (i + 1) / len(names))
                state, upkeep = states.pop(name), self._upkeep(name)
                if not upkeep.packs(state):
                    left.append(name)
                    continue
                rows += upkeep.rows(state)
                await self._pack(still.lsn, name, state, engine, part)
                pauses.append(await self._swap(still.lsn, name, state))
                if rederive:
                    rederived |= await self._rederive(name)
        except JobFailed as failed:
            if rederived:
                failed.detail["rederived"] = rederived
            raise
        finally:
            for name in names:
                found = self._catalog.engine(name)
                if found is not None:
                    self._upkeep(name).forget(found)
        detail = {"engine": engine, "rows": rows, "seconds": _since(began), "swap_seconds": max(pauses, default=0.0)}
        more = {"passed_over": left, "rederived": rederived}
        return detail | {name: found for name, found in more.items() if found}

    async def verify(self, report: Report, resources: list[str] | None, engine: str) -> dict[str, Any]:
        """Compare every list and every index of resources with a scan, here or on Spark:
        ``{"compared", "differences"}``. Any difference is a failure. What Spark does not know, as matchers, or boards
        with several range attributes or with indexed fields, is always compared here."""
        names = self._names(resources)
        still = await self._stand_still(report, indexes=names)
        compared, count = 0, 0
        found: list[dict[str, Any]] = []
        if engine == "spark":
            await self._write(still, await self._states(still), _part(report, 0.02, 0.1))
            await self._write_lists(still, names)
        for i, name in enumerate(n for n in names if n in still.captured):
            part = _part(report, 0.1 + 0.9 * i / len(names), 0.1 + 0.9 * (i + 1) / len(names))
            captured, upkeep = still.captured.pop(name), self._upkeep(name)
            on_spark = engine == "spark" and upkeep.audited(captured)
            how = self._audit(still.lsn, name, part) if on_spark else _verify(upkeep, name, captured, part)
            outcome = await how
            compared += outcome.compared
            count += outcome.wrong
            found += outcome.differences
        detail = {"compared": compared, "differences": found[:SHOWN], "difference_count": count}
        if count:
            raise JobFailed(f"{count} differences", detail)
        return detail

    def _names(self, resources: list[str] | None) -> list[str]:
        if resources is None:
            return self._catalog.names()
        return list(dict.fromkeys(resources))

    def _upkeep(self, resource: str) -> Upkeep:
        return self._catalog.kinds.split(resource)[0].upkeep

    async def _states(self, still: Standstill) -> dict[str, Any]:
        """What was copied, in order."""
        split = self._catalog.kinds.split
        return await _aside(lambda: {name: split(name)[0].state_of(found) for name, found in still.captured.items()})

    async def _stand_still(
        self, report: Report, journal: list[str] | None = None, indexes: list[str] | None = None
    ) -> Standstill:
        report(0.0, "copying the state")
        try:
            still = await self._writer.stand_still(journal or (), indexes or ())
            # Replay works out again what only applying tells of an answer; from a snapshot on it no longer could.
            await self._writer.write_answers()
        except (Failed, LogUnavailable) as error:
            raise JobFailed(f"the state cannot be copied: {error}") from error
        return still

    async def _write(self, still: Standstill, states: dict[str, Any], report: Report) -> int:
        """Write the snapshot, unless there is one of that very moment, and let old ones go: whatever else the job is to
        do may fail, and they must not pile up then."""
        report(0.0, "writing the snapshot")
        began = time.perf_counter()

        def write() -> int:
            if self.snapshots.is_good(still.lsn):
                return 0
            keys, answers = self._stores.keys.all(), self._stores.log.all_answers(still.lsn)
            return self.snapshots.write(still.lsn, sorted(states.items()), still.gone, keys, answers)

        try:
            size = await _aside(write)
        except (OSError, Damaged, LogUnavailable) as error:
            raise JobFailed(f"the snapshot cannot be written: {_reason(error)}") from error
        if size:
            self.snapshot_lsn = still.lsn
            self._metrics.snapshot_taken(still.lsn, time.time(), _since(began))
            log.info("snapshot written", lsn=still.lsn, bytes=size, seconds=_since(began))
        await self._retire(report)
        return size or self.snapshots.size(still.lsn)

    async def _retire(self, report: Report) -> None:
        """Let old snapshots go, and the log that they needed."""
        report(0.95, "letting old snapshots go")
        try:
            oldest = await _aside(lambda: self.snapshots.retire(self._settings.keep_snapshots, self._writer.last_lsn))
            await self._writer.prune(oldest)
        except (OSError, LogUnavailable) as error:
            log.warning("old snapshots or rows of the log stay for now", error=_reason(error))

    async def _pack(self, lsn: int, resource: str, state: Any, engine: str, report: Report) -> None:
        """Write a resource's image."""
        upkeep = self._upkeep(resource)
        report(0.0, f"packing {resource}")
        try:
            if engine == "spark" and upkeep.spark_rebuild:
                await self._on_spark(upkeep.spark_rebuild, lsn, resource, report)
            else:
                image = await _aside(lambda: upkeep.pack(state))
                folder = self.snapshots.image(lsn, resource)
                await _aside(folder.delete)
                await _aside(lambda: upkeep.write_image(folder, resource, lsn, image))
        except OSError as error:
            raise JobFailed(f"the image of {resource} cannot be written: {_reason(error)}") from error

    async def _on_spark(self, module: str, lsn: int, resource: str, report: Report) -> dict[str, Any]:
        """Run one of Spark's jobs for a resource of a snapshot; returns what it said at its end."""
        # Another process has another working directory.
        storage = str(self.snapshots.root.local or self._settings.storage)
        arguments = ["--storage", storage, "--lsn", str(lsn), "--resource", resource]
        return await spark.run(self._settings, module, arguments, report)

    async def _swap(self, lsn: int, resource: str, state: Any) -> float:
        """Put a resource's image in place of its indexes, with what has changed since; returns the seconds of the last
        step."""
        upkeep = self._upkeep(resource)
        try:
            fresh = await _aside(lambda: upkeep.fresh(upkeep.read_image(self.snapshots.image(lsn, resource)), state))
            while True:
                fold = await self._writer.maintain(resource, lambda engine: upkeep.fold(engine, fresh))
                if fold.swapped:
                    log.info("indexes swapped", resource=resource, lsn=lsn, seconds=round(fold.seconds, 4))
                    return round(fold.seconds, 4)
                if fold.abandoned:
                    log.info("made anew meanwhile", resource=resource)
                    return 0.0
        except Damaged as error:
            raise JobFailed(f"the image of {resource} is damaged: {error}") from error
        except Refused:
            log.info("deleted meanwhile", resource=resource)
            return 0.0
        except (Busy, Failed, LogUnavailable) as error:
            raise JobFailed(f"the image of {resource} cannot be put in place: {error}") from error

    async def _rederive(self, resource: str) -> dict[str, Any]:
        """Submit the command by which a rebuild of the resource ends, if there is one; returns what it came to, by
        resource."""
        upkeep = self._upkeep(resource)
        command = upkeep.rederivation()
        if command is None:
            return {}
        try:
            job = await self._writer.submit(resource, command)
        except Refused:
            log.info("deleted meanwhile", resource=resource)
            return {}
        except (Busy, Failed, LogUnavailable) as error:
            raise JobFailed(f"{resource} is laid out anew, but what it decided stands: {error}") from error
        log.info("decided anew", resource=resource, seq=job.last_seq)
        return {resource: upkeep.rederived(job)}

    async def _write_lists(self, still: Standstill, names: list[str]) -> None:
        """Write what indexes answer to every subscription, for Spark to compare."""

        def write() -> None:
            folder = self.snapshots.audit(still.lsn)
            folder.delete()
            with folder.draft() as draft:
                for resource in names:
                    kind, name = self._catalog.kinds.split(resource)
                    captured = still.captured.get(resource)
                    if captured is not None and kind.upkeep.audited(captured):
                        kind.upkeep.write_lists(draft, name, captured)
                draft.publish({"kind": "audit", "lsn": still.lsn})

        try:
            await _aside(write)
        except OSError as error:
            raise JobFailed(f"the lists cannot be written: {_reason(error)}") from error

    async def _audit(self, lsn: int, resource: str, report: Report) -> Outcome:
        """Have Spark compute every list of a resource and compare it with what its index answers."""
        try:
            told = await self._on_spark(self._upkeep(resource).spark_audit, lsn, resource, report)
        except JobFailed as failed:
            if "differences" not in failed.detail:
                raise
            told = failed.detail
        found = [{"resource": resource, "kind": "list", **difference} for difference in told["differences"]]
        return Outcome(int(told["compared"]), int(told["difference_count"]), found)


async def _verify(upkeep: Upkeep, resource: str, captured: Any, report: Report) -> Outcome:
    compared = count = 0
    found: list[dict[str, Any]] = []
    stopped = False

    def run() -> None:
        nonlocal compared, count
        for checked in upkeep.verify(captured):
            compared += checked.compared
            count += checked.wrong
            shown = checked.differences[: SHOWN - len(found)]
            found.extend({"resource": resource, **difference._asdict()} for difference in shown)
            report(compared / max(1, checked.of), f"comparing the lists of {resource}")
            if stopped:
                break

    try:
        await _aside(run)
    finally:
        # The thread itself cannot be cancelled.
        stopped = True
    return Outcome(compared, count, found)


def _part(report: Report, lo: float, hi: float) -> Report:
    """A report of a part of the work, from `lo` to `hi` of the whole."""

    def part(fraction: float, step: str, /) -> None:
        report(lo + (hi - lo) * fraction, step)

    return part


async def _aside(work: Callable[[], T]) -> T:
    """Run `work` in a thread."""
    return await asyncio.to_thread(work)


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 3)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
