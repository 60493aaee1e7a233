"""A feed on Spark, batch by batch: rounds are run as jobs of Spark, lists are written to a sink, and the batch commits.

A checkpoint has `states/`, with a file for each partition and version, and `fronts/`, with the driver's own state of
each batch: it is written last, atomically, and commits the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from formats.folder import Damaged, Folder
from indexes.core.sources import sources
from indexes.feeds.config import FeedConfig
from spark_jobs.common.session import Running
from spark_jobs.feeds.front import Front, Operation, Round, Row
from spark_jobs.feeds.pack import Pack, pack, read, unpack, write
from spark_jobs.feeds.sinks import Sink
from spark_jobs.feeds.tasks import LOAD, MATCH, OWN, PUBLISHED, ROWS, fields_of, state_name, table_of

KEPT = 2
"""Batches whose state is kept."""


class Unlike(Exception):
    """A checkpoint does not match; the message is one sentence."""


def made_by() -> str:
    """The version of the code that wrote a state, which lies as in memory."""
    return sources("indexes.feeds")


class FeedSteps:
    """The state of a feed after its last batch, and the execution of the next."""

    def __init__(self, checkpoint: Folder, front: Front) -> None:
        self.checkpoint = checkpoint
        self.front = front
        self.batch = -2
        """The last batch that is committed; -1 for the initial state of the stream, -2 for none."""
        self.version = 0
        self.lsn = 0
        self.now = 0
        self._held: list[tuple[int, int]] = []
        """Batches whose state is kept, and their versions."""

    @classmethod
    def open(
        cls, checkpoint: Folder, config: FeedConfig | None, mechanism: str, partitions: int, split: bool = True
    ) -> FeedSteps:
        """Continue a checkpoint, or begin one of a feed of this configuration. Raises `Unlike` if it is of another feed
        or version of the code, or there is none and no configuration."""
        fronts = checkpoint / "fronts"
        for folder in (fronts, checkpoint / "states"):
            for name in folder.names():
                if name.endswith(".new"):
                    _delete(folder, name)
        names = fronts.names()
        if not names:
            if config is None:
                raise Unlike(f"{checkpoint} holds nothing to go on from")
            return cls(checkpoint, Front(config, mechanism, partitions, split))
        about, arrays = read(fronts, names[-1])
        if about["made_by"] != made_by():
            raise Unlike(f"{checkpoint} was written by another version of the code: delete it, to start again")
        steps = cls(checkpoint, Front.thaw(Pack(about["front"], arrays)))
        front = steps.front
        for what, here, there in (
            ("feed", fields_of(front.config), fields_of(config or front.config)),
            ("mechanism", front.mechanism, mechanism),
            ("number of partitions", front.partitions, partitions),
        ):
            if here != there:
                raise Unlike(f"{checkpoint} is of another {what}: {here} in place of {there}")
        steps.batch, steps.version = about["batch"], about["version"]
        steps.lsn, steps.now = about["lsn"], about["now"]
        for name in names:
            steps._held.append((int(name.rpartition("-")[2]) - 2, read(fronts, name).about["version"]))
        return steps

    def take(
        self, running: Running, batch: int, operations: Sequence[Operation], lsn: int, now: int, sink: Sink | None
    ) -> int:
        """Execute a batch, which ends with this row of the log and at this time, unless it is committed. Returns the
        number of lists written to the sink."""
        if batch <= self.batch:
            return 0
        rows: list[Row] = []
        for round_ in self.front.rounds(operations):
            rows += self.front.done(self._run(running, round_))
            self.version += 1
        if sink is not None:
            sink.write(batch, lsn, rows, self.front.gone)
        self.batch, self.lsn, self.now = batch, lsn, now
        self._commit()
        return len(rows)

    def _run(self, running: Running, round_: Round) -> list[Pack]:
        """Run a round in all partitions; returns what they published, in their order."""
        from pyspark.sql import functions as fn

        front, states = self.front, self.checkpoint / "states"
        apart, n = front.router.apart, front.partitions
        step = states.system, states.path, self.version, n
        rows = [(p, OWN, pack(*one)) for p, one in enumerate(round_.owners)]
        rows += [(p, MATCH, pack(*one)) for p, one in enumerate(round_.matchers)]
        frame = running.spark.createDataFrame(table_of(rows), ROWS).repartitionById(n, fn.col("to"))
        if apart:
            match = running.task("spark_jobs.feeds.tasks:match", step, front.config.diagonal)
            frame = frame.mapInArrow(match, ROWS).repartitionById(n, fn.col("to"))
        own = running.task("spark_jobs.feeds.tasks:own", step, fields_of(front.config), apart)
        reports = frame.mapInArrow(own, ROWS).collect()
        published: dict[int, Pack] = {}
        loads: dict[int, dict[str, Any]] = {}
        for row in reports:
            found = unpack(memoryview(bytearray(row["payload"])))
            if row["kind"] == PUBLISHED:
                published[row["to"]] = found
            elif row["kind"] == LOAD:
                loads[row["to"]] = found.about
        for p, load in sorted(loads.items()):
            front.matched(p, load, load["hits"])
        if len(published) != n or (apart and len(loads) != n):
            raise RuntimeError(f"{len(published)} partitions of {n} published what they did")
        return [published[p] for p in range(n)]

    def _commit(self) -> None:
        """Commit the batch, and delete states that are no longer needed."""
        about, arrays = self.front.freeze()
        more = {"batch": self.batch, "version": self.version, "lsn": self.lsn, "now": self.now, "made_by": made_by()}
        write(self.checkpoint / "fronts", _front_name(self.batch), {"front": about, **more}, arrays)
        self._held.append((self.batch, self.version))
        while len(self._held) > KEPT:
            self._forget(*self._held.pop(0))

    def _forget(self, batch: int, version: int) -> None:
        """Delete the state of a batch, and those up to the next that is kept."""
        _delete(self.checkpoint / "fronts", _front_name(batch))
        states, until = self.checkpoint / "states", self._held[0][1]
        for kind in (OWN, MATCH) if self.front.router.apart else (OWN,):
            for p in range(self.front.partitions):
                for passed in range(version, until):
                    _delete(states, state_name(kind, p, passed))


def _front_name(batch: int) -> str:
    return f"front-{batch + 2:010}"


def _delete(folder: Folder, name: str) -> None:
    with suppress(FileNotFoundError, OSError, Damaged):
        folder.system.delete_file(f"{folder.path}/{name}")
