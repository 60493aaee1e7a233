"""Where lists of a feed on Spark go at the ends of batches: files, and a service that takes them over HTTP.

A row has (batch, subscription) for its key. A batch that is done again, after everything was killed, says the same
lists in the same order under the same keys: a file takes the place of the one that it is, and a service knows a request
again by its Idempotency-Key.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from formats.folder import Folder
from spark_jobs.feed_front import Row

SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("subscription", pa.string()),
        ("lsn", pa.int64()),
        ("list", pa.list_(pa.struct([("id", pa.string()), ("score", pa.float64())]))),
    ]
)

_LISTS = 1_000
"""Lists of one request."""

_TRIES = 5


class Undelivered(Exception):
    """A service did not take lists; the message is one sentence."""


class Sink(Protocol):
    """One place."""

    def write(self, batch: int, lsn: int, rows: Sequence[Row]) -> None:
        """The lists of a batch that ends with this row of the log, those that may be others than before. Done again, it
        changes nothing."""


class Files:
    """A Parquet file a batch in a folder."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def write(self, batch: int, lsn: int, rows: Sequence[Row]) -> None:
        """Whole or not at all."""
        system, path = self.folder.system, self.folder.path
        system.create_dir(path, recursive=True)
        rows = sorted(rows)
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
    Idempotency-Key of its own; what fails for a moment is tried again."""

    def __init__(self, url: str, key: str | None = None, seconds: float = 30.0, wait: float = 1.0) -> None:
        self.url = url
        self._key = key
        self._seconds = seconds
        self._wait = wait

    def write(self, batch: int, lsn: int, rows: Sequence[Row]) -> None:
        """Raises `Undelivered` when the service refuses it, or cannot be reached for long."""
        rows = sorted(rows)
        for first in range(0, len(rows), _LISTS):
            lists = [
                {"subscription": id, "list": [{"id": p, "score": s} for p, s in zip(posts, scores, strict=True)]}
                for id, posts, scores in rows[first : first + _LISTS]
            ]
            self._send({"batch": batch, "lsn": lsn, "lists": lists}, f"feed-stream-{batch}-{first}")

    def _send(self, body: object, key: str) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers, method="POST")
        for left in reversed(range(_TRIES)):
            try:
                with urllib.request.urlopen(request, timeout=self._seconds):
                    return
            except urllib.error.HTTPError as error:
                if (error.code < 500 and error.code != 429) or not left:
                    raise Undelivered(f"{self.url} answers {error.code} to lists") from error
            except OSError as error:
                if not left:
                    raise Undelivered(f"{self.url} cannot be reached: {error}") from error
            time.sleep(self._wait)
