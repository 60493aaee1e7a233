"""A second kind of resource, as small as one can be that does all a kind may do: counters that never go below zero."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from app.resources.base import ResourceType
from formats import commands as rows
from formats.commands import ARROW, MORE, Damaged, Part
from formats.folder import Damaged as DamagedFolder
from formats.folder import Draft, Folder
from indexes.core.commands import Create, Drop, Fault, Refused


class Config(NamedTuple):
    """What a counter counts, which stays, and how much it may hold, which may change."""

    what: str
    most: int = 10**9


@dataclass
class Add:
    """Amounts to add, one after the other."""

    amounts: list[int]

    def __len__(self) -> int:
        return len(self.amounts)


@dataclass
class Limit:
    """Another limit."""

    most: int


class Told(NamedTuple):
    """What followers of a counter hear after a slice."""

    seq: int
    total: int


class State(NamedTuple):
    config: Config
    seq: int
    total: int


class Counter:
    """The engine: `total` is what reads see at `seq`, `latest` what the next command meets."""

    def __init__(self, config: Config, first_seq: int) -> None:
        self.config = self.latest_config = config
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.total = self.latest = 0
        self.notes: list[int] | None = None

    def prepare(self, command: Add | Limit, keep: int = 0) -> CounterPlan:
        steps = self.prepare_steps(command, keep)
        sent: Any = None
        while True:
            try:
                work = steps.send(sent)
            except StopIteration as stop:
                plan: CounterPlan = stop.value
                return plan
            sent = None if work is None else work()

    def prepare_steps(
        self, command: Add | Limit, keep: int = 0
    ) -> Generator[Callable[[], Any] | None, Any, CounterPlan]:
        if isinstance(command, Limit):
            if command.most < self.latest:
                raise Refused([Fault("most", f"the counter is at {self.latest}", "in_use")])
            return self._accepted(command, keep)
        total = self.latest
        for i, amount in enumerate(command.amounts):
            total += amount
            if not 0 <= total <= self.latest_config.most:
                raise Refused([Fault("amount", f"would make it {total}", "invalid", i)])
            if i % 2:
                yield None
            elif i:
                assert (yield partial(int, total)) == total
        return self._accepted(command, keep)

    def _accepted(self, command: Add | Limit, keep: int) -> CounterPlan:
        return AddPlan(self, command, keep) if isinstance(command, Add) else LimitPlan(self, command)

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        return CapturePlan(self, journal)


class CounterPlan:
    """One accepted command."""

    def __init__(self, engine: Counter, command: Any, count: int) -> None:
        self.engine = engine
        self.command = command
        self.count = count
        self.first_seq = engine.next_seq
        self.last_seq = engine.next_seq + count - 1
        self.silent = self.counted = False
        self.done = False
        engine.next_seq += count

    @property
    def alone(self) -> bool:
        return True

    @property
    def work(self) -> float:
        return 0.0

    def lets_begin(self, following: Any) -> bool:
        return False

    def execute(self, budget: float) -> None: ...

    def publish(self) -> Told | None:
        self.done = True
        return None

    def response_fields(self) -> dict[str, Any]:
        return {}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return self.response_fields()

    def cancel(self) -> None: ...


class AddPlan(CounterPlan):
    """Adds one amount a slice; what the total became is known only then."""

    def __init__(self, engine: Counter, command: Add, keep: int) -> None:
        super().__init__(engine, command, len(command))
        self.kept: list[int] = []
        self.painted = 0
        self._room = keep
        self._before = engine.latest
        self._total = 0
        engine.latest += sum(command.amounts)
        self.done = not self.count

    @property
    def alone(self) -> bool:
        return self.painted > 0

    @property
    def work(self) -> float:
        return 1e-5 * (self.count - self.painted)

    def execute(self, budget: float) -> None:
        self.painted = min(self.painted + 1, self.count)

    def publish(self) -> Told | None:
        return self.show(self.painted)

    def show(self, upto: int) -> Told | None:
        engine = self.engine
        for amount in self.command.amounts[engine.seq - self.first_seq + 1 : upto]:
            engine.total += amount
            engine.seq += 1
            if len(self.kept) < self._room:
                self.kept.append(engine.total)
        self._total = engine.total
        self.done = upto == self.count
        return None if self.silent else Told(engine.seq, engine.total)

    def response_fields(self) -> dict[str, Any]:
        return {"total": self._total}

    def cancel(self) -> None:
        self.engine.latest = self._before
        self.engine.next_seq = self.first_seq


class LimitPlan(CounterPlan):
    """Another limit; none where it stays."""

    def __init__(self, engine: Counter, command: Limit) -> None:
        self._before = engine.latest_config
        super().__init__(engine, command, int(command.most != self._before.most))
        engine.latest_config = self._config = self._before._replace(most=command.most)
        self.done = not self.count

    def publish(self) -> Told | None:
        self.engine.config = self._config
        self.engine.seq = self.last_seq
        self.done = True
        return None

    def cancel(self) -> None:
        self.engine.latest_config = self._before
        self.engine.next_seq = self.first_seq


class CapturePlan(CounterPlan):
    """A copy of the state."""

    def __init__(self, engine: Counter, journal: bool) -> None:
        super().__init__(engine, None, 0)
        self._journal = journal
        self.captured: State | None = None

    def publish(self) -> Told | None:
        self.captured = State(self.engine.config, self.engine.seq, self.engine.total)
        self.engine.notes = [] if self._journal else None
        return super().publish()


class AddGroup:
    """Several additions in one pass."""

    def __init__(self, plans: Sequence[AddPlan]) -> None:
        self.plans = plans

    @property
    def done(self) -> bool:
        return all(plan.done for plan in self.plans)

    def execute(self, budget: float) -> None:
        for plan in self.plans:
            plan.painted = plan.count

    def publish(self) -> Told | None:
        told = None
        for plan in self.plans:
            told = plan.show(plan.count)
        return told


class CounterType(ResourceType):
    """Counters, and how many passes took several additions at once."""

    prefix = "counters/"
    noun = "counter"

    def __init__(self) -> None:
        super().__init__()
        self.groups = 0

    def make(self, config: Config, first_seq: int) -> Counter:
        return Counter(config, first_seq)

    def change(self, engine: Counter, config: Config) -> CounterPlan:
        if config.what != engine.latest_config.what:
            raise Refused([Fault("what", f"the counter stands with {engine.latest_config.what!r}", "different")])
        return engine.prepare(Limit(config.most))

    def combine(self, jobs: Sequence[AddPlan]) -> AddGroup:
        self.groups += 1
        return AddGroup(jobs)

    @staticmethod
    def encode(command: Any, count: int) -> Iterable[Part]:
        match command:
            case Create():
                return [rows.small("create", count, command.config._asdict())]
            case Drop():
                return [rows.small("drop", count, {})]
            case Limit():
                return [rows.small("limit", count, {"most": command.most})]
        if count > rows.PART:
            return rows.cut("add" + ARROW, pa.table({"amount": command.amounts}))
        return [rows.small("add", count, {"amounts": command.amounts})]

    @staticmethod
    def decode(parts: list[tuple[str, bytes]]) -> Any:
        name = parts[0][0].removesuffix(MORE)
        try:
            if name == "add" + ARROW:
                return Add(rows.joined([payload for _, payload in parts])["amount"].to_pylist())
            fields = rows.fields_of(parts[0][1])
            made = {"create": lambda: Create(Config(**fields)), "drop": Drop, "limit": lambda: Limit(**fields)}
            return {**made, "add": lambda: Add(**fields)}[name]()
        except rows.UNREADABLE as error:
            raise Damaged(f"a {name} command in the log cannot be read: {error}") from error

    @staticmethod
    def state_of(captured: State) -> State:
        return captured

    @staticmethod
    def write_state(draft: Draft, name: str, state: State) -> dict[str, Any]:
        with draft.file(f"{CounterType.prefix}{name}/total.json") as out:
            out.write(json.dumps(state.total).encode())
        return {"seq": state.seq, "config": state.config._asdict()}

    @staticmethod
    def read_state(folder: Folder, name: str, about: dict[str, Any]) -> State:
        with folder.open(f"{CounterType.prefix}{name}/total.json") as file:
            try:
                return State(Config(**about["config"]), about["seq"], json.loads(file.read()))
            except json.JSONDecodeError as error:
                raise DamagedFolder(f"{folder}: {error}") from error

    def engine_of(self, state: State, image: None) -> Counter:
        engine = Counter(state.config, state.seq)
        engine.total = engine.latest = state.total
        return engine

    def sizes(self, engine: Counter) -> dict[str, int]:
        return {"seq": engine.seq, "total": engine.total}
