"""Snapshots and images below one storage root: writing them, choosing one to start from, letting old ones go.

    snapshots/<lsn>/                     all resources, keys, kept answers and webhooks after row <lsn> of the log
    images/<lsn>/<resource>/             a resource's indexes, packed from that snapshot
    audits/<lsn>/                        the lists of boards at that row, for Spark to compare

A folder counts once its manifest is there (`formats.folder`). Folders of another history than ours (`epoch`) are never
used and never deleted.

A snapshot may lack resources that had failed when it was taken: `behind` says for each after which row of the log it
begins, from the snapshot at that row (0: with the log). That snapshot, and the log after it, stay as long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from app.resources.base import ResourceTypes, UnknownResourceType
from app.runtime import logs
from app.storage.keys import KeyRow
from app.storage.rows import StoredAnswer
from app.storage.webhooks import PositionRow, StoredWebhook, WebhookRow
from formats.columns import parquet_file
from formats.folder import LACKING, Damaged, Draft, Folder, is_inside

FOLDERS = ("snapshots", "images", "audits")

KEYS = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("scopes", pa.string()),
        ("hash", pa.binary()),
        ("created_at", pa.float64()),
        ("expires_at", pa.float64()),
        ("version", pa.int32()),
    ]
)
FIRST_KEYS = pa.schema([field for field in KEYS if field.name not in ("expires_at", "version")])
"""The same in snapshots of earlier versions, whose keys never expire and mean what they meant."""

ANSWERS = pa.schema(
    [
        ("scope", pa.string()),
        ("key", pa.string()),
        ("request_hash", pa.binary()),
        ("lsn", pa.int64()),
        ("status", pa.int32()),
        ("answer", pa.binary()),
        ("complete", pa.bool_()),
        ("created_at", pa.float64()),
    ]
)

WEBHOOKS = pa.schema(
    [
        ("name", pa.string()),
        ("made", pa.string()),
        ("url", pa.string()),
        ("resource", pa.string()),
        ("batch", pa.int32()),
        ("secret", pa.string()),
        ("created_at", pa.float64()),
        ("state", pa.string()),
        ("ids", pa.list_(pa.string())),
    ]
)
"""How far they are is about one history, and a snapshot is restored into another."""

BATCH = 10_000
"""Answers that are written at once."""

log = logs.get("snapshots")


class Snapshot(NamedTuple):
    """A snapshot that was read: the states of resources, the seq that deleted ones would go on with, and the row after
    which those begin that it lacks.
    """

    lsn: int
    states: dict[str, Any]
    gone: dict[str, int]
    behind: dict[str, int]


class Snapshots:
    """All that is kept below a storage root, for the history of one epoch. Resources go by their whole names."""

    def __init__(self, root: Folder, epoch: str, resource_types: ResourceTypes) -> None:
        self.root = root
        self.epoch = epoch
        self._resource_types = resource_types
        self._damaged: set[int] = set()

    def folder(self, lsn: int) -> Folder:
        """The place of a snapshot."""
        return self.root / "snapshots" / str(lsn)

    def image(self, lsn: int, resource: str) -> Folder:
        """The place of a resource's image."""
        return self.root / "images" / str(lsn) / resource

    def audit(self, lsn: int) -> Folder:
        """The place of the lists of resources and of how they differ."""
        return self.root / "audits" / str(lsn)

    def lsns(self) -> list[int]:
        """The rows of the log at which there are whole snapshots, newest first; damaged ones are among them."""
        return [lsn for lsn in self._numbers("snapshots") if self.folder(lsn).whole]

    def write(
        self,
        lsn: int,
        states: Iterable[tuple[str, Any]],
        gone: Mapping[str, int],
        keys: Iterable[KeyRow],
        answers: Iterator[StoredAnswer],
        behind: Mapping[str, int] | None = None,
        webhooks: Iterable[StoredWebhook] = (),
    ) -> int:
        """Write a snapshot and read it back; return its size in bytes. States are taken one at a time; `behind` are
        the resources that it lacks.

        Raises `Damaged` when what was written cannot be read, and OSError; nothing is left of it then.
        """
        with self.folder(lsn).draft() as draft:
            fields = {"behind": dict(sorted(behind.items())), "format": LACKING} if behind else {}
            self._fill(draft, lsn, states, keys, answers, webhooks, {"gone": dict(sorted(gone.items())), **fields})
            self.folder(lsn).verify()
        self._damaged.discard(lsn)
        return draft.bytes

    def _fill(
        self,
        draft: Draft,
        lsn: int,
        states: Iterable[tuple[str, Any]],
        keys: Iterable[KeyRow],
        answers: Iterator[StoredAnswer],
        webhooks: Iterable[StoredWebhook],
        fields: dict[str, Any],
    ) -> None:
        resources = {}
        for resource, state in states:
            resource_type, name = self._resource_types.split(resource)
            resources[resource] = resource_type.write_state(draft, name, state)
        rows = [{**key._asdict(), "scopes": json.dumps(key.scopes)} for key in keys]
        with draft.file("keys.parquet", rows=len(rows)) as out:
            pq.write_table(pa.Table.from_pylist(rows, KEYS), out)
        _write_answers(draft, answers)
        _write_webhooks(draft, webhooks)
        draft.publish(
            {
                "kind": "snapshot",
                "lsn": lsn,
                "epoch": self.epoch,
                "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "resources": resources,
                **fields,
            }
        )

    def is_good(self, lsn: int) -> bool:
        """Whether a snapshot is there, ours, and what its manifest says.

        A damaged one is deleted, a foreign one stays in the way.
        """
        if not self.folder(lsn).whole or self._foreign(lsn):
            return False
        try:
            self.folder(lsn).verify()
        except Damaged as error:
            log.error("snapshot damaged", lsn=lsn, error=str(error))
            self.folder(lsn).delete()
            return False
        return True

    def behind(self, lsn: int) -> dict[str, int]:
        """The resources that a snapshot lacks, and the row after which each begins. Raises `Damaged`."""
        return _rows_by_name(self.folder(lsn).manifest().get("behind", {}))

    def base(self, resource: str, until: int) -> int:
        """The row after which a resource without a state begins in a log that ends at `until`: that of the newest
        snapshot, unless this lacks the resource too; 0 without one.
        """
        for lsn in self.lsns():
            if lsn > until or lsn in self._damaged:
                continue
            with suppress(Damaged):
                self._ours(self.folder(lsn).manifest())
                return self.behind(lsn).get(resource, lsn)
        return 0

    def size(self, lsn: int) -> int:
        """The bytes of a snapshot. Raises `Damaged`."""
        return sum(about["bytes"] for about in self.folder(lsn).manifest()["files"].values())

    def newest(self, since: int, until: int, only: str | None = None) -> Snapshot | None:
        """The newest good snapshot from a log that holds the rows from `since` + 1 to `until`; None if there is none.
        `only` as in `read`: the newest that does not lack this resource.

        What is wrong with the ones passed over is logged. Raises `UnknownResourceType`.
        """
        for lsn in self.lsns():
            if not since <= lsn <= until:
                log.warning("snapshot passed over", lsn=lsn, why=f"the log holds the rows from {since + 1} to {until}")
                continue
            try:
                if only is None or only not in self.behind(lsn):
                    return self.read(lsn, only)
            except Damaged as error:
                self._damaged.add(lsn)
                log.error("snapshot damaged", lsn=lsn, error=str(error))
        return None

    def beyond(self, last_lsn: int) -> int | None:
        """The row of a snapshot of ours after the last one of the log, None if there is none."""
        for lsn in self.lsns():
            if lsn > last_lsn:
                with suppress(Damaged):
                    self._ours(self.folder(lsn).manifest())
                    return lsn
        return None

    def read(self, lsn: int, only: str | None = None) -> Snapshot:
        """A snapshot, with `only` the state of this resource alone. Raises `Damaged`, and `UnknownResourceType` where a
        newer version wrote it.
        """
        folder = self.folder(lsn)
        about = self._ours(folder.verify())
        states = {}
        try:
            for resource, fields in about["resources"].items():
                if not is_inside(resource):
                    raise ValueError(f"it names the resource {resource!r}")
                if only is not None and resource != only:
                    continue
                resource_type, name = self._resource_types.split(resource)
                states[resource] = resource_type.read_state(folder, name, fields)
            for resource in about["gone"]:
                self._resource_types.split(resource)
            gone = {resource: int(seq) for resource, seq in about["gone"].items()}
            behind = _rows_by_name(about.get("behind", {}))
            for resource in behind:
                self._resource_types.split(resource)
        except UnknownResourceType as error:
            raise UnknownResourceType(f"the snapshot {folder}: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Damaged(f"{folder} is no snapshot: {error}") from error
        return Snapshot(lsn, states, gone, behind)

    def packed(self, lsn: int, resource: str) -> Any | None:
        """The image of a resource, mapped; None if there is none or it is damaged, which is logged."""
        folder = self.image(lsn, resource)
        if not folder.whole:
            return None
        try:
            about = folder.manifest()
            if (about["kind"], about["lsn"], about["resource"]) != ("image", lsn, resource):
                raise Damaged(f"{folder} is the image of {about['resource']} at row {about['lsn']}")
            resource_type, _ = self._resource_types.split(resource)
            return resource_type.maintenance.read_image(folder)
        except Damaged as error:
            log.error("image damaged", resource=resource, lsn=lsn, error=str(error))
            return None

    def retire(self, keep: int, until: int) -> int:
        """Delete all but the newest `keep` good snapshots of a log that ends at `until`, and what belongs to others.

        Return the row from which on the log is needed: that of the oldest that is kept.

        Those that lack a resource do not count: of them as many stay besides, where they are newer, and what those
        resources begin from.
        While there are fewer than `keep` good ones, none of them is deleted and the whole log is needed (0): each start
        that is lost must have another one behind it. Each is read and compared with its manifest. One from beyond the
        log's end is no start for this log: it is left alone and does not count. Nor does one that is damaged, which
        goes once it is older than those that are kept. O(bytes of the kept ones).
        """
        kept: list[int] = []
        lacking: list[int] = []
        older: list[int] = []
        bases: set[int] = set()
        for lsn in self.lsns():
            if lsn > until or lsn in self._damaged:
                continue
            try:
                behind = self.behind(lsn)
                some = lacking if behind else kept
                stays = max(len(some), len(kept)) < keep or lsn in bases
                self._ours(self.folder(lsn).verify() if stays else self.folder(lsn).manifest())
            except Damaged as error:
                log.error("snapshot damaged", lsn=lsn, error=str(error))
                continue
            (some if stays else older).append(lsn)
            if stays:
                bases.update(behind.values())
        whole = len(kept) >= keep and bases <= {0, *kept, *lacking}
        oldest = min(kept + lacking) if whole else 0
        for lsn in older:
            if whole or self.behind(lsn):
                self.folder(lsn).delete()
        if not whole:
            return 0
        for part in FOLDERS:
            for lsn in self._numbers(part):
                if lsn < oldest and not self._foreign(lsn):
                    (self.root / part / str(lsn)).delete()
        return min(oldest, *bases) if bases else oldest

    def _foreign(self, lsn: int) -> bool:
        """Whether a snapshot at that row is of another history, so that what lies beside it is too."""
        try:
            return self.folder(lsn).whole and bool(self.folder(lsn).manifest()["epoch"] != self.epoch)
        except Damaged:
            return False

    def _ours(self, about: dict[str, Any]) -> dict[str, Any]:
        if about.get("epoch") != self.epoch:
            raise Damaged(f"it is of another history: epoch {about.get('epoch')} in place of {self.epoch}")
        return about

    def _numbers(self, part: str) -> list[int]:
        names = (self.root / part).names()
        return sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)


def _rows_by_name(behind: Any) -> dict[str, int]:
    """The rows of a manifest by resource. Raises `Damaged`."""
    good = isinstance(behind, dict) and all(type(row) is int and row >= 0 for row in behind.values())
    if not good or not all(map(is_inside, behind)):
        raise Damaged("its manifest names rows or resources that there cannot be")
    return dict(behind)


def read_keys(folder: Folder) -> list[KeyRow]:
    """The keys in a snapshot. Raises `Damaged`."""
    rows = _rows(folder, "keys.parquet", KEYS, FIRST_KEYS)
    return [KeyRow(**{**row, "scopes": tuple(json.loads(row["scopes"]))}) for row in rows]


def read_answers(folder: Folder) -> Iterator[StoredAnswer]:
    """The kept answers in a snapshot, some at a time. Raises `Damaged`."""
    return (StoredAnswer(**row) for row in _rows(folder, "answers.parquet", ANSWERS))


def read_webhooks(folder: Folder) -> list[StoredWebhook]:
    """The webhooks in a snapshot, each to go on with `reset`. Raises `Damaged`."""
    name = "webhooks.parquet"
    if name not in folder.manifest()["files"]:
        # There were none, or an earlier version wrote it.
        return []
    found = []
    for row in _rows(folder, name, WEBHOOKS):
        ids = row.pop("ids")
        found.append((WebhookRow(**row), [PositionRow(row["name"], id, "lost", -1) for id in ids]))
    return found


def _rows(folder: Folder, name: str, *schemas: pa.Schema) -> Iterator[dict[str, Any]]:
    """The rows of a file, which has one of these schemas."""
    try:
        with folder.open(name) as file:
            for batch in pq.ParquetFile(file).iter_batches(BATCH):
                schema = next((one for one in schemas if one.names == batch.schema.names), schemas[0])
                yield from batch.cast(schema).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {error}") from error


def _write_answers(draft: Draft, answers: Iterator[StoredAnswer]) -> None:
    with parquet_file(draft, "answers.parquet") as out, pq.ParquetWriter(out, ANSWERS, compression="zstd") as writer:
        some: list[dict[str, Any]] = []
        for answer in answers:
            some.append(answer._asdict())
            if len(some) == BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(some, ANSWERS))
                some.clear()
        writer.write_batch(pa.RecordBatch.from_pylist(some, ANSWERS))


def _write_webhooks(draft: Draft, webhooks: Iterable[StoredWebhook]) -> None:
    rows = [{**row._asdict(), "ids": [one.id for one in positions]} for row, positions in webhooks]
    kept = [{name: row[name] for name in WEBHOOKS.names} for row in rows]
    if not kept:
        return
    with draft.file("webhooks.parquet", rows=len(kept)) as out:
        pq.write_table(pa.Table.from_pylist(kept, WEBHOOKS), out)
