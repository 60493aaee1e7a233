"""The input of a board on Spark, as a data source of Spark: the service's log, or a folder of events.

As the source of a feed (`spark_jobs.feeds.source`), with the seqs of each row of the log; rows of a folder have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from spark_jobs.feeds.source import FolderStream, LogStream, Span

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "rankcast-board"

EVENTS = "events-table"
"""The command of rows that are events of a folder, as an Arrow stream."""


class BoardSource(DataSource):
    """Options: `log` (the URL of a database), `resource` and `after` (an lsn), or `posts` (a folder of events); and
    `rows`, the greatest number of commands, or events, of a batch."""

    @classmethod
    def name(cls) -> str:
        """The name of the source in Spark."""
        return NAME

    def schema(self) -> str:
        """As `CommandRow`."""
        return "lsn bigint, first_seq bigint, last_seq bigint, command string, payload binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of the log or of the folder."""
        options = {key.lower(): value for key, value in self.options.items()}
        return BoardLogStream(options) if "log" in options else BoardFolderStream(options)


class BoardLogStream(LogStream):
    """The log of a service."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows."""
        assert isinstance(partition, Span)
        for row in self.reader.rows(self.resource, partition.start["lsn"], partition.end["lsn"]):
            yield row.lsn, row.first_seq, row.last_seq, row.command, row.payload


class BoardFolderStream(FolderStream):
    """A folder of events."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The events, in a row for each file."""
        for lsn, _, payload in super().read(partition):
            yield lsn, 0, 0, EVENTS, payload
