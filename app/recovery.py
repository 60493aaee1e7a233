"""Start-up: the newest good snapshot, the images that belong to it, and the log after it."""

from __future__ import annotations

import time
from collections.abc import Callable

from app import logs
from app.storage.catalog import Catalog
from app.storage.log import LogUnavailable
from app.storage.snapshots import Snapshots
from app.writer import Writer

log = logs.get("recovery")


def recover(
    snapshots: Snapshots,
    catalog: Catalog,
    writer: Writer,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Bring all resources to the end of the log; returns the row of the snapshot that it began from, 0 for none.

    What each part took is logged. A damaged snapshot or image is reported and the one before, or the snapshot itself,
    is used.

    Raises:
        LogUnavailable: the log cannot be read, lacks rows that no good snapshot makes up for, or ends before one; it or
            the snapshot has a kind of resource that this version does not know.
    """
    began = time.perf_counter()
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
            began = time.perf_counter()
            kind, _ = catalog.kinds.split(resource)
            image = snapshots.packed(lsn, resource)
            indexes = "laid out anew" if image is None else "mapped"
            engine = kind.engine_of(snapshot.states.pop(resource), image)
            catalog.restore(resource, engine, 0)
            taken = {**kind.sizes(engine), "indexes": indexes, "seconds": _since(began)}
            log.info(f"{kind.noun} taken up", resource=resource, **taken)
        for resource, seq in snapshot.gone.items():
            catalog.restore(resource, None, seq)
    began = time.perf_counter()
    rows = writer.recover(progress, lsn)
    log.info("log replayed", rows=rows, resources=len(catalog.names()), seconds=_since(began))
    for resource in catalog.names():
        began = time.perf_counter()
        kind, _ = catalog.kinds.split(resource)
        if kind.ready(catalog.engine(resource)):
            log.info(f"{kind.noun} ready", resource=resource, seconds=_since(began))
    return lsn


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 3)
