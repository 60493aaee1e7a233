"""The resources of one type by their names without prefix; the writer and the catalog use full names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from app.resources.base import Job, ResourceType
from app.write_path.catalog import Catalog
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton, Submission, Writer

T = TypeVar("T")
J = TypeVar("J", bound=Job)
EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")


class Resources(Generic[EngineT, ConfigT]):
    """The catalog and the writer for one resource type.

    Methods that write return and raise what the writer's methods of the same name do.
    """

    def __init__(self, resource_type: ResourceType, catalog: Catalog, writer: Writer) -> None:
        self.resource_type = resource_type
        self.prefix = resource_type.prefix
        self._catalog = catalog
        self._writer = writer

    def get(self, name: str) -> EngineT | None:
        """The engine for reads, or None. Raises NotReady: it has failed and is not rebuilt yet."""
        self._writer.check(self.prefix + name)
        found: EngineT | None = self._catalog.engine(self.prefix + name)
        return found

    def latest(self, name: str) -> EngineT:
        """The engine for the next command. Raises Refused (missing), and as `get`."""
        resource = self.prefix + name
        self._writer.check(resource)
        found: EngineT = self._catalog.latest(resource)
        return found

    def names(self) -> list[str]:
        """The names of existing resources, in order, without those that have failed and are not rebuilt yet."""
        begin, failed = len(self.prefix), self._writer.failed()
        return [resource[begin:] for resource in self._catalog.names(self.prefix) if resource not in failed]

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
        requests: Callable[[Any], Iterable[tuple[Ticket, Skeleton]]] | None = None,
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
            requests=requests,
        )

    def submit_each(
        self, name: str, submissions: Iterable[Submission], reader: EngineT | None = None
    ) -> Awaitable[list[Any]]:
        """Check, log and apply short commands in order; see `Writer.submit_each`."""
        return self._writer.submit_each(self.prefix + name, submissions, reader)

    def put(
        self,
        name: str,
        config: ConfigT,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
    ) -> Awaitable[Any]:
        """Create a resource, or change it to this configuration."""
        return self._writer.put(self.prefix + name, config, ticket, skeleton, then)

    def drop(
        self, name: str, ticket: Ticket | None = None, skeleton: Callable[[Any], Skeleton] | None = None
    ) -> Awaitable[Any]:
        """Delete a resource."""
        return self._writer.drop(self.prefix + name, ticket, skeleton)

    def ask(self, name: str, make: Callable[[EngineT], J], reader: EngineT | None = None) -> Awaitable[J]:
        """Run a read of an engine in the order of its commands."""
        return self._writer.ask(self.prefix + name, make, reader)

    def between(self, name: str, fn: Callable[[], T]) -> Awaitable[T]:
        """Run `fn` on the loop between two slices of this resource."""
        return self._writer.between(self.prefix + name, fn)
