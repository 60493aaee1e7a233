"""How a job follows a source of its own with Structured Streaming, batch by batch."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from formats.folder import Folder
from spark_jobs.common.command import Failed, spark_options, user_errors
from spark_jobs.common.session import Running, SparkFailed, session

SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.streaming.stopTimeout": "10s"}
"""What a session is started with that executes batches."""


class BatchJob(ABC):
    """A run that executes batches. `failed` is what a batch raised: Spark only keeps its text."""

    given: argparse.Namespace
    resource: str
    failed: Exception | None = None

    @abstractmethod
    def take(self, running: Running, frame: Any, batch: int) -> None:
        """Execute a batch of Spark."""

    @contextmanager
    def session(self, of_workers: type[Exception], *of_batches: type[Exception]) -> Iterator[Running]:
        """A session of Spark. Raises `Failed` for an error `of_workers`, and where a batch raised one `of_batches`."""
        name = f"Rankcast {self.resource}"
        try:
            with user_errors(of_workers), session(name, spark_options(self.given), SETTINGS) as running:
                yield running
        except SparkFailed:
            if isinstance(self.failed, of_batches):
                raise Failed(str(self.failed)) from self.failed
            raise

    def execute(self, running: Running, source: type[Any], options: dict[str, str], checkpoint: Folder) -> None:
        """Execute all available batches of a source, or continue until stopped; Spark's own checkpoint is below the
        job's.
        """
        running.spark.dataSource.register(source)
        stream = running.spark.readStream.format(source.name()).options(**options).load().writeStream

        def each(frame: Any, batch: int) -> None:
            try:
                self.take(running, frame, batch)
            except Exception as error:
                self.failed = error
                raise

        place = checkpoint / "spark"
        path = str(place) if place.local is not None else f"{self.given.checkpoint.rstrip('/')}/spark"
        stream = stream.foreachBatch(each).option("checkpointLocation", path)
        trigger = {"processingTime": "0 seconds"} if self.given.follow else {"availableNow": True}
        # A signal interrupts the wait, while Java holds the connection; a call to stop would wait for it.
        stream.trigger(**trigger).start().awaitTermination()
