"""What the tests of resources that come back after a crash share.

A process with one kind beside boards, what its log comes to, and a machine that plays commands, jobs, failures of the
log and crashes on the one and compares both.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from hypothesis.strategies import SearchStrategy

from app.errors import LogUnavailable
from app.resources.base import ResourceType, ResourceTypes
from app.resources.boards import BoardType
from app.storage.rows import LogEntry
from app.write_path.idempotency import StillRunning, Ticket
from app.write_path.jobs import JobFailed
from app.write_path.resources import Resources
from app.write_path.writer import Skeleton
from formats.commands import MORE
from indexes.core.commands import Create, Drop, Fault, Refused
from tests.recovery.life import Life, Twin
from tests.recovery.machine import Machine, quiet

EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")
HouseT = TypeVar("HouseT", bound="HouseOf[Any, Any]")

KEYS = ["key0", "key1", "key2"]
request_keys = st.sampled_from([None, None, *KEYS])
names = st.sampled_from(["a", "b"])
jobs = st.sampled_from(["snapshot", "rebuild", "verify"])

LOW: dict[str, Any] = {
    "app.write_path.committing.BULK": 3,
    "app.write_path.applying.SLICE": 1e-9,
    "formats.commands.PART": 2,
    "indexes.core.ids.MERGE_AT": 2,
}
"""Limits of what every resource type runs through, so low that all is cut."""


def batches(commands: SearchStrategy[Any], *configs: Any) -> SearchStrategy[list[Any]]:
    """Jobs and requests, for `KeptMachine.BATCH`: commands mostly, one of the configurations, or a deletion."""
    wanted = st.one_of(*[commands] * 4, *map(st.just, configs), st.none())
    return st.lists(st.one_of(st.tuples(names, wanted, request_keys), jobs), max_size=8)


class HouseOf(Life, Generic[EngineT, ConfigT]):
    """A process over a data directory with boards and with `resources` of another kind."""

    KIND: ClassVar[type[ResourceType]]

    def __init__(self, path: Path, twin: Twin | None = None, kept: dict[str, int] | None = None, **more: Any) -> None:
        self.kind: Any = self.KIND()
        kinds = ResourceTypes(BoardType(), self.kind)
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


def starter(house: type[HouseT]) -> Any:
    """A fixture: `make()` starts a process over the test's directory; the one before has crashed."""

    @pytest.fixture
    def make(tmp_path: Path) -> Iterator[Callable[..., HouseT]]:
        yield from lives(house, tmp_path / "data")

    return make


def heard_by(life: HouseOf[Any, Any], shown: Callable[[Any, Any], tuple[Any, ...]]) -> list[Any]:
    """What the process says from now on, with the resource's name.

    Of slices what `shown` makes of the engine and the part, of edits the lifetimes, of deletions the seq.
    """
    heard: list[Any] = []
    life.kind.on_slice = lambda name, engine, part: heard.append((name, *shown(engine, part)))
    life.kind.on_edit = lambda name, plan: heard.append((name, list(plan.lifetimes())))
    life.kind.on_drop = lambda name, seq: heard.append((name, seq))
    return heard


def refuse_another(life: HouseOf[Any, Any], config: Any, another: Any) -> list[Fault]:
    """Put a resource twice, which changes nothing, and with another configuration; the faults of that."""

    async def story() -> list[Fault]:
        await life.resources.put("a", config)
        assert (await life.resources.put("a", config)).count == 0
        with pytest.raises(Refused) as refused:
            await life.resources.put("a", another)
        return list(refused.value.faults)

    return life.run(story())


def rebuild_beside(
    life: HouseOf[Any, Any], begin: Callable[[], Awaitable[None]], changes: Callable[[int], Iterable[Any]]
) -> dict[str, Any]:
    """Rebuild what `begin` makes, and until that is done submit to "a" the `changes` of one round after the other.

    The job's detail.
    """

    async def story() -> dict[str, Any]:
        await begin()
        rebuild = asyncio.ensure_future(life.maintenance.rebuild(quiet, None, "local"))
        for n in itertools.count():
            if rebuild.done():
                break
            for command in changes(n):
                await life.resources.submit("a", command)
            await asyncio.sleep(0.001)
        return await rebuild

    return life.run(story())


def verified_by_the_service(life: HouseOf[Any, Any], config: Any, command: Any) -> int:
    """How much a verification of one resource compares that asks for Spark."""

    async def story() -> int:
        await life.resources.put("a", config)
        await life.resources.submit("a", command)
        detail = await life.maintenance.verify(quiet, None, "spark")
        compared: int = detail["compared"]
        return compared

    return life.run(story())


def spoil(life: HouseOf[Any, Any], how: str, monkeypatch: pytest.MonkeyPatch, part: str = "") -> None:
    """What may have become of the only image.

    It is "whole", "damaged" since this part of it is gone, "of another version", or "none" is there.
    """
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
    """What the rows of the log come to, applied from the first one on by engines alone.

    Those that are `there` by their whole names, and the next seqs of those that are `gone`.
    """

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

    @classmethod
    def of(
        cls, life: HouseOf[EngineT, Any], make: Callable[[Any, int], EngineT], decode: Callable[..., Any]
    ) -> EngineT:
        """The engine of "a" that the log of a process comes to."""
        truth = cls(make, decode)
        truth.follow(life.rows)
        engine: EngineT = truth.there[life.kind.prefix + "a"]
        return engine

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
