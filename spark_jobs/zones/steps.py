"""A stream of a board's events on Spark, batch by batch: rounds are run as jobs of Spark, and the batch commits.

A round is some commands under one layout; where the zones change, the next round begins, whose parts take their
subscriptions from those before. A checkpoint has `rounds/`, the commands of each; `bases/`, the parts at rest every
few rounds; and `front.json`, the driver's own state, which is written last, atomically, and commits the batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from formats.board_commands import decode
from formats.boards import config_fields, config_of
from formats.commands import MORE
from formats.folder import Damaged, Folder
from indexes.boards.commands import Configure
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from spark_jobs.common.session import Running
from spark_jobs.zones.layout import Layout, Paint, layout_of
from spark_jobs.zones.tasks import SPARK_REPORT, Work, base_path, pack_round, round_name

FRONT = "front.json"
COMMITTED = "_committed.json"
"""In the output: the last batch that all files are there of."""

BEFORE = -1
"""The number of the batch with the state before the first batch of a stream."""


class Unlike(Exception):
    """A checkpoint does not match; the message is one sentence."""


class Left(Exception):
    """The log does not continue with the board that was followed; the message is one sentence."""


class CommandRow(NamedTuple):
    """A row of the log: a command of the board, or a part of a long one. A `first_seq` of 0 is the seq that follows."""

    lsn: int
    first_seq: int
    last_seq: int
    command: str
    payload: bytes


class Counts(NamedTuple):
    """What was published: rows of zones, their tiles, the subscriptions that they reach, and bytes of files."""

    messages: int = 0
    tiles: int = 0
    recipients: int = 0
    bytes: int = 0


class DisseminationSteps:
    """The state after the last batch, and the execution of the next.

    `base_every` is how many rounds lie between two bases at most, `held` how many parts a worker keeps in memory.
    """

    def __init__(
        self, checkpoint: Folder, output: Folder | None, name: str, paint: Paint, base_every: int = 16, held: int = 8
    ) -> None:
        self.checkpoint, self.output, self.name, self.paint = checkpoint, output, name, paint
        self.base_every, self.held = base_every, held
        self.batch = BEFORE - 1
        self.round = self.base = self.since = 0
        self.lsn = self.seq = 0
        self.config: BoardConfig
        self.layout: Layout
        self.counts = Counts()
        self.subscriptions: list[int] = []
        """Of each part, as of the last round."""
        self._folders: tuple[Any, ...] = ()
        if FRONT in checkpoint.names():
            self._open()

    @property
    def begun(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.batch >= BEFORE

    def _open(self) -> None:
        try:
            with self.checkpoint.open(FRONT) as file:
                about = json.loads(file.read())
            config = config_of(about["config"])
            for what, here, there in (
                ("board", about["name"], self.name),
                ("way to paint", about["paint"], self.paint),
            ):
                if here != there:
                    raise Unlike(f"{self.checkpoint} is of another {what}: {here} in place of {there}")
            self.batch, self.round, self.base, self.since = (
                int(about[key]) for key in ("batch", "round", "base", "since")
            )
            self.lsn, self.seq = int(about["lsn"]), int(about["seq"])
            self.counts = Counts(**about["counts"])
            self.subscriptions = list(map(int, about["subscriptions"]))
            self._folders = tuple(
                (self.checkpoint.system, f"{self.checkpoint.path}/{path}", tuple(float(side) for side in area))
                for path, area in about["folders"]
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{self.checkpoint}/{FRONT} is damaged: {error}") from error
        self.config, self.layout = config, layout_of(config, self.paint)

    def begin(self, running: Running, config: BoardConfig, place: Folder, lsn: int, seq: int) -> None:
        """Take over the state in a folder, a snapshot or what was written like one: it is the first base."""
        self.config, self.layout, self.lsn, self.seq = config, layout_of(config, self.paint), lsn, seq
        infinite = float("inf")
        self._folders = ((place.system, place.path, (-infinite, infinite, -infinite, infinite)),)
        self._run(running, BEFORE, [], save=True)
        self.batch = BEFORE
        self._commit()

    def take(self, running: Running, batch: int, rows: Iterable[CommandRow]) -> None:
        """Execute a batch of the board's rows, unless it is committed. Raises `Left` and `Damaged`."""
        if batch <= self.batch:
            return
        waiting: list[CommandRow] = []
        for row in rows:
            if row.command in ("create", "drop"):
                raise Left("the board was deleted or made again: delete the checkpoint, to follow the one there is now")
            waiting.append(row)
            self.lsn, self.seq = row.lsn, max(self.seq, row.last_seq)
            if row.command != "configure":
                continue
            command = decode([(row.command, row.payload)])
            assert isinstance(command, Configure)
            self.config = configured(self.config, command, row.first_seq)
            layout = layout_of(self.config, self.paint)
            if layout != self.layout:
                self._run(running, batch, waiting, save=True)
                waiting, self.layout, self.since = [], layout, self.round
        if waiting:
            self._run(running, batch, waiting, save=self.round + 1 - self.base >= self.base_every)
        self.batch = batch
        self._commit()

    def _run(self, running: Running, batch: int, rows: list[CommandRow], save: bool) -> None:
        """Run a round in all parts."""
        parts = self.layout.parts
        folder = self.checkpoint / "rounds"
        content = pack_round([(row.lsn, row.first_seq, row.command, row.payload) for row in rows])
        folder.write(round_name(self.round), content)
        output = None if self.output is None else (self.output.system, self.output.path)
        work = Work(
            self.checkpoint.system, self.checkpoint.path, self.name, self.round, self.since, self.base, self._folders,
            tuple((tuple(part.area), tuple((i, tuple(zone)) for i, zone in part.zones)) for part in parts),
            self.layout.version, batch, output, save, self.held,
        )  # fmt: skip
        task = running.task("spark_jobs.zones.tasks:disseminate", tuple(work))
        frame = running.spark.range(0, len(parts), 1, len(parts)).mapInArrow(task, SPARK_REPORT)
        reports = {row["part"]: json.loads(row["report"]) for row in frame.collect()}
        if len(reports) != len(parts):
            raise RuntimeError(f"{len(reports)} parts of {len(parts)} reported what they did")
        found = [reports[number] for number in range(len(parts))]
        if rows:
            self.counts = Counts(
                *(getattr(self.counts, name) + sum(one[name] for one in found) for name in Counts._fields)
            )
            self.seq = max(self.seq, *(one["seq"] for one in found))
        self.subscriptions = [one["subscriptions"] for one in found]
        self.round += 1
        if save:
            self.base = self.round
            self._folders = tuple(
                (self.checkpoint.system, base_path(self.checkpoint.path, self.round, number), tuple(part.area))
                for number, part in enumerate(parts)
            )

    def _commit(self) -> None:
        """Commit the batch, and delete what no repetition needs any more."""
        root = f"{self.checkpoint.path}/"
        about = {
            "name": self.name, "paint": self.paint, "config": config_fields(self.config), "batch": self.batch,
            "round": self.round, "base": self.base, "since": self.since, "lsn": self.lsn, "seq": self.seq,
            "counts": self.counts._asdict(), "subscriptions": self.subscriptions,
            "folders": [(path.removeprefix(root), area) for _, path, area in self._folders],
        }  # fmt: skip
        self.checkpoint.write(FRONT, json.dumps(about).encode())
        if self.output is not None:
            said = {"batch": self.batch, "lsn": self.lsn, "seq": self.seq, "version": self.layout.version}
            self.output.write(COMMITTED, json.dumps(said).encode())
        for folder, first in ((self.checkpoint / "rounds", round_name(self.base)), (self.checkpoint / "bases", None)):
            for name in folder.names():
                if first is None and name < f"{self.base:010}":
                    (folder / name).delete()
                elif first is not None and name < first:
                    with suppress(OSError):
                        folder.system.delete_file(f"{folder.path}/{name}")


def configured(config: BoardConfig, command: Configure, first_seq: int) -> BoardConfig:
    """A configuration after a command of the log, as the service's engine makes it."""
    board = BoardEngine(config, first_seq - 1)
    board.apply(command)
    return board.config


def whole(rows: list[CommandRow]) -> bool:
    """Whether the last command is there with all its rows."""
    return not rows or not rows[-1].command.endswith(MORE)
