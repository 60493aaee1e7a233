"""A writer with its storage, crashed and recovered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from concurrent.futures import wait
from pathlib import Path
from typing import Any

from app.errors import LogUnavailable
from app.resources.base import ResourceTypes
from app.resources.boards import BoardType
from app.runtime import priority
from app.runtime.metrics import Metrics
from app.settings import Settings
from app.storage import open_stores
from app.storage.rows import LogEntry
from app.storage.snapshots import Snapshots
from app.write_path.catalog import Catalog
from app.write_path.idempotency import Answers
from app.write_path.maintenance import Maintenance
from app.write_path.read_ahead import ReadAhead
from app.write_path.recovery import recover
from app.write_path.writer import Writer
from formats.board_commands import decode
from formats.commands import MORE
from formats.folder import Folder
from indexes.boards.commands import Command
from indexes.boards.engine import BoardEngine
from indexes.core.commands import Create, Drop


class Twin:
    """What the log says, applied from its first row on by an engine alone."""

    def __init__(self) -> None:
        self.rows: list[LogEntry] = []
        self.boards: dict[str, BoardEngine] = {}
        self.gone: dict[str, int] = {}
        self._read = 0

    def follow(self) -> None:
        """Apply what has come."""
        parts: list[tuple[str, bytes]] = []
        for row in self.rows[self._read :]:
            parts.append((row.command, row.payload))
            if not row.command.endswith(MORE):
                self._apply(row.resource, decode(parts), row.last_seq)
                parts.clear()
        assert not parts, "the log ends in the middle of a command"
        self._read = len(self.rows)

    def _apply(self, name: str, command: Command | Create | Drop, last_seq: int) -> None:
        if isinstance(command, Create):
            self.boards[name] = BoardEngine(command.config, self.gone.pop(name, 0))
            assert self.boards[name].seq == last_seq
        elif isinstance(command, Drop):
            assert self.boards[name].next_seq == last_seq
            self.gone[name] = last_seq + 1
            del self.boards[name]
        else:
            plan, _ = self.boards[name].apply(command)
            assert plan.last_seq == last_seq


class Life:
    """One process over a data directory, from its start to a crash."""

    def __init__(
        self, path: Path, twin: Twin, kept: dict[str, int], kinds: ResourceTypes | None = None, keep_snapshots: int = 2
    ) -> None:
        kinds = kinds or ResourceTypes(BoardType())
        self.stores = open_stores(path)
        self.catalog = Catalog(kinds)
        self.answers = Answers(find=self.stores.log.answer)
        self.metrics = Metrics()
        self.writer = Writer(self.stores.log, self.catalog, self.answers, self.metrics)
        self.snapshots = Snapshots(Folder.at(path), self.stores.directory.epoch, kinds)
        self._settings = settings = Settings(data=path, keep_snapshots=keep_snapshots)
        self.maintenance = Maintenance(settings, self.stores, self.catalog, self.writer, self.snapshots, self.metrics)
        self.broken = False
        self.runner = asyncio.Runner()
        self._append = self.stores.log.append
        self._twin = twin
        self._kept = kept
        setattr(self.stores.log, "append", self._recorded)  # noqa: B010 - what the log does is watched

    @property
    def rows(self) -> list[LogEntry]:
        """What was logged, from the first row on."""
        return self._twin.rows

    def _recorded(self, entries: Any, answers: Any = (), *more: Any) -> int:
        """Append to the log, and tell the twin once that is done."""
        if self.broken:
            raise LogUnavailable("the disk is full")
        lsn = self._append(entries, answers, *more)
        self._twin.rows += entries
        self._kept |= {answer.key: answer.lsn for answer in answers}
        return lsn

    def start(self) -> int:
        """Recover; return the row that it began from. Every other time the snapshot is read ahead."""
        ahead = ReadAhead(self._settings, self.stores) if len(self.rows) % 2 else None
        return recover(self.snapshots, self.catalog, self.writer, ahead=ahead)

    def run(self, story: Awaitable[Any]) -> Any:
        async def whole() -> Any:
            return await story

        return self.runner.run(whole())

    def crash(self) -> None:
        """End without a word: nothing that has not been written is."""
        self.runner.close()
        for pool in (self.writer.committer._thread, self.writer.applier.kernels):
            pool.shutdown()
        # A process that ends takes its threads along. Each of them waits here for the others.
        meeting = threading.Barrier(priority.BACKGROUND_THREADS)
        wait([priority._background.submit(meeting.wait) for _ in range(priority.BACKGROUND_THREADS)])
        self.stores.close()
