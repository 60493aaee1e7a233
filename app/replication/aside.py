"""Rows that were never answered, or only here: kept aside when a leader that came back finds another history.

Rows that both histories have are found by their checksums, which are chained: where a row is the same, so are all rows
before it. The others are written into a file of lines of JSON below the folder ``aside`` of the data directory.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from app.runtime import logs
from app.storage.directory import sync_folder
from app.storage.log import Log

FOLDER = "aside"

log = logs.get("replication")


async def common_row(store: Log, there: Callable[[int], Awaitable[bytes | None]]) -> int:
    """The last row that this log has in common with another one, of which `there` gives the checksums; as far back as
    both reach. O(log rows) questions.
    """
    low, high = store.pruned_through, store.last_lsn
    while low < high:
        middle = (low + high + 1) // 2
        found = await there(middle)
        if found is not None and found == store.checksum_at(middle):
            low = middle
        else:
            high = middle - 1
    return low


def keep_aside(store: Log, data: Path, after: int) -> Path | None:
    """Write the rows after one into a file; returns its path, None where there are none. Raises `LogUnavailable` and
    OSError.
    """
    if after >= store.last_lsn:
        return None
    folder = data / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{after + 1}-{store.last_lsn}-{int(time.time())}.jsonl"
    with path.open("x") as out:
        os.chmod(path, 0o600)
        for row, _ in store.copies(after, store.last_lsn):
            payload = base64.b64encode(row.payload).decode()
            out.write(json.dumps({**row._asdict(), "payload": payload}) + "\n")
        out.flush()
        os.fsync(out.fileno())
    sync_folder(folder)
    log.warning(
        "rows that the leader does not have are kept aside", file=str(path), first=after + 1, last=store.last_lsn
    )
    return path
