"""The input of a feed on Spark, as a data source of Spark: the service's log, or a folder of posts.

Rows are (lsn, command, payload), in order of lsn. A log has these rows, and an offset is {"lsn": n}. Of a folder of
Parquet or NDJSON files, to which files are only added last in order of name, rows are pieces of the files as Arrow
streams, with the command "posts" and consecutive lsns; an offset is {"lsn": pieces, "file": name, "row": rows read of
it}.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from formats.folder import Folder
from spark_jobs.feeds.log import LogReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "rankcast-feed"

POSTS = "posts"
"""The command of rows that are posts of a folder."""

SUFFIXES = (".parquet", ".ndjson", ".json", ".jsonl")

Offset = dict[str, Any]


class FeedSource(DataSource):
    """Options: `log` (the URL of a database), `resource` and `after` (an lsn), or `posts` (a folder); and `rows`, the
    greatest number of commands, or posts, of a batch."""

    @classmethod
    def name(cls) -> str:
        """The name of the source in Spark."""
        return NAME

    def schema(self) -> str:
        """As `LogRow`."""
        return "lsn bigint, command string, payload binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of the log or of the folder."""
        options = {key.lower(): value for key, value in self.options.items()}
        return LogStream(options) if "log" in options else FolderStream(options)


class Span(InputPartition):
    """The rows between two offsets."""

    def __init__(self, start: Offset, end: Offset) -> None:
        super().__init__(0)
        self.start, self.end = start, end


class _Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Batches of so many rows; under Spark's trigger "available now", up to those present at the start."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.most = int(options.get("rows", 1_000))
        self.last: Offset | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """The requested number of rows."""
        return ReadMaxRows(self.most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of a batch that begins at `start`, with at most the requested rows under any trigger."""
        return self.next(start)

    def next(self, start: Offset) -> Offset:
        """The end of a batch of `most` rows that begins at `start`."""
        raise NotImplementedError

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """One partition: rows are in order."""
        return [Span(start, end)] if start != end else []


class LogStream(_Stream):
    """The log of a service."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.reader = LogReader(options["log"])
        self.resource = options["resource"]
        self.after = int(options.get("after", 0))

    def initialOffset(self) -> Offset:
        """After the row in the options."""
        return {"lsn": self.after}

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the present last row."""
        self.last = {"lsn": self.reader.end()}

    def next(self, start: Offset) -> Offset:
        """As `_Stream.next`, by commands."""
        until = self.reader.end_of(self.resource, start["lsn"], self.most)
        return {"lsn": max(start["lsn"], until if self.last is None else min(until, self.last["lsn"]))}

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, bytes]]:
        """The rows."""
        assert isinstance(partition, Span)
        for row in self.reader.rows(self.resource, partition.start["lsn"], partition.end["lsn"]):
            yield row.lsn, row.command, row.payload


class FolderStream(_Stream):
    """A folder of posts."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.place = options["posts"]

    def initialOffset(self) -> Offset:
        """Before all posts."""
        return {"lsn": 0, "file": "", "row": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the present last file."""
        names = self._names("")
        self.last = {"file": names[-1] if names else ""}

    def next(self, start: Offset) -> Offset:
        """As `_Stream.next`, by posts, over any number of files."""
        file, row, left = start["file"], start["row"], self.most
        folder = Folder.at(self.place)
        for name in self._names(file):
            if self.last is not None and name > self.last["file"]:
                break
            first = row if name == file else 0
            taken = min(left, _rows(folder, name) - first)
            if taken > 0:
                file, row, left = name, first + taken, left - taken
            if not left:
                break
        return {"lsn": start["lsn"] + 1, "file": file, "row": row} if left < self.most else start

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, bytes]]:
        """The posts, in a row for each file."""
        assert isinstance(partition, Span)
        start, end, folder = partition.start, partition.end, Folder.at(self.place)
        for name in self._names(start["file"]):
            if name > end["file"]:
                break
            table = _read(folder, name)
            first = start["row"] if name == start["file"] else 0
            until = end["row"] if name == end["file"] else len(table)
            if until > first:
                yield end["lsn"], POSTS, to_bytes(table.slice(first, until - first))

    def _names(self, since: str) -> list[str]:
        return [name for name in Folder.at(self.place).names() if name >= since and name.endswith(SUFFIXES)]


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _rows(folder: Folder, name: str) -> int:
    if not name.endswith(".parquet"):
        return len(_read(folder, name))
    with folder.open(name) as file:
        return int(pq.read_metadata(file).num_rows)


def _read(folder: Folder, name: str) -> pa.Table:
    with folder.open(name) as file:
        return pq.read_table(file) if name.endswith(".parquet") else pj.read_json(file)
