"""The catalog of resources: which exist, which are pending, and the next seq of deleted ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.resources.base import Engine, Job, ResourceType, ResourceTypes
from indexes.core.commands import Create, Drop, Fault, Refused


class Entry:
    """One resource in the catalog.

    `engine` is the one for reads, `latest` the one for the next command. `name` has no prefix.
    """

    def __init__(self, resource_type: ResourceType, name: str) -> None:
        self.resource_type = resource_type
        self.name = name
        self.engine: Engine | None = None
        self.latest: Engine | None = None
        self.next_first_seq = 0

    @property
    def last_seq(self) -> int:
        """The last seq that an accepted command has taken."""
        return self.next_first_seq - 1 if self.latest is None else self.latest.next_seq - 1

    def go_on(self, last_seq: int, dropped: bool = False) -> None:
        """Continue after a seq, as the commands up to it are undone; `dropped`: with the resource deleted."""
        if dropped or self.latest is None:
            self.engine = self.latest = None
            self.next_first_seq = last_seq + 1
        else:
            self.latest.seq = last_seq
            self.latest.next_seq = last_seq + 1


class Catalog:
    """All resources by their full names."""

    def __init__(self, resource_types: ResourceTypes) -> None:
        self.resource_types = resource_types
        self.entries: dict[str, Entry] = {}

    def engine(self, resource: str) -> Any | None:
        """The engine for reads, or None."""
        entry = self.entries.get(resource)
        return entry.engine if entry is not None else None

    def restore(self, resource: str, engine: Engine | None, next_first_seq: int) -> None:
        """Add a recovered resource, or (None) a deleted one with its next seq. Raises `UnknownResourceType`."""
        entry = self.entries[resource] = Entry(*self.resource_types.split(resource))
        entry.engine = entry.latest = engine
        entry.next_first_seq = next_first_seq

    def names(self, prefix: str = "") -> list[str]:
        """The existing resources whose names begin with this, in order."""
        found = self.entries.items()
        return sorted(name for name, entry in found if entry.engine is not None and name.startswith(prefix))

    def latest(self, resource: str, reader: Any = None) -> Any:
        """The engine for the next command, which must be `reader` if that is given.

        A command was read by the configuration of one engine. Raises Refused (missing, different).
        """
        entry = self.entries.get(resource)
        if entry is None or entry.latest is None:
            resource_type, name = self.resource_types.split(resource)
            raise Refused([Fault(resource_type.noun, f"there is no {resource_type.noun} {name!r}", "missing")])
        if reader is not None and entry.latest is not reader:
            resource_type, name = self.resource_types.split(resource)
            raise Refused(
                [Fault(resource_type.noun, f"{resource_type.noun} {name!r} was recreated meanwhile", "different")]
            )
        return entry.latest

    def put(self, resource: str, config: Any) -> Job:
        """Accept the creation of a resource, or its change to this configuration where it exists.

        Raises Refused: it exists and cannot be changed so.
        """
        entry = self.entry(resource)
        if entry.latest is None:
            return CreateJob(entry, config)
        return entry.resource_type.change(entry.latest, config)

    def drop(self, resource: str) -> Job:
        """Accept the deletion of a resource. Raises Refused (missing)."""
        engine = self.latest(resource)
        return DropJob(self.entries[resource], engine)

    def replay(self, resource: str, command: Any) -> Job:
        """Accept a command from the log."""
        if isinstance(command, Create):
            return CreateJob(self.entry(resource), command.config)
        if isinstance(command, Drop):
            return self.drop(resource)
        job: Job = self.latest(resource).prepare(command)
        return job

    def entry(self, resource: str) -> Entry:
        """The entry of a resource, made if there is none. Raises `UnknownResourceType`."""
        entry = self.entries.get(resource)
        if entry is None:
            entry = self.entries[resource] = Entry(*self.resource_types.split(resource))
        return entry


class _InstantJob:
    """A job without kernel work."""

    alone = True
    work = 0.0

    def __init__(self, command: Any, seq: int) -> None:
        self.command = command
        self.count = 1
        self.first_seq = self.last_seq = seq
        self.done = False
        self.silent = False
        self.counted = False

    def lets_begin(self, following: Any) -> bool:
        return False

    def execute(self, budget: float) -> None:
        pass

    def response_fields(self) -> dict[str, Any]:
        return {}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return {}


class Mark(_InstantJob):
    """A position between two commands: `lsn` is the row of the log before it. Not logged."""

    def __init__(self) -> None:
        super().__init__(None, 0)
        self.count = 0
        self.lsn = 0

    def publish(self) -> None:
        self.done = True

    def cancel(self) -> None:
        """Nothing has changed."""


class UndoMark(Mark):
    """A row that undoes the commands of a queue's resource that are in the log and could not be applied; `last_seq` is
    the last seq that they took.
    """

    def __init__(self, queue: Any, last_seq: int) -> None:
        super().__init__()
        self.queue = queue
        self.last_seq = last_seq


class Note(Mark):
    """A row of the log for a change outside the resources that snapshots hold, too: of what, and a number for it."""

    def __init__(self, about: str, number: int = 0) -> None:
        super().__init__()
        self.about = about
        self.number = number


class CreateJob(_InstantJob):
    """The creation of a resource."""

    def __init__(self, entry: Entry, config: Any) -> None:
        super().__init__(Create(config), entry.next_first_seq)
        self._entry = entry
        self._engine = entry.latest = entry.resource_type.make(config, self.first_seq)

    def publish(self) -> None:
        self._entry.engine = self._engine
        self.done = True

    def cancel(self) -> None:
        self._entry.latest = None


class DropJob(_InstantJob):
    """The deletion of a resource. Created again, it continues with the next seq."""

    def __init__(self, entry: Entry, engine: Engine) -> None:
        super().__init__(Drop(), engine.next_seq)
        self._entry = entry
        self._engine = engine
        self._first_before = entry.next_first_seq
        engine.next_seq += 1
        entry.latest = None
        entry.next_first_seq = self.first_seq + 1

    def publish(self) -> None:
        self._entry.engine = None
        self.done = True

    def cancel(self) -> None:
        self._entry.latest = self._engine
        self._entry.next_first_seq = self._first_before
        self._engine.next_seq = self.first_seq


class DropFailedJob(_InstantJob):
    """The deletion of a resource that has failed: all of its log is undone."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(Drop(), entry.last_seq + 1)
        self._entry = entry

    def publish(self) -> None:
        self._entry.go_on(self.last_seq, dropped=True)
        self.done = True

    def cancel(self) -> None:
        """Nothing has changed."""
