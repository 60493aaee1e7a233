"""The catalog of resources: which exist, which are about to, and where the seq of a deleted one went on."""

from __future__ import annotations

from typing import Any

from app.kinds import Engine, Job, Kind, Kinds
from indexes.commands import Create, Drop, Fault, Refused


class Entry:
    """One resource's place in the catalog. `engine` is what reads see, `latest` what the next command will meet. `name`
    is what comes behind the prefix of its kind."""

    def __init__(self, kind: Kind, name: str) -> None:
        self.kind = kind
        self.name = name
        self.engine: Engine | None = None
        self.latest: Engine | None = None
        self.next_first_seq = 0


class Catalog:
    """All resources by their whole names."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.entries: dict[str, Entry] = {}

    def engine(self, resource: str) -> Any | None:
        """The engine that reads see, or None."""
        entry = self.entries.get(resource)
        return entry.engine if entry is not None else None

    def restore(self, resource: str, engine: Engine | None, next_first_seq: int) -> None:
        """Take up a resource as it was, or (None) one that is deleted and that would go on with this seq. Raises
        `UnknownKind`."""
        entry = self.entries[resource] = Entry(*self.kinds.split(resource))
        entry.engine = entry.latest = engine
        entry.next_first_seq = next_first_seq

    def names(self, prefix: str = "") -> list[str]:
        """The resources that reads see and whose names begin with this, in order."""
        found = self.entries.items()
        return sorted(name for name, entry in found if entry.engine is not None and name.startswith(prefix))

    def latest(self, resource: str, reader: Any = None) -> Any:
        """The engine that the next command will meet, which must be `reader` if that is given: a command means what it
        was read to mean by one engine's configuration. Raises Refused (missing, different)."""
        entry = self.entries.get(resource)
        if entry is None or entry.latest is None:
            kind, name = self.kinds.split(resource)
            raise Refused([Fault(kind.noun, f"there is no {kind.noun} {name!r}", "missing")])
        if reader is not None and entry.latest is not reader:
            kind, name = self.kinds.split(resource)
            raise Refused([Fault(kind.noun, f"{kind.noun} {name!r} was made anew meanwhile", "different")])
        return entry.latest

    def put(self, resource: str, config: Any) -> Job:
        """Accept the making of a resource, or its change to this configuration where it exists.

        Raises Refused: it exists and cannot be changed so.
        """
        entry = self._entry(resource)
        if entry.latest is None:
            return CreateJob(entry, config)
        return entry.kind.change(entry.latest, config)

    def drop(self, resource: str) -> Job:
        """Accept the deletion of a resource. Raises Refused (missing)."""
        engine = self.latest(resource)
        return DropJob(self.entries[resource], engine)

    def replay(self, resource: str, command: Any) -> Job:
        """Accept a command from the log."""
        if isinstance(command, Create):
            return CreateJob(self._entry(resource), command.config)
        if isinstance(command, Drop):
            return self.drop(resource)
        job: Job = self.latest(resource).prepare(command)
        return job

    def _entry(self, resource: str) -> Entry:
        entry = self.entries.get(resource)
        if entry is None:
            entry = self.entries[resource] = Entry(*self.kinds.split(resource))
        return entry


class _Instant:
    """A job without kernel work."""

    alone = True
    work = 0.0

    def __init__(self, command: Any, seq: int) -> None:
        self.command = command
        self.count = 1
        self.first_seq = self.last_seq = seq
        self.done = False
        self.silent = False

    def paint(self, budget: float) -> None:
        pass

    def told(self) -> dict[str, Any]:
        return {}


class Mark(_Instant):
    """A place between two commands: `lsn` is the row of the log before it. Nothing is logged for it."""

    def __init__(self) -> None:
        super().__init__(None, 0)
        self.count = 0
        self.lsn = 0

    def settle(self) -> None:
        self.done = True

    def cancel(self) -> None:
        """Nothing has changed."""


class Note(Mark):
    """A row of the log that changes no resource, but something else that snapshots hold: `about` names it."""

    def __init__(self, about: str) -> None:
        super().__init__()
        self.about = about


class CreateJob(_Instant):
    """A resource on its way into the catalog."""

    def __init__(self, entry: Entry, config: Any) -> None:
        super().__init__(Create(config), entry.next_first_seq)
        self._entry = entry
        self._engine = entry.latest = entry.kind.make(config, self.first_seq)

    def settle(self) -> None:
        self._entry.engine = self._engine
        self.done = True

    def cancel(self) -> None:
        self._entry.latest = None


class DropJob(_Instant):
    """A resource on its way out. Made again, it goes on with the next seq."""

    def __init__(self, entry: Entry, engine: Engine) -> None:
        super().__init__(Drop(), engine.next_seq)
        self._entry = entry
        self._engine = engine
        self._first_before = entry.next_first_seq
        engine.next_seq += 1
        entry.latest = None
        entry.next_first_seq = self.first_seq + 1

    def settle(self) -> None:
        self._entry.engine = None
        self.done = True

    def cancel(self) -> None:
        self._entry.latest = self._engine
        self._entry.next_first_seq = self._first_before
        self._engine.next_seq = self.first_seq
