"""A data directory made from a snapshot: a history of its own, which begins at the snapshot's row."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.errors import LogUnavailable
from app.storage import Stores, open_stores
from app.storage.directory import EPOCH, RESTORING, DirectoryUnusable, sync_folder, write_durably
from app.storage.lockfile import Taken, take
from app.storage.rows import StoredAnswer
from app.storage.snapshots import read_answers, read_keys, read_webhooks
from formats.folder import Damaged, Folder, is_inside

PIECE = 4 << 20


class RestoreFailed(Exception):
    """The snapshot cannot be restored; the message says why."""


def restore(
    snapshot: str,
    data: Path,
    database: str | None = None,
    progress: Callable[[float, str], None] = lambda fraction, step: None,
    storage: str | None = None,
) -> dict[str, Any]:
    """Make a data directory, and fill an empty database, from the folder of a snapshot.

    The snapshot is copied below `storage` (the data directory if left out) under a fresh epoch. What a restore into
    this directory that was cut off has left, there, in the database and in the storage, is deleted first. Return what
    was restored. Raises `RestoreFailed`.
    """
    data = data.absolute()
    try:
        source = Folder.at(snapshot)
        progress(0.0, "checking the snapshot")
        about = source.verify()
        if about.get("kind") != "snapshot":
            raise RestoreFailed(f"{source} is no snapshot")
        if type(about.get("lsn")) is not int or about["lsn"] < 0 or not all(map(is_inside, about.get("resources", ()))):
            raise RestoreFailed(f"{source} is no snapshot: its manifest names a row or resource that there cannot be")
        if about.get("behind"):
            lacking = ", ".join(f"{name} (see the snapshot at row {row})" for name, row in about["behind"].items())
            raise RestoreFailed(f"{source} lacks resources that had failed: {lacking}. Restore another one")
        _make_empty(data)
        stores = open_stores(data, database, restoring=True)
    except (Damaged, DirectoryUnusable, LogUnavailable, ValueError, OSError) as error:
        raise RestoreFailed(str(error)) from error
    try:
        if stores.log.restored_epoch != stores.directory.epoch and (stores.log.last_lsn or stores.keys.all()):
            raise RestoreFailed(f"the database {stores.log.database.name} is not empty")
        stores.keys.clear()
        stores.webhooks.clear()
        stores.log.clear(stores.directory.epoch)
        _fill(stores, source, about, Folder.at(storage or data), progress)
        (data / RESTORING).unlink()
        sync_folder(data)
    except (Damaged, LogUnavailable, ValueError, OSError) as error:
        raise RestoreFailed(f"{error}; {data} is not whole") from error
    finally:
        stores.close()
    return {"lsn": about["lsn"], "resources": sorted(about["resources"]), "epoch": stores.directory.epoch}


def _names_job(answer: StoredAnswer) -> bool:
    """Whether a request was answered with a job, which lives as long as its process: here the number is another's."""
    return bool(json.loads(answer.answer).keys() == {"job"})


def _make_empty(data: Path) -> None:
    """An empty data directory that is being restored; what is lost of one is at most another restore.

    Its epoch is kept in the file that says so: by that what the other restore left elsewhere is known again.
    """
    epoch = secrets.token_hex(8)
    if (data / RESTORING).exists():
        epoch = (data / RESTORING).read_text(errors="replace").strip() or epoch
        try:
            lock = take(data / "lock")
        except Taken as taken:
            raise RestoreFailed(f"the data directory {data} is in use by another process{taken.by}") from None
        try:
            for path in data.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name not in (RESTORING, "lock"):
                    path.unlink()
        finally:
            os.close(lock)
    elif data.exists() and any(data.iterdir()):
        raise RestoreFailed(f"{data} is not empty; restore into a new directory")
    data.mkdir(parents=True, exist_ok=True)
    write_durably(data / RESTORING, epoch + "\n")
    write_durably(data / EPOCH, epoch + "\n")


def _fill(
    stores: Stores, source: Folder, about: dict[str, Any], root: Folder, progress: Callable[[float, str], None]
) -> None:
    lsn, epoch = int(about["lsn"]), stores.directory.epoch
    target = root / "snapshots" / str(lsn)
    if target.whole:
        if target.manifest().get("epoch") != epoch:
            raise RestoreFailed(f"{target} is there already; name an empty place with --storage")
        target.delete()
    for kind in ("images", "audits"):
        # Whatever lies there is of a history that had a snapshot at this row once.
        (root / kind / str(lsn)).delete()
    with target.draft() as draft:
        for i, (name, file) in enumerate(about["files"].items()):
            progress(0.1 + 0.7 * i / len(about["files"]), f"copying {name}")
            known = {key: value for key, value in file.items() if key not in ("bytes", "sha256")}
            with source.open(name) as piece, draft.file(name, **known) as out:
                while data := piece.read_buffer(PIECE):
                    out.write(data)
        progress(0.8, "storing keys, answers and webhooks")
        # Answers belong to rows: where the log is repaired, those beyond its last row go.
        stores.log.start_at(lsn, epoch)
        stores.keys.add_many(read_keys(source))
        stores.webhooks.add_many(read_webhooks(source))
        stores.log.add_answers(answer for answer in read_answers(source) if not _names_job(answer))
        fields = {key: value for key, value in about.items() if key not in ("format", "files")}
        draft.publish({**fields, "epoch": epoch})
    progress(1.0, "restored")
