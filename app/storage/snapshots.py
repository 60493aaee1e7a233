"""Snapshots and images below one storage root: writing them, choosing one to start from, letting old ones go.

    snapshots/<lsn>/                     all resources, the keys and the kept answers after row <lsn> of the log
    images/<lsn>/<resource>/             a resource's indexes, packed from that snapshot
    audits/<lsn>/                        the lists of boards at that row, for Spark to compare

A folder counts once its manifest is there (`formats.folder`). Folders of another history than ours (`epoch`) are never
used and never deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from app import logs
from app.kinds import Kinds, UnknownKind
from app.storage.keys import KeyRow
from app.storage.log import StoredAnswer
from formats.folder import Damaged, Draft, Folder

FOLDERS = ("snapshots", "images", "audits")

KEYS = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("scopes", pa.string()),
        ("hash", pa.binary()),
        ("created_at", pa.float64()),
    ]
)
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

BATCH = 10_000
"""Answers that are written at once."""

log = logs.get("snapshots")


class Snapshot(NamedTuple):
    """A snapshot that was read: the states of resources, and the seq that deleted ones would go on with."""

    lsn: int
    states: dict[str, Any]
    gone: dict[str, int]


class Snapshots:
    """All that is kept below a storage root, for the history of one epoch. Resources go by their whole names."""

    def __init__(self, root: Folder, epoch: str, kinds: Kinds) -> None:
        self.root = root
        self.epoch = epoch
        self._kinds = kinds
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
    ) -> int:
        """Write a snapshot and read it back; returns its size in bytes. States are taken one at a time.

        Raises `Damaged` when what was written cannot be read, and OSError; nothing is left of it then.
        """
        with self.folder(lsn).draft() as draft:
            self._fill(draft, lsn, states, gone, keys, answers)
            self.folder(lsn).verify()
        self._damaged.discard(lsn)
        return draft.bytes

    def _fill(
        self,
        draft: Draft,
        lsn: int,
        states: Iterable[tuple[str, Any]],
        gone: Mapping[str, int],
        keys: Iterable[KeyRow],
        answers: Iterator[StoredAnswer],
    ) -> None:
        resources = {}
        for resource, state in states:
            kind, name = self._kinds.split(resource)
            resources[resource] = kind.write_state(draft, name, state)
        rows = [{**key._asdict(), "scopes": json.dumps(key.scopes)} for key in keys]
        with draft.file("keys.parquet", rows=len(rows)) as out:
            pq.write_table(pa.Table.from_pylist(rows, KEYS), out)
        _write_answers(draft, answers)
        draft.publish(
            {
                "kind": "snapshot",
                "lsn": lsn,
                "epoch": self.epoch,
                "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "resources": resources,
                "gone": dict(sorted(gone.items())),
            }
        )

    def is_good(self, lsn: int) -> bool:
        """Whether a snapshot is there, ours, and what its manifest says. A damaged one is deleted, a foreign one stays
        in the way."""
        if not self.folder(lsn).whole or self._foreign(lsn):
            return False
        try:
            self.folder(lsn).verify()
        except Damaged as error:
            log.error("snapshot damaged", lsn=lsn, error=str(error))
            self.folder(lsn).delete()
            return False
        return True

    def size(self, lsn: int) -> int:
        """The bytes of a snapshot. Raises `Damaged`."""
        return sum(about["bytes"] for about in self.folder(lsn).manifest()["files"].values())

    def newest(self, since: int, until: int) -> Snapshot | None:
        """The newest good snapshot from a log that holds the rows from `since` + 1 to `until`; None if there is none.

        What is wrong with the ones passed over is logged. Raises `UnknownKind`.
        """
        for lsn in self.lsns():
            if not since <= lsn <= until:
                log.warning("snapshot passed over", lsn=lsn, why=f"the log holds the rows from {since + 1} to {until}")
                continue
            try:
                return self.read(lsn)
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

    def read(self, lsn: int) -> Snapshot:
        """A snapshot. Raises `Damaged`, and `UnknownKind` where it is of a version that has more kinds of resource."""
        folder = self.folder(lsn)
        about = self._ours(folder.verify())
        states = {}
        try:
            for resource, fields in about["resources"].items():
                kind, name = self._kinds.split(resource)
                states[resource] = kind.read_state(folder, name, fields)
            for resource in about["gone"]:
                self._kinds.split(resource)
            gone = {resource: int(seq) for resource, seq in about["gone"].items()}
        except UnknownKind as error:
            raise UnknownKind(f"the snapshot {folder}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Damaged(f"{folder} is no snapshot: {error}") from error
        return Snapshot(lsn, states, gone)

    def packed(self, lsn: int, resource: str) -> Any | None:
        """The image of a resource, mapped; None if there is none or it is damaged, which is logged."""
        folder = self.image(lsn, resource)
        if not folder.whole:
            return None
        try:
            about = folder.manifest()
            if (about["kind"], about["lsn"], about["resource"]) != ("image", lsn, resource):
                raise Damaged(f"{folder} is the image of {about['resource']} at row {about['lsn']}")
            kind, _ = self._kinds.split(resource)
            return kind.upkeep.read_image(folder)
        except Damaged as error:
            log.error("image damaged", resource=resource, lsn=lsn, error=str(error))
            return None

    def retire(self, keep: int, until: int) -> int:
        """Delete all but the newest `keep` snapshots of a log that ends at `until`, and what belongs to the others.
        Returns the row from which on the log is needed: that of the oldest that is kept, 0 if there are none.

        One from beyond the log's end is no start for this log: it is left alone and does not count. Nor does one that
        was found damaged, which goes once it is older than those.
        """
        kept: list[int] = []
        for lsn in self.lsns():
            if lsn > until or lsn in self._damaged:
                continue
            try:
                self._ours(self.folder(lsn).manifest())
            except Damaged as error:
                log.error("snapshot damaged", lsn=lsn, error=str(error))
                continue
            if len(kept) < keep:
                kept.append(lsn)
            else:
                self.folder(lsn).delete()
        oldest = min(kept, default=0)
        for part in FOLDERS:
            for lsn in self._numbers(part):
                if lsn < oldest and not self._foreign(lsn):
                    (self.root / part / str(lsn)).delete()
        return oldest

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


def read_keys(folder: Folder) -> list[KeyRow]:
    """The keys in a snapshot. Raises `Damaged`."""
    rows = _rows(folder, "keys.parquet", KEYS)
    return [KeyRow(**{**row, "scopes": tuple(json.loads(row["scopes"]))}) for row in rows]


def read_answers(folder: Folder) -> Iterator[StoredAnswer]:
    """The kept answers in a snapshot, some at a time. Raises `Damaged`."""
    return (StoredAnswer(**row) for row in _rows(folder, "answers.parquet", ANSWERS))


def _rows(folder: Folder, name: str, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    try:
        with folder.open(name) as file:
            for batch in pq.ParquetFile(file).iter_batches(BATCH):
                yield from batch.cast(schema).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {error}") from error


def _write_answers(draft: Draft, answers: Iterator[StoredAnswer]) -> None:
    with draft.file("answers.parquet") as out, pq.ParquetWriter(out, ANSWERS, compression="zstd") as writer:
        some: list[dict[str, Any]] = []
        for answer in answers:
            some.append(answer._asdict())
            if len(some) == BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(some, ANSWERS))
                some.clear()
        writer.write_batch(pa.RecordBatch.from_pylist(some, ANSWERS))
