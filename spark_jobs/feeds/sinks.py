"""Sinks for the lists of a feed on Spark at the ends of batches: files, and requests over HTTP. `board` has another.

The key of a row is (batch, subscription). A batch that is repeated, after everything was killed, has the same lists in
the same order under the same keys: a file is replaced, and a service recognizes a request by its Idempotency-Key.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from formats.folder import Folder
from spark_jobs.feeds.front import Gone, Row
from spark_jobs.feeds.sending import Sender

SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("subscription", pa.string()),
        ("lsn", pa.int64()),
        ("list", pa.list_(pa.struct([("id", pa.string()), ("score", pa.float64())]))),
    ]
)

BEFORE = -1
"""The number of the batch with the lists before the first batch of a stream."""

_LISTS = 1_000
"""Lists of one request."""


class Sink(Protocol):
    """A destination of lists."""

    def write(self, batch: int, lsn: int, rows: Sequence[Row], gone: Sequence[Gone]) -> None:
        """Write the lists that may have changed in a batch, which ends with this row of the log, and the subscriptions
        that were removed. Idempotent."""


class Files:
    """A Parquet file a batch in a folder."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def write(self, batch: int, lsn: int, rows: Sequence[Row], gone: Sequence[Gone]) -> None:
        """As `Sink.write`, atomically."""
        system, path = self.folder.system, self.folder.path
        system.create_dir(path, recursive=True)
        rows = sorted(rows, key=lambda row: row.subscription)
        end = [0]
        for row in rows:
            end.append(end[-1] + len(row.posts))
        entries = pa.StructArray.from_arrays(
            [
                pa.array([id for row in rows for id in row.posts], pa.string()),
                pa.array([score for row in rows for score in row.scores], pa.float64()),
            ],
            fields=list(SCHEMA.field("list").type.value_type),
        )
        table = pa.table(
            [
                pa.array([batch] * len(rows), pa.int64()),
                pa.array([row.subscription for row in rows], pa.string()),
                pa.array([lsn] * len(rows), pa.int64()),
                pa.ListArray.from_arrays(pa.array(end, pa.int32()), entries).cast(SCHEMA.field("list").type),
            ],
            schema=SCHEMA,
        )
        draft = f"{path}/.{uuid.uuid4().hex}.new"
        with system.open_output_stream(draft) as out:
            pq.write_table(table, out)
        system.move(draft, f"{path}/batch-{batch:010}.parquet")


class Http:
    """Requests `POST url` with {"batch", "lsn", "lists": [{"subscription", "list": [{"id", "score"}]}]}, each under an
    Idempotency-Key of its own."""

    def __init__(self, url: str, sender: Sender) -> None:
        self.url = url
        self._sender = sender

    def write(self, batch: int, lsn: int, rows: Sequence[Row], gone: Sequence[Gone]) -> None:
        """As `Sink.write`. Raises `Undelivered` if the service refuses a request, or cannot be reached."""
        rows = sorted(rows, key=lambda row: row.subscription)
        for first in range(0, len(rows), _LISTS):
            lists = [
                {
                    "subscription": row.subscription,
                    "list": [{"id": p, "score": s} for p, s in zip(row.posts, row.scores, strict=True)],
                }
                for row in rows[first : first + _LISTS]
            ]
            body = {"batch": batch, "lsn": lsn, "lists": lists}
            self._sender.send("POST", self.url, body, once=f"feed-stream-{batch}-{first}")
