"""Disseminate the tiles of a board's events to zones, on Spark Structured Streaming: a partition for each zone.

Reads   the log of a service: --storage, its data directory, and --log, the URL of its database if that is elsewhere;
        the board is followed from its creation, or from the newest snapshot if the log no longer has that, through
        every cut of its zones. Or --events: a folder of Parquet or NDJSON files, read in order of name: id, the range
        attribute and the rank attribute, and optionally op and payload; then --config is the configuration of the
        board, as in PUT /v1/boards/NAME, with zones, and --subscriptions a file of id, l, r and k.
Writes  --checkpoint: what the next run continues. A run that was killed at any moment and is started again writes the
        same files as one that was not.
        --output: a folder with version=V/zone=Z/batch-N.parquet, of what is published to a zone in a batch: seq, lsn
        and tiles, each with the number of the zone's subscriptions that it reaches (recipients). A seq is there once.
        _committed.json names the last batch that is whole.
Ends    with {"batches", "seq", "version", "parts", "messages", "tiles", "recipients", "subscriptions": [...], ...};
        with --follow, at a signal.

A partition has the subscriptions of its zone and all objects, and paints every event by itself. --paint says how:
"zone" is that; "plane" has one partition with all subscriptions, which paints for all zones; "auto", the default, is
"zone" under Paint-Dense and "plane" under Paint-Sparse, and so the tiles are those that the service publishes, one for
one. Paint-Sparse with "zone" draws its rectangles around the zone's own subscriptions: they reach the same ones.

A partition takes about 60 bytes an object with its id, and 60 a subscription of its zone, twice that while it is loaded
or written. A worker holds as many partitions as --held. The driver holds the commands of one batch.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any, get_args

from formats.board_commands import decode
from formats.boards import RESOURCE, config_of
from formats.folder import Folder
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.zones import Cut
from indexes.core.commands import Create
from spark_jobs.common.batches import BatchJob
from spark_jobs.common.boards import of_one_attribute
from spark_jobs.common.command import Failed, make_parser, name_of, run
from spark_jobs.common.inputs import check
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import Running
from spark_jobs.feeds.log import LogError, LogReader, url_of
from spark_jobs.zones.bases import write
from spark_jobs.zones.inputs import Unfit, config_of_wire, empty_state, rows_of, write_subscriptions
from spark_jobs.zones.layout import Paint
from spark_jobs.zones.steps import DisseminationSteps, Left, Unlike

_PROGRAM = "python -m spark_jobs.dissemination"

FIRST = "first"
"""The folder of a checkpoint with the state that a stream begins with, where that is no snapshot."""


class Dissemination(BatchJob):
    """A run: its input, and the execution of batches."""

    def __init__(self, given: argparse.Namespace, progress: Progress) -> None:
        """Raises `Failed` for inconsistent options."""
        self.given, self.progress = given, progress
        self.name = name_of(given.resource, "boards")
        self.resource = RESOURCE + self.name
        if (given.storage is None and given.log is None) == (given.events is None):
            raise Failed("either --storage (or --log) or --events is given")
        if given.events is not None and given.config is None:
            raise Failed("--events needs --config, which says what the board is")
        for option in ("rows", "held", "base_every"):
            if getattr(given, option) < 1:
                raise Failed(f"--{option.replace('_', '-')} is at least 1")
        try:
            checkpoint = Folder.at(given.checkpoint)
            output = Folder.at(given.output) if given.output else None
            for place in (given.storage, given.events):
                if place is not None:
                    Folder.at(place)
        except ValueError as error:
            raise Failed(str(error)) from error
        self.log = None if given.events is not None else LogReader(url_of(given.storage or ".", given.log))
        self.steps = DisseminationSteps(checkpoint, output, self.name, given.paint, given.base_every, given.held)
        self.batches = 0
        self._first: tuple[BoardConfig, Folder, int, int] | None = None

    def open(self) -> dict[str, str]:
        """Find where the stream begins; returns the options of the source."""
        given, steps = self.given, self.steps
        if not steps.begun:
            self._first = self._from_files() if self.log is None else self._from_log(self.log)
        after = steps.lsn if self._first is None else self._first[2]
        if self.log is None:
            options = {"posts": given.events}
        else:
            options = {"log": self.log.url, "resource": self.resource, "after": str(after)}
        return {**options, "rows": str(given.rows)}

    def _from_files(self) -> tuple[BoardConfig, Folder, int, int]:
        config = config_of_wire(self.given.config)
        folder = self.steps.checkpoint / FIRST
        zones = write_subscriptions(folder, self.name, config, self.given.subscriptions)
        return replace(config, cut=Cut(1, 0, zones)), folder, 0, 0

    def _from_log(self, log: LogReader) -> tuple[BoardConfig, Folder, int, int]:
        """The state of the board at its creation, or in the newest snapshot if the log no longer has that. Raises
        `Failed`."""
        made = log.created(self.resource)
        if made is not None and made.lsn > log.pruned():
            created = decode([(made.command, made.payload)])
            assert isinstance(created, Create)
            config = BoardEngine(created.config, made.first_seq).config
            of_one_attribute(
                self.resource, {"config": {"range_attributes": config.range_attributes, "indexed": config.indexed}}
            )
            folder = self.steps.checkpoint / FIRST
            write(folder, self.name, empty_state(config, made.first_seq))
            return config, folder, made.lsn, made.last_seq
        snapshots = Folder.at(self.given.storage) / "snapshots" if self.given.storage else None
        names = [name for name in snapshots.names() if name.isdigit()] if snapshots else []
        for lsn in sorted(map(int, names), reverse=True):
            folder = Folder.at(self.given.storage) / "snapshots" / str(lsn)
            if folder.whole and self.resource in folder.manifest()["resources"]:
                files = [f"{self.resource}/{name}.parquet" for name in ("objects", "subscriptions", "free")]
                about = check(folder, "snapshot", lsn, files)["resources"][self.resource]
                of_one_attribute(self.resource, about)
                return config_of(about["config"]), folder, lsn, about["seq"]
        raise Failed(f"the log has no {self.resource}, or no longer its making, and no snapshot has it")

    def begin(self, running: Running) -> None:
        """Take over the first state, unless there is a checkpoint to go on from."""
        if self._first is not None:
            self.steps.begin(running, *self._first)
        (self.steps.checkpoint / FIRST).delete()

    def take(self, running: Running, frame: Any, batch: int) -> None:
        """Execute a batch of Spark."""
        steps = self.steps
        if batch <= steps.batch:
            return
        rows = sorted((tuple(row) for row in frame.collect()), key=lambda row: row[0])
        steps.take(running, batch, rows_of(rows, steps.config))
        self.batches += 1
        self.progress.step(0.5, f"batch {batch}: seq {steps.seq}")

    def follow(self, running: Running, options: dict[str, str]) -> None:
        """Execute all available batches, or continue until stopped."""
        from spark_jobs.zones.source import BoardSource

        self.execute(running, BoardSource, options, self.steps.checkpoint)


def disseminate(given: argparse.Namespace, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    began = time.monotonic()
    progress.step(0.0, "opening the checkpoint")
    try:
        job = Dissemination(given, progress)
        options = job.open()
        progress.step(0.02, "starting Spark")
        with job.session(LogError, Left, LogError, Unfit) as running:
            job.begin(running)
            progress.step(0.1, "following the board")
            job.follow(running, options)
    except (Left, LogError, Unfit, Unlike) as error:
        raise Failed(str(error)) from error
    return {**report(job), "seconds": round(time.monotonic() - began, 1)}, 0


def report(job: Dissemination) -> dict[str, Any]:
    """The last line of a run. `messages`, `tiles`, `recipients` and `bytes` are those of all runs of the checkpoint."""
    steps = job.steps
    about = {"batches": job.batches, "lsn": steps.lsn, "seq": steps.seq, "version": steps.layout.version}
    parts = {"parts": len(steps.layout.parts), "subscriptions": steps.subscriptions}
    return {**about, **steps.counts._asdict(), **parts}


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = make_parser(
        _PROGRAM, __doc__ or "",
        f"""\
  {_PROGRAM} --storage data --resource boards/delays --checkpoint work --output tiles
  {_PROGRAM} --events events --subscriptions who.parquet --resource boards/delays --checkpoint work --output tiles \\
      --config '{{"range_attributes": ["distance"], "rank": {{"attribute": "delay"}}, "ks": [5], "zones": 64}}'""",
    )  # fmt: skip
    made.add_argument("--resource", required=True, help="the board, as boards/NAME")
    made.add_argument("--storage", metavar="FOLDER", help="the data directory of the service")
    made.add_argument(
        "--log", metavar="URL", help="its database, if that is elsewhere: postgresql://... or sqlite://..."
    )
    made.add_argument("--events", metavar="PLACE", help="a folder of events, in place of a log")
    made.add_argument("--config", metavar="JSON", help="of a folder's events: what the board is")
    made.add_argument("--subscriptions", metavar="PLACE", help="of a folder's events: a file of subscriptions")
    made.add_argument("--checkpoint", required=True, metavar="PLACE", help="what the next run continues")
    made.add_argument("--output", metavar="PLACE", help="a folder for tiles; left out, they are counted")
    made.add_argument(
        "--paint", choices=get_args(Paint), default="auto", help="who paints for a zone (default: %(default)s)"
    )
    made.add_argument(
        "--rows", type=int, default=1_000, metavar="N",
        help="commands of a log, or events of a folder, in a batch at most (default: %(default)s)",
    )  # fmt: skip
    made.add_argument(
        "--held", type=int, default=8, metavar="N",
        help="partitions that a worker holds in memory between batches (default: %(default)s)",
    )  # fmt: skip
    made.add_argument(
        "--base-every", type=int, default=16, metavar="N",
        help="batches after which partitions are written down whole (default: %(default)s)",
    )  # fmt: skip
    made.add_argument("--follow", action="store_true", help="continue with new rows, until stopped")
    return made


if __name__ == "__main__":
    run(parser(), disseminate)
