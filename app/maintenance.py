"""What keeps a service that runs for months fit: snapshots, rebuilds of its indexes, and checking them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from app import logs, spark
from app.jobs import JobFailed, Report
from app.metrics import Metrics
from app.settings import Settings
from app.storage import Stores
from app.storage.catalog import Catalog
from app.storage.log import LogUnavailable
from app.storage.snapshots import Snapshots
from app.writer import Failed, Standstill, Writer
from formats.boards import RESOURCE, read_image, write_image, write_lists
from formats.folder import Damaged
from indexes.boards.commands import Refused
from indexes.boards.packing import to_forest
from indexes.boards.state import BoardState, pack_board, state_of
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.upkeep import Captured
from indexes.boards.verify import Difference, all_lists, verify

T = TypeVar("T")

SHOWN = 100
"""Differences that a job's detail lists."""

log = logs.get("maintenance")


class Outcome(NamedTuple):
    """How many lists of a board were compared, how many differences were found, and the first of them."""

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
        boards = ((name, self._catalog.board(name)) for name in self._catalog.names())
        return [
            RESOURCE + name
            for name, board in boards
            if board is not None and board.subscription_count >= least and board.worn > share
        ]

    async def snapshot(self, report: Report) -> dict[str, Any]:
        """Write a snapshot of everything and let old ones go: ``{"lsn", "bytes", "seconds"}``."""
        began = time.perf_counter()
        still = await self._stand_still(report)
        states = await _states(still)
        size = await self._write(still, states, _part(report, 0.1, 0.9))
        return {"lsn": still.lsn, "bytes": size, "seconds": _since(began)}

    async def rebuild(self, report: Report, resources: list[str] | None, engine: str) -> dict[str, Any]:
        """Take a snapshot, pack the indexes of boards from it, and put them in place of those in use:
        ``{"engine", "rows", "seconds", "swap_seconds"}``."""
        began = time.perf_counter()
        names = self._names(resources)
        rows, pauses = 0, []
        try:
            still = await self._stand_still(report, journal=names)
            states = await _states(still)
            await self._write(still, states, _part(report, 0.02, 0.2))
            for i, name in enumerate(names):
                if name not in states:
                    continue
                part = _part(report, 0.2 + 0.7 * i / len(names), 0.2 + 0.7 * (i + 1) / len(names))
                state = states.pop(name)
                rows += len(state.subscriptions.l) + len(state.objects.id)
                await self._pack(still.lsn, name, state, engine, part)
                pauses.append(await self._swap(still.lsn, name, state.subscription_rows))
        finally:
            for name in names:
                board = self._catalog.board(name)
                if board is not None:
                    board.subscribers.touched = None
        return {"engine": engine, "rows": rows, "seconds": _since(began), "swap_seconds": max(pauses, default=0.0)}

    async def verify(self, report: Report, resources: list[str] | None, engine: str) -> dict[str, Any]:
        """Compare every list and every index of boards with a scan, here or on Spark:
        ``{"compared", "differences"}``. Any difference is a failure."""
        names = self._names(resources)
        still = await self._stand_still(report, indexes=names)
        compared, count = 0, 0
        found: list[dict[str, Any]] = []
        if engine == "spark":
            await self._write(still, await _states(still), _part(report, 0.02, 0.1))
            await self._write_lists(still, names)
        for i, name in enumerate(n for n in names if n in still.boards):
            part = _part(report, 0.1 + 0.9 * i / len(names), 0.1 + 0.9 * (i + 1) / len(names))
            captured = still.boards.pop(name)
            how = self._audit(still.lsn, name, part) if engine == "spark" else _verify(name, captured, part)
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
        return [resource.removeprefix(RESOURCE) for resource in dict.fromkeys(resources)]

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

    async def _write(self, still: Standstill, states: dict[str, BoardState], report: Report) -> int:
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

    async def _pack(self, lsn: int, name: str, state: BoardState, engine: str, report: Report) -> None:
        """Write a board's image."""
        resource = RESOURCE + name
        report(0.0, f"packing {resource}")
        try:
            if engine == "spark":
                await self._on_spark("boards", lsn, resource, report)
            else:
                packed = await _aside(lambda: pack_board(state))
                image = self.snapshots.image(lsn, resource)
                await _aside(image.delete)
                await _aside(lambda: write_image(image, resource, lsn, packed))
        except OSError as error:
            raise JobFailed(f"the image of {resource} cannot be written: {_reason(error)}") from error

    async def _on_spark(self, module: str, lsn: int, resource: str, report: Report) -> dict[str, Any]:
        """Run one of Spark's jobs for a resource of a snapshot; returns what it said at its end."""
        # Another process has another working directory.
        storage = str(self.snapshots.root.local or self._settings.storage)
        arguments = ["--storage", storage, "--lsn", str(lsn), "--resource", resource]
        return await spark.run(self._settings, module, arguments, report)

    async def _swap(self, lsn: int, name: str, sids: int) -> float:
        """Put a board's image in place of its indexes, with what has changed since; returns the seconds of the last
        step."""
        resource = RESOURCE + name

        def load() -> SubscriptionIndex:
            packed = read_image(self.snapshots.image(lsn, resource))
            fresh = SubscriptionIndex()
            fresh.adopt(packed.forest.ks, to_forest(packed.forest, sids))
            return fresh

        try:
            fresh = await _aside(load)
            while True:
                plan = await self._writer.maintain(name, lambda board: board.fold(fresh))
                if plan.swapped:
                    log.info("indexes swapped", board=name, lsn=lsn, seconds=round(plan.seconds, 4))
                    return round(plan.seconds, 4)
                if plan.abandoned:
                    log.info("board made anew meanwhile", board=name)
                    return 0.0
        except Damaged as error:
            raise JobFailed(f"the image of {resource} is damaged: {error}") from error
        except Refused:
            log.info("board deleted meanwhile", board=name)
            return 0.0
        except (Failed, LogUnavailable) as error:
            raise JobFailed(f"the image of {resource} cannot be put in place: {error}") from error

    async def _write_lists(self, still: Standstill, names: list[str]) -> None:
        """Write what the indexes of boards answer to every subscription."""

        def write() -> None:
            folder = self.snapshots.audit(still.lsn)
            folder.delete()
            with folder.draft() as draft:
                for name in names:
                    if name in still.boards:
                        write_lists(draft, name, all_lists(still.boards[name]))
                draft.publish({"kind": "audit", "lsn": still.lsn})

        try:
            await _aside(write)
        except OSError as error:
            raise JobFailed(f"the lists cannot be written: {_reason(error)}") from error

    async def _audit(self, lsn: int, name: str, report: Report) -> Outcome:
        """Have Spark compute every list of a board and compare it with what its index answers."""
        resource = RESOURCE + name
        try:
            told = await self._on_spark("audit", lsn, resource, report)
        except JobFailed as failed:
            if "differences" not in failed.detail:
                raise
            told = failed.detail
        found = [{"resource": resource, "kind": "list", **difference} for difference in told["differences"]]
        return Outcome(int(told["compared"]), int(told["difference_count"]), found)


async def _states(still: Standstill) -> dict[str, BoardState]:
    """What was copied, in order."""
    return await _aside(lambda: {name: state_of(captured) for name, captured in still.boards.items()})


async def _verify(name: str, captured: Captured, report: Report) -> Outcome:
    resource = RESOURCE + name
    compared = count = 0
    found: list[dict[str, Any]] = []
    stopped = False

    def run() -> None:
        nonlocal compared, count
        for checked in verify(captured):
            compared += checked.compared
            count += checked.wrong
            found.extend(_shown(resource, difference) for difference in checked.differences[: SHOWN - len(found)])
            report(compared / max(1, checked.of), f"comparing the lists of {resource}")
            if stopped:
                break

    try:
        await _aside(run)
    finally:
        # The thread itself cannot be cancelled.
        stopped = True
    return Outcome(compared, count, found)


def _shown(resource: str, difference: Difference) -> dict[str, Any]:
    return {"resource": resource, **difference._asdict()}


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
