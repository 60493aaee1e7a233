"""Start-up: the newest good snapshot, the images that belong to it, and the log after it."""

from __future__ import annotations

import time
from collections.abc import Callable

from app import logs
from app.storage.catalog import Catalog
from app.storage.log import LogUnavailable
from app.storage.snapshots import Snapshots
from app.writer import Writer
from formats.boards import RESOURCE
from indexes.boards.state import board_of, pack_board

log = logs.get("recovery")


def recover(
    snapshots: Snapshots,
    catalog: Catalog,
    writer: Writer,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Bring all boards to the end of the log; returns the row of the snapshot that it began from, 0 for none.

    What each part took is logged. A damaged snapshot or image is reported and the one before, or the snapshot itself,
    is used.

    Raises:
        LogUnavailable: the log cannot be read, lacks rows that no good snapshot makes up for, or ends before one.
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
        log.info("snapshot read", lsn=lsn, boards=len(snapshot.boards), seconds=_since(began))
        for name in sorted(snapshot.boards):
            began = time.perf_counter()
            state = snapshot.boards.pop(name)
            packed = snapshots.packed(lsn, RESOURCE + name)
            found = packed is not None
            if packed is None:
                packed = pack_board(state)
            board = board_of(state, packed)
            catalog.restore(name, board, 0)
            log.info(
                "board taken up",
                board=name,
                seq=board.seq,
                objects=board.object_count,
                subscriptions=board.subscription_count,
                indexes="mapped" if found else "laid out anew",
                seconds=_since(began),
            )
        for name, seq in snapshot.gone.items():
            catalog.restore(name, None, seq)
    began = time.perf_counter()
    rows = writer.recover(progress, lsn)
    log.info("log replayed", rows=rows, boards=len(catalog.names()), seconds=_since(began))
    return lsn


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 3)
