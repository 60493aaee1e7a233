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
) -> int:
    """Bring all resources to the end of the log; return the row of the snapshot it started from, 0 for none.

    The duration of each part is logged. A damaged snapshot or image is reported, and the snapshot before it, or the
    snapshot itself, is used instead; so is what is wrong with the storage `root`, and what it lacks.

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
    snapshot = snapshots.newest(writer.pruned_through, writer.last_lsn)
    lsn = 0
    if snapshot is not None:
        lsn = snapshot.lsn
        log.info("snapshot read", lsn=lsn, resources=len(snapshot.states), seconds=_since(began))
        for resource in sorted(snapshot.states):
            _take_up(snapshots, catalog, snapshot, resource)
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


def _take_up(snapshots: Snapshots, catalog: Catalog, snapshot: Snapshot, resource: str) -> None:
    """Restore a resource from the state of a snapshot, which is taken out of it."""
    began = time.perf_counter()
    resource_type, _ = catalog.resource_types.split(resource)
    image = snapshots.packed(snapshot.lsn, resource)
    indexes = "laid out again" if image is None else "mapped"
    engine = resource_type.engine_of(snapshot.states.pop(resource), image)
    catalog.restore(resource, engine, 0)
    taken = {**resource_type.sizes(engine), "indexes": indexes, "seconds": _since(began)}
    log.info(f"{resource_type.noun} taken up", resource=resource, **taken)


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
