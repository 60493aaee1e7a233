"""Maintenance: snapshots, rebuilds of indexes, and verification."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from app.errors import LogUnavailable
from app.resources.maintenance import IndexMaintenance
from app.runtime import logs
from app.runtime.metrics import Metrics
from app.runtime.priority import in_background
from app.settings import Settings
from app.storage import Stores
from app.storage.log import Checked
from app.storage.root import StorageAway, StorageRoot
from app.storage.snapshots import Snapshots
from app.write_path import spark
from app.write_path.catalog import Catalog
from app.write_path.jobs import CANCELLED, JobCancelled, JobFailed, Report
from app.write_path.writer import Busy, ConsistentCut, Failed, Writer
from formats.folder import Damaged
from indexes.core.commands import Refused

T = TypeVar("T")

SHOWN = 100
"""Most differences in a job's detail."""

HOLD = 60.0
"""Seconds for which no snapshot is deleted after a replica has fetched a piece of one."""

log = logs.get("maintenance")


async def _nothing() -> None:
    """There is nothing else to store."""


class Outcome(NamedTuple):
    """The verification of a resource: how many lists were compared, how many were wrong, and the first differences."""

    compared: int
    wrong: int
    differences: list[dict[str, Any]]


class Maintenance:
    """The work of jobs, one at a time, in the background of reads and writes. A failed job changes nothing."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        catalog: Catalog,
        writer: Writer,
        snapshots: Snapshots,
        metrics: Metrics,
        root: StorageRoot | None = None,
    ) -> None:
        self.snapshots = snapshots
        self.snapshot_lsn = 0
        self.on_cut: Callable[[], Awaitable[None]] = _nothing
        """Called before a snapshot is written, to store what only a replay of the log before it could recover."""
        self._settings = settings
        self._stores = stores
        self._catalog = catalog
        self._writer = writer
        self._metrics = metrics
        self._root = root
        self._held_until = -math.inf

    def hold(self) -> None:
        """Keep all snapshots and the log for `HOLD` seconds, since a replica fetches one. In any thread."""
        self._held_until = time.monotonic() + HOLD

    @property
    def grown(self) -> bool:
        """Whether the log has rows that the newest snapshot lacks."""
        return self._writer.last_lsn > self.snapshot_lsn

    def churned(self, share: float, least: int) -> list[str]:
        """The resources whose indexes are worth packing again.

        Those with at least `least` subscriptions of which more than `share` changed since they were packed.
        """
        engines = ((name, self._catalog.engine(name)) for name in self._catalog.names())
        found = [(name, engine) for name, engine in engines if engine is not None]
        return [name for name, engine in found if self._maintenance_of(name).churn(engine, least) > share]

    async def snapshot(self, report: Report) -> dict[str, Any]:
        """Write a snapshot of everything and drop old ones: ``{"lsn", "bytes", "seconds"}``, and ``"failed"``: the
        resources that it lacks since they have failed, so that a start takes them from an earlier one.
        """
        began = time.perf_counter()
        cut = await self._consistent_cut(report)
        states = await self._states(cut)
        size = await self._write(cut, states, _part(report, 0.1, 0.9))
        detail = {"lsn": cut.lsn, "bytes": size, "seconds": _since(began)}
        return detail | ({"failed": cut.failed} if cut.failed else {})

    async def rebuild(
        self, report: Report, resources: list[str] | None, engine: str, rederive: bool = True
    ) -> dict[str, Any]:
        """Take a snapshot, pack the indexes of resources from it, and put them in place of those in use.

        Returns ``{"engine", "rows", "seconds", "swap_seconds"}``, and ``"passed_over"``: those without packed indexes,
        as boards with several range attributes or with indexed fields. What Spark cannot pack is packed here.

        With `rederive` each relay forwards the least possible from then on, and ``"rederived"`` has by resource what
        that changed (`app.resources.relays`); so does the detail of a failure after it.
        """
        began = time.perf_counter()
        names = self._names(resources)
        rows, pauses, left = 0, [], []
        rederived: dict[str, Any] = {}
        try:
            cut = await self._consistent_cut(report, journal=names)
            states = await self._states(cut)
            await self._write(cut, states, _part(report, 0.02, 0.2))
            for i, name in enumerate(names):
                if name not in states:
                    continue
                part = _part(report, 0.2 + 0.7 * i / len(names), 0.2 + 0.7 * (i + 1) / len(names))
                state, maintenance = states.pop(name), self._maintenance_of(name)
                if not maintenance.packs(state):
                    left.append(name)
                    continue
                rows += maintenance.rows(state)
                await self._pack(cut.lsn, name, state, engine, part)
                pauses.append(await self._swap(cut.lsn, name, state))
                if rederive:
                    await _to_end(self._rederive(name, rederived))
        except JobFailed as failed:
            if rederived:
                failed.detail["rederived"] = rederived
            raise
        except asyncio.CancelledError:
            if not rederived:
                raise
            raise JobCancelled(CANCELLED, {"rederived": rederived}) from None
        finally:
            for name in names:
                found = self._catalog.engine(name)
                if found is not None:
                    self._maintenance_of(name).forget(found)
        seconds = {"seconds": _since(began), "swap_seconds": max(pauses, default=0.0)}
        detail: dict[str, Any] = {"engine": engine, "rows": rows, **seconds}
        more = {"passed_over": left, "rederived": rederived}
        detail |= {name: found for name, found in more.items() if found}
        _check_failed(cut, names, detail)
        return detail

    async def verify(self, report: Report, resources: list[str] | None, engine: str) -> dict[str, Any]:
        """Compare every list and every index of resources with a scan, here or on Spark.

        For all resources the rows of the log are compared with their checksums too. Returns ``{"compared",
        "differences"}``, and ``"log"`` where rows are damaged or have no checksum. Any difference is a failure. What
        Spark cannot compare, as matchers, or boards with several range attributes or with indexed fields, is always
        compared here.
        """
        names = self._names(resources)
        cut = await self._consistent_cut(report, indexes=names)
        compared, count = 0, 0
        found: list[dict[str, Any]] = []
        try:
            if engine == "spark":
                await self._write(cut, await self._states(cut), _part(report, 0.02, 0.1))
                await self._write_lists(cut, names)
            for i, name in enumerate(n for n in names if n in cut.captured):
                part = _part(report, 0.1 + 0.8 * i / len(names), 0.1 + 0.8 * (i + 1) / len(names))
                captured, maintenance = cut.captured.pop(name), self._maintenance_of(name)
                on_spark = engine == "spark" and maintenance.audited(captured)
                how = self._audit(cut.lsn, name, part) if on_spark else _verify(maintenance, name, captured, part)
                outcome = await how
                compared += outcome.compared
                count += outcome.wrong
                found += outcome.differences
        except asyncio.CancelledError:
            if engine == "spark":
                await _in_thread(self.snapshots.audit(cut.lsn).delete)
            raise
        more: dict[str, Any] = {}
        if resources is None:
            checked = await self._check_log(_part(report, 0.9, 1.0))
            count += len(checked.faults)
            found += [{"resource": "log", "kind": "row", "lsn": lsn, "reason": why} for lsn, why in checked.faults]
            if checked.faults or checked.unchecked:
                more = {"log": {"rows": checked.rows, "unchecked": checked.unchecked}}
        self._metrics.verify_differences.set(count)
        detail = {"compared": compared, "differences": found[:SHOWN], "difference_count": count, **more}
        if count:
            raise JobFailed(f"{count} differences", detail)
        _check_failed(cut, names, detail)
        return detail

    def _names(self, resources: list[str] | None) -> list[str]:
        if resources is None:
            return self._catalog.names()
        return list(dict.fromkeys(resources))

    def _maintenance_of(self, resource: str) -> IndexMaintenance:
        return self._catalog.resource_types.split(resource)[0].maintenance

    async def _states(self, cut: ConsistentCut) -> dict[str, Any]:
        """The states of a cut by resource, in order."""
        split = self._catalog.resource_types.split
        return await _in_thread(lambda: {name: split(name)[0].state_of(found) for name, found in cut.captured.items()})

    async def _consistent_cut(
        self, report: Report, journal: list[str] | None = None, indexes: list[str] | None = None
    ) -> ConsistentCut:
        report(0.0, "copying the state")

        async def whole() -> ConsistentCut:
            await self._writer.make_room()
            found = await self._writer.consistent_cut(journal or (), indexes or ())
            # Replay recomputes the fields of responses that only applying gives; from a snapshot on it cannot.
            await self._writer.committer.complete_answers()
            return found

        try:
            # To its end: a cancelled rebuild would drop its journals before engines begin to record in them.
            cut = await _to_end(whole())
        except (Failed, LogUnavailable) as error:
            raise JobFailed(f"the state cannot be copied: {error}") from error
        return cut

    async def _write(self, cut: ConsistentCut, states: dict[str, Any], report: Report) -> int:
        """Write the snapshot, unless there is one of the same row, and drop old ones.

        They must not accumulate if the rest of the job fails.
        """
        report(0.0, "writing the snapshot")
        began = time.perf_counter()
        stop = threading.Event()

        def write() -> int:
            self._claim_storage()
            if self.snapshots.is_good(cut.lsn):
                if self.snapshots.behind(cut.lsn).keys() <= set(cut.failed):
                    return 0
                # What it lacks has been rebuilt meanwhile.
                self.snapshots.folder(cut.lsn).delete()
            behind = {resource: self.snapshots.base(resource, cut.lsn) for resource in cut.failed}
            if any(row < self._writer.pruned_through for row in behind.values()):
                raise Damaged(f"there is no snapshot that {', '.join(behind)} could begin from")
            keys, answers = self._stores.keys.all(), self._stores.log.all_answers(cut.lsn)
            given, webhooks = _until(stop, sorted(states.items())), self._stores.webhooks.all()
            return self.snapshots.write(cut.lsn, given, cut.gone, keys, _until(stop, answers), behind, webhooks)

        try:
            await self.on_cut()
            size = await _in_thread(write, stop)
        except (OSError, Damaged, LogUnavailable, StorageAway) as error:
            raise JobFailed(f"the snapshot cannot be written: {_reason(error)}") from error
        if size:
            self.snapshot_lsn = cut.lsn
            self._metrics.snapshot_taken(cut.lsn, time.time(), _since(began))
            log.info("snapshot written", lsn=cut.lsn, bytes=size, seconds=_since(began))
            if cut.failed:
                log.warning("snapshot without what failed", lsn=cut.lsn, resources=cut.failed)
        await self._drop_old(report)
        return size or self.snapshots.size(cut.lsn)

    async def _drop_old(self, report: Report) -> None:
        """Drop old snapshots, and the log that they needed."""
        report(0.95, "letting old snapshots go")
        try:
            await self._writer.committer.prune(await _in_thread(self._retire))
        except (OSError, LogUnavailable, StorageAway) as error:
            log.warning("old snapshots or rows of the log stay for now", error=_reason(error))

    def _retire(self) -> int:
        """Drop old snapshots; return the row up to which the remaining ones make the log unnecessary."""
        if time.monotonic() < self._held_until:
            return 0
        oldest = self.snapshots.retire(self._settings.keep_snapshots, self._writer.last_lsn)
        self._claim_storage()
        if self._root is not None:
            self._root.expect(lsn for lsn in self.snapshots.lsns() if lsn <= self._writer.last_lsn)
        return oldest

    def _claim_storage(self) -> None:
        """Raise `StorageAway` if the storage root is not the one of this service: nothing may be written there."""
        if self._root is not None:
            self._root.claim()

    async def _pack(self, lsn: int, resource: str, state: Any, engine: str, report: Report) -> None:
        """Write a resource's image."""
        maintenance = self._maintenance_of(resource)
        report(0.0, f"packing {resource}")
        try:
            await _in_thread(self._claim_storage)
            if engine == "spark" and maintenance.spark_rebuild:
                await self._on_spark(maintenance.spark_rebuild, lsn, resource, report)
            else:
                image = await _in_thread(lambda: maintenance.pack(state))
                folder = self.snapshots.image(lsn, resource)
                await _in_thread(folder.delete)
                await _in_thread(lambda: maintenance.write_image(folder, resource, lsn, image))
        except asyncio.CancelledError:
            await _in_thread(lambda: self._drop_part(lsn, resource))
            raise
        except (OSError, LogUnavailable, StorageAway) as error:
            raise JobFailed(f"the image of {resource} cannot be written: {_reason(error)}") from error

    def _drop_part(self, lsn: int, resource: str) -> None:
        """Delete what there is of an image that is not whole, with the pieces that Spark wrote."""
        place, _, name = resource.rpartition("/")
        folder = self.snapshots.image(lsn, place)
        try:
            for each in folder.names():
                if each.startswith(f"{name}~") or (each == name and not (folder / each).whole):
                    (folder / each).delete()
        except OSError as error:
            log.warning("a part of an image stays for now", resource=resource, lsn=lsn, error=_reason(error))

    async def _on_spark(self, module: str, lsn: int, resource: str, report: Report) -> dict[str, Any]:
        """Run one of Spark's jobs for a resource of a snapshot; return its result."""
        # Another process has another working directory.
        storage = str(self.snapshots.root.local or self._settings.storage)
        arguments = ["--storage", storage, "--lsn", str(lsn), "--resource", resource]
        return await spark.run(self._settings, module, arguments, report)

    async def _swap(self, lsn: int, resource: str, state: Any) -> float:
        """Replace a resource's indexes by its image and the changes since; return the seconds of the last step."""
        maintenance = self._maintenance_of(resource)
        try:
            fresh = await _in_thread(
                lambda: maintenance.fresh(maintenance.read_image(self.snapshots.image(lsn, resource)), state)
            )
            engine = self._catalog.engine(resource)
            if engine is not None:
                await _in_thread(lambda: maintenance.rehearse(engine, fresh))
            while True:
                fold = await _to_end(self._writer.maintain(resource, lambda engine: maintenance.fold(engine, fresh)))
                if fold.swapped:
                    # Not on the loop, and not in the background: the interpreter is held for it.
                    await _to_end(self._writer.in_kernel_thread(fold.release))
                    log.info("indexes swapped", resource=resource, lsn=lsn, seconds=round(fold.seconds, 4))
                    return round(fold.seconds, 4)
                if fold.abandoned:
                    log.info("recreated meanwhile", resource=resource)
                    return 0.0
        except Damaged as error:
            raise JobFailed(f"the image of {resource} is damaged: {error}") from error
        except Refused:
            log.info("deleted meanwhile", resource=resource)
            return 0.0
        except (Busy, Failed, LogUnavailable) as error:
            raise JobFailed(f"the image of {resource} cannot be put in place: {error}") from error

    async def _rederive(self, resource: str, rederived: dict[str, Any]) -> None:
        """Submit the command that ends a rebuild of the resource, if there is one; add its result by resource."""
        maintenance = self._maintenance_of(resource)
        command = maintenance.rederivation()
        if command is None:
            return
        try:
            job = await self._writer.submit(resource, command)
        except Refused:
            log.info("deleted meanwhile", resource=resource)
            return
        except (Busy, Failed, LogUnavailable) as error:
            raise JobFailed(f"{resource} is laid out again, but what it decided stands: {error}") from error
        log.info("decided again", resource=resource, seq=job.last_seq)
        rederived[resource] = maintenance.rederived(job)

    async def _write_lists(self, cut: ConsistentCut, names: list[str]) -> None:
        """Write the list that indexes give for every subscription, for Spark to compare."""

        def write() -> None:
            self._claim_storage()
            folder = self.snapshots.audit(cut.lsn)
            folder.delete()
            with folder.draft() as draft:
                for resource in names:
                    resource_type, name = self._catalog.resource_types.split(resource)
                    captured = cut.captured.get(resource)
                    if captured is not None and resource_type.maintenance.audited(captured):
                        resource_type.maintenance.write_lists(draft, name, captured)
                draft.publish({"kind": "audit", "lsn": cut.lsn})

        try:
            await _in_thread(write)
        except (OSError, LogUnavailable, StorageAway) as error:
            raise JobFailed(f"the lists cannot be written: {_reason(error)}") from error

    async def _check_log(self, report: Report) -> Checked:
        """Compare all rows of the log with their checksums."""
        stop = threading.Event()

        def progress(done: int, of: int) -> None:
            if stop.is_set():
                raise _Stopped
            report(done / max(1, of), "checking the log")

        try:
            return await _in_thread(lambda: self._stores.log.check(progress), stop)
        except LogUnavailable as error:
            raise JobFailed(str(error)) from error

    async def _audit(self, lsn: int, resource: str, report: Report) -> Outcome:
        """Compare every list of a resource with the one that Spark computes."""
        try:
            result = await self._on_spark(self._maintenance_of(resource).spark_audit, lsn, resource, report)
        except JobFailed as failed:
            if "differences" not in failed.detail:
                raise
            result = failed.detail
        found = [{"resource": resource, "kind": "list", **difference} for difference in result["differences"]]
        return Outcome(int(result["compared"]), int(result["difference_count"]), found)


def _check_failed(cut: ConsistentCut, names: list[str], detail: dict[str, Any]) -> None:
    """Raise JobFailed where resources that were asked for have failed, once the others are done."""
    failed = [name for name in names if name in cut.failed]
    if failed:
        raise JobFailed(
            f"{', '.join(failed)} failed on a command and cannot be rebuilt yet", detail | {"failed": failed}
        )


async def _verify(maintenance: IndexMaintenance, resource: str, captured: Any, report: Report) -> Outcome:
    compared = count = 0
    found: list[dict[str, Any]] = []
    stop = threading.Event()

    def run() -> None:
        nonlocal compared, count
        for checked in maintenance.verify(captured):
            compared += checked.compared
            count += checked.wrong
            shown = checked.differences[: SHOWN - len(found)]
            found.extend({"resource": resource, **difference._asdict()} for difference in shown)
            report(compared / max(1, checked.of), f"comparing the lists of {resource}")
            if stop.is_set():
                break

    await _in_thread(run, stop)
    return Outcome(compared, count, found)


def _part(report: Report, lo: float, hi: float) -> Report:
    """A report of a part of the work, from `lo` to `hi` of the whole."""

    def part(fraction: float, step: str, /) -> None:
        report(lo + (hi - lo) * fraction, step)

    return part


class _Stopped(Exception):
    """Work in a thread ended early because its job was cancelled."""


def _until(stop: threading.Event, items: Iterable[T]) -> Iterator[T]:
    """The items, up to the moment that the job is cancelled; raises `_Stopped` then."""
    for item in items:
        if stop.is_set():
            raise _Stopped
        yield item


async def _in_thread(work: Callable[[], T], stop: threading.Event | None = None) -> T:
    """Run `work` in a thread of low priority. A cancellation sets `stop`, and is raised once the work has ended:
    nothing goes on behind a job that has ended.
    """
    return await _to_end(in_background(work), stop)


async def _to_end(work: Awaitable[T], stop: threading.Event | None = None) -> T:
    """Await work that must not be left half-way: a cancellation is raised once it has ended, a second one at once."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if stop is not None:
            stop.set()
        await asyncio.wait([task])
        if not task.cancelled():
            # Whatever it ended with: the job is cancelled.
            task.exception()
        raise


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 3)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
