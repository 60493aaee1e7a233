"""The resources of one kind by their own names: the writer and the catalog know them with the prefix of the kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from app.idempotency import Ticket
from app.kinds import Job, Kind
from app.storage.catalog import Catalog
from app.writer import Skeleton, Writer

T = TypeVar("T")
J = TypeVar("J", bound=Job)
EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")


class Resources(Generic[EngineT, ConfigT]):
    """What routes and streams ask of the catalog and the writer. What writes returns what the writer's method of that
    name does, to be awaited, and raises the same."""

    def __init__(self, kind: Kind, catalog: Catalog, writer: Writer) -> None:
        self.kind = kind
        self.prefix = kind.prefix
        self._catalog = catalog
        self._writer = writer

    def get(self, name: str) -> EngineT | None:
        """The engine that reads see, or None."""
        found: EngineT | None = self._catalog.engine(self.prefix + name)
        return found

    def latest(self, name: str) -> EngineT:
        """The engine that the next command will meet. Raises Refused (missing)."""
        found: EngineT = self._catalog.latest(self.prefix + name)
        return found

    def names(self) -> list[str]:
        """The names that reads see, in order."""
        begin = len(self.prefix)
        return [resource[begin:] for resource in self._catalog.names(self.prefix)]

    def submit(
        self,
        name: str,
        command: Any,
        *,
        keep: int = 0,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
        accepted: Callable[[Any], None] | None = None,
        reader: EngineT | None = None,
    ) -> Awaitable[Any]:
        """Check, log and apply a command."""
        return self._writer.submit(
            self.prefix + name,
            command,
            keep=keep,
            ticket=ticket,
            skeleton=skeleton,
            then=then,
            accepted=accepted,
            reader=reader,
        )

    def put(
        self,
        name: str,
        config: ConfigT,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
    ) -> Awaitable[Any]:
        """Make a resource, or change it to this configuration."""
        return self._writer.put(self.prefix + name, config, ticket, skeleton, then)

    def drop(
        self, name: str, ticket: Ticket | None = None, skeleton: Callable[[Any], Skeleton] | None = None
    ) -> Awaitable[Any]:
        """Delete a resource."""
        return self._writer.drop(self.prefix + name, ticket, skeleton)

    def ask(self, name: str, make: Callable[[EngineT], J], reader: EngineT | None = None) -> Awaitable[J]:
        """Give an engine a question, in its turn."""
        return self._writer.ask(self.prefix + name, make, reader)

    def between(self, name: str, fn: Callable[[], T]) -> Awaitable[T]:
        """Run `fn` on the loop at a moment when nothing of this resource is being painted."""
        return self._writer.between(self.prefix + name, fn)
