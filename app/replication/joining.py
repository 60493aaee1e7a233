"""How a data directory becomes a replica's: by the leader's newest snapshot, file by file, and the log from there on.

Files are fetched into the folder ``JOINING`` of the data directory, each goes on where it was cut off, and is compared
with its checksum. Only when all are there they take the place of what the directory had, which `RESTORING` guards as
it does in a restore.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from app.errors import DatabaseFailed, LogTaken, LogUnavailable
from app.replication.nodes import SECONDS, Status, headers_of, leader_of, status_of
from app.runtime import logs
from app.settings import Settings
from app.storage import Stores, open_stores
from app.storage.directory import EPOCH, RESTORING, DirectoryUnusable, make_private, sync_folder, write_durably
from app.storage.lease import LeaseHeld
from app.storage.lockfile import Taken, take
from app.storage.log_end import LogEnd
from app.storage.role import FILE as ROLE
from app.storage.role import LEADER, REJOIN, REPLICA, Role, read_role, write_role
from app.storage.shared_log import Sharing, lease_of
from app.storage.snapshots import read_answers, read_keys, read_webhooks
from formats.folder import MANIFEST, Damaged, Folder, is_inside

STAGING = "JOINING"

ASIDE = "aside"
"""The folder of rows that were never answered: see `app.replication.aside`."""

PIECE = 1 << 20

AGAIN = 1.0
"""Seconds between two looks for a leader, and between two tries to fetch."""

READ_SECONDS = 30.0
"""Seconds without a byte after which a file is asked for again."""

log = logs.get("replication")


class JoinFailed(Exception):
    """The data directory cannot become a replica's; the message says why, and what to do."""


class Cancelled(Exception):
    """The service ends."""


class _Outdated(Exception):
    """What is being fetched is no longer there."""


class Manifest(NamedTuple):
    """What a replica begins from: the row, its checksum, the term, how often rows were given up, and the folders of
    files by their place below the storage root, each with the text of its manifest.
    """

    epoch: str
    lsn: int
    checksum: bytes
    term: int
    cuts: int
    folders: dict[str, str]


def take_role(settings: Settings, cancelled: Callable[[], bool]) -> Role:
    """Find out whether this data directory leads or follows, and for a follower's that holds nothing yet, or was given
    up, take the leader's snapshot. In a thread, before the directory is opened.

    Raises `JoinFailed`, `Cancelled`, OSError.
    """
    data, own = settings.data.absolute(), read_role(settings.data)
    urls = list(dict.fromkeys(url.rstrip("/") for url in (*settings.follow, *settings.peers)))
    key = None if settings.key is None else settings.key.get_secret_value()
    if not urls:
        if own.role == REPLICA:
            raise JoinFailed(
                f"the data directory {data} is a replica's: name the other nodes by --follow or RANKCAST_PEERS. If "
                f"none of them is left, delete its file {ROLE}, and it is a service of its own"
            )
        return own
    epoch = _epoch_of(data)
    with httpx.Client(headers=headers_of(key), timeout=SECONDS, trust_env=False) as http:
        whole = epoch is not None and not (data / REJOIN).exists() and not (data / RESTORING).exists()
        leader = leader_of([one for one in _statuses(http, urls) if one.node != own.node], epoch)
        if settings.shares_log:
            own = _shared_role(settings, own, epoch, whole)
            if own.role == LEADER:
                return _stored(data, own)
        elif own.role == LEADER or (own.role is None and not settings.follow):
            if leader is None or leader.rank <= (own.term, own.node):
                return _stored(data, own._replace(role=LEADER))
            log.warning("another node leads with a higher term: this one follows", url=leader.url, term=leader.term)
        elif own.role is None and epoch is not None and not (data / RESTORING).exists():
            raise _has_history(data)
        own = own._replace(role=REPLICA)
        if whole:
            return _stored(data, own)
        while True:
            leader = _find_leader(http, urls, own, epoch, cancelled)
            try:
                manifest = _fetch(http, leader, data, cancelled)
                break
            except (httpx.HTTPError, _Outdated, Damaged, ValueError) as error:
                log.warning("the snapshot is not here yet", url=leader.url, error=str(error) or type(error).__name__)
                _pause(AGAIN, cancelled)
        return _install(settings, data, manifest, own)


def open_in_group(settings: Settings, cancelled: Callable[[], bool]) -> tuple[Stores, Role]:
    """Find out the role of the data directory, and open what it has in that role. In a thread.

    A node that has had a role waits for a shared database that cannot be reached, as it waits for the other nodes: it
    may have restarted because of that. At the first start this is an error, since the URL may be wrong. Where another
    node takes the lease meanwhile, which ends this one's connection, the role is found out once more.

    Raises as `take_role` and `open_stores`.
    """
    knows_database = settings.shares_log and read_role(settings.data).role is not None
    while True:
        try:
            role = take_role(settings, cancelled)
            sharing = None
            if settings.shares_log:
                sharing = Sharing(role.node, role.term, settings.lease_seconds, role.role == LEADER)
            stores = open_stores(
                settings.data, settings.database, accept_log_end=settings.accept_log_end, sharing=sharing
            )
        except LeaseHeld as held:
            log.warning("another node was quicker to lead", why=str(held))
            _pause(AGAIN, cancelled)
            continue
        except (DatabaseFailed, LogTaken) as error:
            if not knows_database:
                raise
            log.warning("waiting for the database", why=str(error))
            _pause(AGAIN, cancelled)
            continue
        if cancelled():
            stores.close()
            raise Cancelled
        return stores, role


def _shared_role(settings: Settings, own: Role, epoch: str | None, whole: bool) -> Role:
    """As the lease says: who had it last leads, where its directory is `whole`, and the others follow. Raises
    `JoinFailed` and `LogUnavailable`.
    """
    lease = lease_of(settings.database or "")
    mine = own.role == LEADER or (own.role is None and not settings.follow)
    if (lease.node == own.node and whole) if lease is not None else mine:
        return own._replace(role=LEADER, term=max(own.term, 0 if lease is None else lease.term))
    if own.role is None and epoch is not None and whole and settings.follow:
        raise _has_history(settings.data)
    return own._replace(role=REPLICA)


def _stored(data: Path, role: Role) -> Role:
    if read_role(data) != role:
        write_role(data, role)
    return role


def _has_history(data: Path) -> JoinFailed:
    return JoinFailed(
        f"the data directory {data} has a history of its own, and a replica's begins as its leader's: start it with an "
        "empty directory"
    )


def _epoch_of(data: Path) -> str | None:
    try:
        return (data / EPOCH).read_text().strip() or None
    except FileNotFoundError:
        return None


def _statuses(http: httpx.Client, urls: list[str]) -> list[Status]:
    found = []
    for url in urls:
        try:
            status = status_of(url, http.get(f"{url}/readyz"))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            continue
        if status is not None:
            found.append(status)
    return found


def _find_leader(
    http: httpx.Client, urls: list[str], own: Role, epoch: str | None, cancelled: Callable[[], bool]
) -> Status:
    said = 0.0
    while True:
        statuses = [one for one in _statuses(http, urls) if one.node != own.node]
        leader = leader_of(statuses, epoch, own.term)
        if leader is not None:
            return leader
        if time.monotonic() - said > 10.0:
            said = time.monotonic()
            log.warning("no leader is found yet", urls=urls, term=own.term)
        _pause(AGAIN, cancelled)


def _pause(seconds: float, cancelled: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if cancelled():
            raise Cancelled
        time.sleep(0.05)


# --- fetching ---------------------------------------------------------------------------------------------------------


def _fetch(http: httpx.Client, leader: Status, data: Path, cancelled: Callable[[], bool]) -> Manifest:
    """Fetch the leader's newest snapshot, with what is there of it already; returns what it is."""
    began = time.monotonic()
    answer = http.get(f"{leader.url}/v1/admin/snapshots/newest", timeout=READ_SECONDS)
    if answer.status_code != 200:
        raise ValueError(f"{leader.url} answers {answer.status_code}: {answer.text[:300]}")
    manifest = _manifest(answer.json())
    staging = data / STAGING
    make_private(data)
    keep = f"{manifest.epoch}/{manifest.lsn}"
    if staging.exists() and _kept(staging) != keep:
        shutil.rmtree(staging)
    staging.mkdir(exist_ok=True)
    write_durably(staging / "OF", keep + "\n")
    total = done = 0
    files = [
        (folder, name, about)
        for folder, text in manifest.folders.items()
        for name, about in json.loads(text)["files"].items()
    ]
    total = sum(int(about["bytes"]) for _, _, about in files)
    log.info("a snapshot is taken", url=leader.url, lsn=manifest.lsn, files=len(files), bytes=total)
    for folder, name, about in files:
        target = staging / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        url = f"{leader.url}/v1/admin/snapshots/{manifest.lsn}/file?name={quote(f'{folder}/{name}', safe='')}"
        done += _file(http, url, target, int(about["bytes"]), str(about["sha256"]), cancelled)
    for folder, text in manifest.folders.items():
        (staging / folder / MANIFEST).write_text(text)
    log.info("the snapshot is here", lsn=manifest.lsn, fetched=done, seconds=round(time.monotonic() - began, 3))
    return manifest


def _kept(staging: Path) -> str | None:
    try:
        return (staging / "OF").read_text().strip()
    except FileNotFoundError:
        return None


def _file(http: httpx.Client, url: str, target: Path, size: int, sha256: str, cancelled: Callable[[], bool]) -> int:
    """Fetch a file, from where it was cut off; returns how many bytes came. Raises `_Outdated` and `Damaged`."""
    came = 0
    with target.open("ab") as out:
        while out.tell() < size:
            if cancelled():
                raise Cancelled
            begin = out.tell()
            headers = {"Range": f"bytes={begin}-"} if begin else {}
            with http.stream("GET", url, headers=headers, timeout=READ_SECONDS) as answer:
                if answer.status_code in (404, 416):
                    raise _Outdated(f"{url} is not there any more")
                if answer.status_code not in (200, 206) or (begin and answer.status_code != 206):
                    raise httpx.RemoteProtocolError(f"{url} answers {answer.status_code}")
                for piece in answer.iter_raw(PIECE):
                    if cancelled():
                        raise Cancelled
                    if out.tell() + len(piece) > size:
                        raise Damaged(f"{url} is longer than its manifest says")
                    out.write(piece)
                    came += len(piece)
            if out.tell() == begin:
                raise httpx.RemoteProtocolError(f"{url} ends at byte {begin} of {size}")
        out.flush()
        os.fsync(out.fileno())
    digest = hashlib.sha256()
    with target.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    if target.stat().st_size != size or digest.hexdigest() != sha256:
        target.unlink()
        raise Damaged(f"{url} is damaged: its SHA-256 differs")
    return came


def _manifest(found: Any) -> Manifest:
    """Raises ValueError for what is none."""
    try:
        manifest = Manifest(
            str(found["epoch"]),
            int(found["lsn"]),
            bytes.fromhex(found["checksum"]),
            int(found["term"]),
            int(found["cuts"]),
            {str(folder): str(text) for folder, text in found["folders"].items()},
        )
        for folder, text in manifest.folders.items():
            about = json.loads(text)
            lsn = folder.split("/")[1]
            inside = is_inside(folder) and folder.startswith(("snapshots/", "images/")) and lsn == str(manifest.lsn)
            if not inside or not all(is_inside(name) and name != MANIFEST for name in about["files"]):
                raise ValueError(f"it names {folder!r}")
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(f"what the leader says of its snapshot cannot be read: {error}") from error
    if not (manifest.epoch.isascii() and manifest.epoch.isalnum()):
        raise ValueError("what the leader says of its snapshot has no epoch")
    return manifest


# --- taking the place of what was there -------------------------------------------------------------------------------


def _install(settings: Settings, data: Path, manifest: Manifest, own: Role) -> Role:
    """Let a snapshot that was fetched take the place of all that the data directory has."""
    write_durably(data / RESTORING, manifest.epoch + "\n")
    try:
        lock = take(data / "lock")
    except Taken as taken:
        raise JoinFailed(f"the data directory {data} is in use by another process{taken.by}") from None
    try:
        for path in data.iterdir():
            if path.name in (RESTORING, STAGING, ASIDE, ROLE, "lock"):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    finally:
        os.close(lock)
    write_durably(data / EPOCH, manifest.epoch + "\n")
    shared = settings.shares_log
    if manifest.cuts or shared:
        end = LogEnd(data)
        end.cuts = manifest.cuts
        end.note(manifest.lsn if shared else 0, manifest.checksum if shared else b"")
        end.close()
    root = Folder.at(settings.storage or data)
    if shared:
        # The rest is in the database, and not this node's alone.
        try:
            _drop_others(root, manifest.epoch)
            _place(data / STAGING, root, manifest)
        except (Damaged, ValueError, OSError) as error:
            raise JoinFailed(f"{error}; {data} is not whole") from error
        return _joined(data, manifest, own)
    try:
        stores = open_stores(data, settings.database, restoring=True)
    except (DirectoryUnusable, LogUnavailable) as error:
        raise JoinFailed(str(error)) from error
    try:
        stores.keys.clear()
        stores.webhooks.clear()
        stores.log.clear(manifest.epoch)
        _drop_others(root, manifest.epoch)
        _place(data / STAGING, root, manifest)
        stores.log.start_at(manifest.lsn, manifest.epoch, manifest.checksum)
        source = Folder.at(data / STAGING) / f"snapshots/{manifest.lsn}"
        if manifest.folders:
            stores.keys.add_many(read_keys(source))
            stores.webhooks.add_many(read_webhooks(source))
            stores.log.add_answers(read_answers(source))
    except (Damaged, LogUnavailable, ValueError, OSError) as error:
        raise JoinFailed(f"{error}; {data} is not whole") from error
    finally:
        stores.close()
    return _joined(data, manifest, own)


def _joined(data: Path, manifest: Manifest, own: Role) -> Role:
    """The data directory is a replica's."""
    role = own._replace(role=REPLICA, term=max(own.term, manifest.term))
    write_role(data, role)
    shutil.rmtree(data / STAGING)
    (data / RESTORING).unlink()
    sync_folder(data)
    log.info("joined", epoch=manifest.epoch, lsn=manifest.lsn, term=role.term)
    return role


def _drop_others(root: Folder, epoch: str) -> None:
    """Delete the snapshots of this history that a storage elsewhere has: their rows may be others than the leader's."""
    for name in (root / "snapshots").names():
        folder = root / "snapshots" / name
        try:
            ours = not folder.whole or folder.manifest().get("epoch") == epoch
        except Damaged:
            ours = True
        for part in ("snapshots", "images", "audits") if ours else ():
            (root / part / name).delete()


def _place(staging: Path, root: Folder, manifest: Manifest) -> None:
    """Write the fetched folders below the storage root, each with its manifest last."""
    for folder in manifest.folders:
        source, target = Folder.at(staging) / folder, root / folder
        about = source.verify()
        target.delete()
        with target.draft() as draft:
            for name, file in about["files"].items():
                known = {key: value for key, value in file.items() if key not in ("bytes", "sha256")}
                with source.open(name) as piece, draft.file(name, **known) as out:
                    while some := piece.read_buffer(PIECE):
                        out.write(some)
            draft.publish({key: value for key, value in about.items() if key != "files"})
