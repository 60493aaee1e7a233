"""What is durable: the data directory, the log and its end, the storage root and its snapshots."""

from __future__ import annotations

import json
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from app.cli.checkup.finding import Finding, Level, Place
from app.errors import LogUnavailable
from app.storage import directory
from app.storage.database import Database
from app.storage.lockfile import holder
from app.storage.log import Checked, Log
from app.storage.log_end import LogEnd
from app.storage.ownership import FORMAT, meta_table
from app.storage.root import FILE as MARKER
from app.storage.root import KEY as ROOTS
from app.storage.rows import log_table
from formats.folder import Damaged, Folder

RESTORE = "see 'A damaged log' in docs/operations.md"


def check_stored(place: Place) -> Iterator[Finding]:
    """The findings. A directory that is not there ends them."""
    data = place.data.absolute()
    if not data.is_dir():
        yield Finding("data directory", "error", f"there is none at {data}", "name the right one with --data")
        return
    by = holder(data / "lock")
    used = "free" if by is None else f"in use{by}"
    if (data / directory.RESTORING).exists():
        yield Finding("data directory", "error", f"{data} is not whole: a restore was cut off", "restore again")
    else:
        yield Finding("data directory", "ok", f"{data}, {used}")
    yield _format(data)
    epoch = _text(data / directory.EPOCH)
    if epoch and epoch.isascii() and epoch.isalnum():
        yield Finding("epoch", "ok", epoch)
    else:
        why = "is damaged" if epoch else "is missing"
        yield Finding(
            "epoch", "error", f"the file EPOCH {why}", "write the epoch of the manifests or of the table meta into it"
        )
    yield _modes(data)
    meta: dict[str, str] = {}
    try:
        database = _opened(place, data, by is not None)
        try:
            with database.reading("the database cannot be read") as connection:
                meta = {row.key: row.value for row in connection.execute(sa.select(meta_table))}
            yield from _log(database, meta, data, epoch)
        finally:
            database.close()
    except LogUnavailable as error:
        yield Finding("log", "error", str(error), f"is the database there and reachable? Else {RESTORE}")
    yield from _storage(place, data, meta, epoch)


def _format(data: Path) -> Finding:
    text = _text(data / "FORMAT")
    if not text:
        return Finding("format", "error", "the file FORMAT is missing", "is this a data directory? Name another one")
    if not text.isdigit() or not 1 <= int(text) <= directory.FORMAT:
        advice = f"this version reads 1 to {directory.FORMAT}: use the version that wrote it"
        return Finding("format", "error", f"format {text[:20]!r}", advice)
    return Finding("format", "ok", text)


def _modes(data: Path) -> Finding:
    files = [data, *(file for file in data.iterdir() if file.name.startswith("rankcast.db"))]
    wide = [file.name for file in files if stat.S_IMODE(file.stat().st_mode) & 0o077]
    if wide:
        what = f"others may enter or read {', '.join(sorted(wide))}"
        return Finding("modes", "warning", what, "chmod 700 the directory and 600 its database; a start does so too")
    return Finding("modes", "ok", "private")


def _opened(place: Place, data: Path, in_use: bool) -> Database:
    """The database, which cannot be written through it. Raises `LogUnavailable`."""
    if place.database is not None and not place.database.startswith("sqlite"):
        named = Database.named(place.database)
        sa.event.listen(named.engine, "connect", lambda connection, _: setattr(connection, "read_only", True))
        return named
    url = sa.make_url(place.database or f"sqlite:///{data / 'rankcast.db'}")
    file = Path(url.database or "").absolute()
    if not file.exists():
        raise LogUnavailable(f"there is no database {file}")
    wal = file.with_name(file.name + "-wal")
    # A service that runs has made what SQLite needs beside the file; else nothing is to be made.
    alone = "" if in_use or (wal.exists() and wal.stat().st_size) else "&immutable=1"
    uri = f"file:{quote(str(file))}?mode=ro{alone}"
    engine = sa.create_engine(
        "sqlite+pysqlite://", creator=lambda: sqlite3.connect(uri, uri=True, timeout=10), poolclass=NullPool
    )
    return Database(engine)


def _log(database: Database, meta: dict[str, str], data: Path, epoch: str) -> Iterator[Finding]:
    found = meta.get("format", "")
    if not (found.isdigit() and 1 <= int(found) <= FORMAT):
        yield Finding("log", "error", f"its tables have format {found[:20]!r}", f"this version reads 1 to {FORMAT}")
        return
    if found == "1":
        yield Finding("log", "warning", "an older version wrote it, without checksums", "start this version once")
        return
    if epoch and meta.get("epoch") != epoch:
        theirs = f"the database has the epoch {meta.get('epoch')}, the directory {epoch}"
        yield Finding("log", "error", theirs, "name the database that belongs to this directory with --database")
    known = LogEnd(data).known  # before the database is read: it may only go on
    checked, last = _checked(database)
    if checked.faults:
        lsn, why = checked.faults[0]
        what = f"{len(checked.faults)} of {checked.rows} rows are damaged, first row {lsn}: {why}"
        yield Finding("log", "error", what, RESTORE)
    else:
        old = f", {checked.unchecked} without checksums" if checked.unchecked else ""
        yield Finding("log", "ok", f"{checked.rows} rows up to row {last} are what their checksums say{old}")
    if known is None:
        what = "LOG_END is missing or damaged: rows lost at the end would not be noticed"
        yield Finding("end of the log", "warning", what, "the next start writes it")
    elif last < known.lsn:
        what = f"the log ends at row {last}, and row {known.lsn} had been answered"
        yield Finding("end of the log", "error", what, RESTORE)
    else:
        yield Finding("end of the log", "ok", f"row {last}, answered up to row {known.lsn}")
    with database.reading("the log cannot be read") as connection:
        newest = connection.execute(sa.select(sa.func.max(log_table.c.created_at))).scalar()
    ahead = 0.0 if newest is None else newest - time.time()
    if ahead > 2.0:
        what = f"the log's newest row is {ahead:.0f} s later than the system's clock"
        yield Finding(
            "clock", "warning", what, "set the clock and keep it by NTP; time goes on from the log's until then"
        )
    else:
        yield Finding("clock", "ok", "not behind the log")


def _checked(database: Database) -> tuple[Checked, int]:
    """The check of the whole log, and the number of its last row. Raises `LogUnavailable`."""
    log = Log(database)
    with database.reading("the log cannot be read") as connection:
        last = connection.execute(sa.select(sa.func.max(log_table.c.lsn))).scalar()
    # Asked for last: a service may prune all rows between the two.
    log.last_lsn = max(last or 0, log.recall_pruned_through())
    return log.check(), log.last_lsn


def _storage(place: Place, data: Path, meta: dict[str, str], epoch: str) -> Iterator[Finding]:
    name = place.storage or str(data)
    try:
        root = Folder.at(name)
        known = json.loads(meta.get(ROOTS) or "{}").get(name)
    except (ValueError, AttributeError) as error:
        yield Finding("storage", "error", str(error), "name the storage root with --storage")
        return
    try:
        with root.open(MARKER) as file:
            marker = bytes(file.read(64)).decode(errors="replace").strip()
    except Damaged:
        marker = None
    if known is not None and marker != known["id"]:
        what = f"the storage root {root} {'lacks its' if marker is None else 'has another'} marker {MARKER}"
        yield Finding(
            "storage", "error", what, "is it mounted, was it moved? Nothing is written there until it is back"
        )
    else:
        yield Finding("storage", "ok", f"{root}{'' if known else ', not marked yet'}")
    there = sorted(int(n) for n in (root / "snapshots").names() if n.isascii() and n.isdigit())
    for lsn in known["snapshots"] if known else ():
        if lsn not in there:
            yield Finding("snapshots", "error", f"the one at row {lsn} is gone", "put it back, or take another one")
    good = 0
    for lsn in there:
        folder = root / "snapshots" / str(lsn)
        if not folder.whole:
            yield Finding(
                "snapshots", "warning", f"the one at row {lsn} has no manifest", "it is being written or counts as none"
            )
            continue
        try:
            about = folder.verify()
        except Damaged as error:
            yield Finding(
                "snapshots", "error", str(error), "take another snapshot; the log has all behind the oldest good one"
            )
            continue
        if about.get("epoch") == epoch:
            good += 1
            for name, since in about.get("behind", {}).items():
                what = f"the one at row {lsn} lacks {name}, which had failed: it begins from row {since}"
                yield Finding("snapshots", "warning", what, "see `failed` of /readyz and the log of the service")
        else:
            yield Finding("snapshots", "warning", f"the one at row {lsn} is of another history", "it is not used")
    if good:
        yield Finding("snapshots", "ok", f"{good} good")
    else:
        level: Level = "error" if int(meta.get("pruned_through") or 0) else "warning"
        what = "there is no good one, and rows of the log were deleted" if level == "error" else "there is none"
        yield Finding(
            "snapshots", level, what, "restore a backup" if level == "error" else "take one: rankcast snapshot"
        )


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
