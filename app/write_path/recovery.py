"""Start-up: the newest good snapshot, its images, and the log after it."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.errors import LogUnavailable
from app.resources.base import ResourceTypes
from app.runtime import logs
from app.storage.log import Log
from app.storage.root import StorageRoot
from app.storage.snapshots import Snapshot, Snapshots
from app.write_path.catalog import Catalog, Entry
from app.write_path.read_ahead import ReadAhead, TakenUp, taken_up
from app.write_path.replay import replay
from app.write_path.writer import Writer
from formats.folder import MANIFEST

log = logs.get("recovery")


def recover(
    snapshots: Snapshots,
    catalog: Catalog,
    writer: Writer,
    progress: Callable[[int, int], None] = lambda done, total: None,
    root: StorageRoot | None = None,
    ahead: ReadAhead | None = None,
) -> int:
    """Bring all resources to the end of the log; return the row of the snapshot it started from, 0 for none.

    The duration of each part is logged. A damaged snapshot or image is reported, and the snapshot before it, or the
    snapshot itself, is used instead; so is what is wrong with the storage `root`, and what it lacks. `ahead` is reading
    the newest snapshot already.

    Raises:
        LogUnavailable: the log cannot be read, lacks rows that no good snapshot makes up for, or ends before one; it or
            the snapshot has an unknown resource type.
    """
    began = time.perf_counter()
    away = None if root is None else _report_losses(snapshots, root)
    beyond = snapshots.beyond(writer.last_lsn)
    if beyond is not None:
        raise LogUnavailable(
            f"the log ends at row {writer.last_lsn}, although there is a snapshot of this history after row {beyond}: "
            "its database is another one, or has lost rows. Put it back, or restore the snapshot into a new directory"
        )
    found = None if ahead is None else ahead.take(writer.pruned_through, writer.last_lsn)
    snapshot = snapshots.newest(writer.pruned_through, writer.last_lsn) if found is None else found.snapshot
    lsn = 0
    if snapshot is not None:
        lsn, taken = snapshot.lsn, {} if found is None else found.resources
        seconds = _since(began) if found is None else round(found.seconds, 3)
        log.info("snapshot read", lsn=lsn, resources=len(snapshot.states) + len(taken), seconds=seconds)
        for resource in sorted([*snapshot.states, *taken]):
            _take_up(snapshots, catalog, snapshot, resource, taken.get(resource))
        for resource, seq in snapshot.gone.items():
            catalog.restore(resource, None, seq)
    behind: dict[str, int] = {}
    for resource in sorted(snapshot.behind if snapshot is not None else ()):
        earlier = snapshots.newest(writer.pruned_through, lsn, resource)
        behind[resource] = earlier.lsn if earlier is not None else 0
        log.warning("resource lacking in the snapshot", resource=resource, lsn=lsn, since=behind[resource])
        if earlier is not None and resource in earlier.states:
            _take_up(snapshots, catalog, earlier, resource)
        elif earlier is not None and resource in earlier.gone:
            catalog.restore(resource, None, earlier.gone[resource])
    began = time.perf_counter()
    try:
        rows = writer.recover(progress, lsn, behind)
    except LogUnavailable as error:
        raise error if away is None else LogUnavailable(f"{error}. {away}") from error
    log.info("log replayed", rows=rows, resources=len(catalog.names()), seconds=_since(began))
    for resource in catalog.names():
        began = time.perf_counter()
        resource_type, _ = catalog.resource_types.split(resource)
        if resource_type.ready(catalog.engine(resource)):
            log.info(f"{resource_type.noun} ready", resource=resource, seconds=_since(began))
    return lsn


def _take_up(
    snapshots: Snapshots, catalog: Catalog, snapshot: Snapshot, resource: str, taken: TakenUp | None = None
) -> None:
    """Restore a resource from the state of a snapshot, where it was not `taken` from it already."""
    taken = taken or taken_up(snapshots, catalog.resource_types, snapshot, resource)
    resource_type, _ = catalog.resource_types.split(resource)
    catalog.restore(resource, taken.engine, 0)
    about = {"indexes": "mapped" if taken.mapped else "laid out again", "seconds": round(taken.seconds, 3)}
    log.info(f"{resource_type.noun} taken up", resource=resource, **resource_type.sizes(taken.engine), **about)


def _report_losses(snapshots: Snapshots, root: StorageRoot) -> str | None:
    """Report what the storage root lacks; return what is wrong with the root itself."""
    try:
        away = root.fault()
    except OSError as error:
        away = f"the storage root cannot be read: {error}"
    if away is not None:
        log.error("storage root away", why=away)
        return away
    there = set(snapshots.lsns())
    for lsn in root.expected():
        if lsn not in there:
            folder = snapshots.folder(lsn)
            lost = f"{folder}/{MANIFEST} is missing" if folder.exists else f"{folder} is missing"
            log.error("snapshot damaged", lsn=lsn, error=lost)
    return None


def rebuilt(snapshots: Snapshots, resource_types: ResourceTypes, log_store: Log, resource: str) -> Entry:
    """A resource at the end of the log, from the newest good snapshot and the rows after it. Reads only.

    Raises LogUnavailable: as `recover`.
    """
    catalog = Catalog(resource_types)
    snapshot = snapshots.newest(log_store.pruned_through, log_store.last_lsn, resource)
    lsn = 0
    if snapshot is not None:
        lsn = snapshot.lsn
        if resource in snapshot.states:
            resource_type, _ = resource_types.split(resource)
            image = snapshots.packed(lsn, resource)
            catalog.restore(resource, resource_type.engine_of(snapshot.states.pop(resource), image), 0)
        elif resource in snapshot.gone:
            catalog.restore(resource, None, snapshot.gone[resource])
    replay(log_store, catalog, lsn, only=resource)
    entry = catalog.entry(resource)
    if entry.engine is not None:
        entry.resource_type.ready(entry.engine)
    return entry


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 3)
