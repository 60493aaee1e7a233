"""What the tests of resources that come back after a crash share: a process with one kind beside boards, what its log
comes to, and a machine that plays commands, jobs, failures of the log and crashes on the one and compares both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from hypothesis.strategies import SearchStrategy

from app.idempotency import StillRunning, Ticket
from app.jobs import JobFailed
from app.kinds import Kind, Kinds
from app.kinds.boards import BoardKind
from app.resources import Resources
from app.storage.log import LogEntry, LogUnavailable
from app.writer import Skeleton
from formats.commands import MORE
from indexes.commands import Create, Drop, Refused
from tests.app.machine import Machine
from tests.app.test_recovery import Life, Twin

EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")
HouseT = TypeVar("HouseT", bound="HouseOf[Any, Any]")

KEYS = ["key0", "key1", "key2"]
request_keys = st.sampled_from([None, None, *KEYS])
names = st.sampled_from(["a", "b"])
jobs = st.sampled_from(["snapshot", "rebuild", "verify"])


class HouseOf(Life, Generic[EngineT, ConfigT]):
    """A process over a data directory with boards and with `resources` of another kind."""

    KIND: ClassVar[type[Kind]]

    def __init__(self, path: Path, twin: Twin | None = None, kept: dict[str, int] | None = None, **more: Any) -> None:
        self.kind: Any = self.KIND()
        kinds = Kinds(BoardKind(), self.kind)
        super().__init__(path, twin or Twin(), {} if kept is None else kept, kinds, **more)
        self.resources: Resources[EngineT, ConfigT] = Resources(self.kind, self.catalog, self.writer)

    def engine(self, name: str) -> EngineT:
        found = self.resources.get(name)
        assert found is not None
        return found


def lives(house: type[HouseT], path: Path) -> Iterator[Callable[..., HouseT]]:
    """For a fixture: `make()` starts a process over the directory; the one before has crashed."""
    running: list[HouseT] = []

    def make(**more: Any) -> HouseT:
        if running:
            running.pop().crash()
        running.append(house(path, **more))
        running[-1].start()
        return running[-1]

    yield make
    for life in running:
        life.crash()


def spoil(life: HouseOf[Any, Any], how: str, monkeypatch: pytest.MonkeyPatch, part: str = "") -> None:
    """What may have become of the only image: it is "whole", "damaged" since this part of it is gone, "of another
    version", or "none" is there."""
    (folder,) = (life.stores.directory.path / "images").glob("*/*/*")
    if how == "damaged":
        (folder / part).unlink()
    elif how == "of another version":
        monkeypatch.setattr("formats.parts.LAYOUT", "another")
    elif how == "none":
        (folder / "manifest.json").unlink()
    else:
        assert how == "whole"


class Truth(Generic[EngineT]):
    """What the rows of the log come to, applied from the first one on by engines alone: those that are `there` by their
    whole names, and the next seqs of those that are `gone`."""

    def __init__(self, make: Callable[[Any, int], EngineT], decode: Callable[[list[tuple[str, bytes]]], Any]) -> None:
        self.there: dict[str, Any] = {}
        self.gone: dict[str, int] = {}
        self._make = make
        self._decode = decode
        self._read = 0

    def follow(self, rows: list[LogEntry]) -> None:
        """Apply what has come."""
        parts: list[tuple[str, bytes]] = []
        for row in rows[self._read :]:
            parts.append((row.command, row.payload))
            if not row.command.endswith(MORE):
                self.apply(row, self._decode(parts))
                parts.clear()
        assert not parts, "the log ends in the middle of a command"
        self._read = len(rows)

    def apply(self, row: LogEntry, command: Any) -> None:
        """Apply the command that ends in this row."""
        name = row.resource
        if isinstance(command, Create):
            self.there[name] = self._make(command.config, self.gone.pop(name, 0))
        elif isinstance(command, Drop):
            self.gone[name] = row.last_seq + 1
            del self.there[name]
        else:
            assert self.there[name].apply(command)[0].last_seq == row.last_seq


class KeptMachine(Machine):
    """Commands, jobs, failures of the log and crashes in any order, with limits so low that all is cut.

    `BATCH` draws lists of jobs by their names and of requests: the resource's name, a command, a configuration of the
    type `CONFIG` to make it with, or None to delete it, and the request's key. `FIRST` is what the first is made
    with, and `PART` the file of images that a crash may damage, where there are any.
    """

    KEYS: ClassVar = KEYS
    HOUSE: ClassVar[type[HouseOf[Any, Any]]]
    CONFIG: ClassVar[type]
    BATCH: ClassVar[SearchStrategy[list[Any]]]
    FIRST: ClassVar[Any] = None
    PART: ClassVar[str | None] = None
    life: HouseOf[Any, Any]

    def __init__(self) -> None:
        super().__init__()
        self.log = Twin()
        self.truth = self.begin()
        self.life = self.HOUSE(self.path, self.log, self.kept)
        self.life.start()
        if self.FIRST is not None:
            self.life.run(self.life.resources.put("a", self.FIRST))

    @abstractmethod
    def begin(self) -> Truth[Any]:
        """What an empty log comes to."""

    @staticmethod
    @abstractmethod
    def answer(job: Any) -> Skeleton:
        """The answer to a request, with what only applying tells."""

    @abstractmethod
    def agree(self, engine: Any, truth: Any) -> None:
        """Assert that a resource is whole, and what the log says of it."""

    def fitted(self, name: str, command: Any) -> Any:
        """A command as the resource of this name takes it."""
        return command

    @rule(
        batch=st.runner().flatmap(lambda machine: machine.BATCH),
        in_thread=st.booleans(),
        in_slices=st.booleans(),
        broken=st.sampled_from([False, False, True]),
    )
    def many_at_once(self, batch: list[Any], in_thread: bool, in_slices: bool, broken: bool) -> None:
        rows, self.life.broken = len(self.log.rows), broken
        with self.timing(in_thread, in_slices):
            results = self.life.run(self.play(batch))
        self.life.broken = False
        good = (Refused, StillRunning, LogUnavailable, JobFailed) if broken else (Refused, StillRunning)
        for result in results:
            if result is not None and not isinstance(result, good):
                raise result
        assert not broken or len(self.log.rows) == rows

    @rule(
        batch=st.runner().flatmap(lambda machine: machine.BATCH),
        turns=st.integers(0, 60),
        in_thread=st.booleans(),
        in_slices=st.booleans(),
        damaged=st.booleans(),
    )
    def crash(self, batch: list[Any], turns: int, in_thread: bool, in_slices: bool, damaged: bool) -> None:
        self.die(batch, turns, in_thread, in_slices)
        if damaged and self.PART is not None:
            for image in sorted((self.path / "images").glob(f"*/*/*/{self.PART}"))[-1:]:
                # Written to in place it would change under the engine that stands on it.
                image.unlink()
                image.write_bytes(b"ARROW1")
        self.life = self.HOUSE(self.path, self.log, self.kept)
        assert self.life.start() == max(self.life.snapshots.lsns(), default=0)

    @invariant()
    def all_is_as_the_log_says(self) -> None:
        self.truth.follow(self.log.rows)
        catalog = self.life.catalog
        assert catalog.names() == sorted(self.truth.there)
        for name, truth in self.truth.there.items():
            engine = catalog.engine(name)
            assert engine is catalog.latest(name)
            self.agree(engine, truth)
        for name, seq in self.truth.gone.items():
            assert catalog.entries[name].next_first_seq == seq

    async def write(self, one: tuple[str, Any, str | None]) -> None:
        name, what, key = one
        resources = self.life.resources

        async def ask(ticket: Ticket | None) -> Any:
            if what is None:
                return await resources.drop(name, ticket, self.answer)
            if isinstance(what, self.CONFIG):
                return await resources.put(name, what, ticket, self.answer)
            return await resources.submit(name, self.fitted(name, what), ticket=ticket, skeleton=self.answer)

        await self.once(key, self.answer, ask)


def same_place(engine: Any, truth: Any) -> None:
    """The same configuration, and as far in its history."""
    assert (engine.config, engine.seq, engine.next_seq) == (truth.config, truth.seq, truth.next_seq)
