"""Resource types: everything that the writer, the catalog, snapshots and recovery need to know of one.

They name a resource by its full name, ``boards/flights``, as the log and the manifest do. None of them knows which
resource types there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from app.errors import LogUnavailable
from app.resources.maintenance import IndexMaintenance
from app.resources.work import Capture, Droppable, Job, Work
from app.runtime.metrics import Metrics
from formats.commands import Part
from formats.folder import Draft, Folder
from indexes.core.commands import Fault, Refused


class UnknownResourceType(LogUnavailable):
    """A resource of a type that this version does not have."""


class Engine(Protocol):
    """What the writer needs of an engine, besides its resource type: `seq` is that of the last applied command,
    `next_seq` that of the next one.
    """

    seq: int
    next_seq: int

    def prepare(self, command: Any, keep: int = 0, /) -> Job:
        """Check a command and reserve its seqs; `keep` outcomes of it are kept. Raises `Refused`."""

    def prepare_steps(self, command: Any, keep: int = 0, /) -> Generator[Callable[[], Any] | None, Any, Job]:
        """As `prepare`, in pieces: yields None where others may run first, or a function to run in any thread."""

    def capture(self, journal: bool = False, indexes: bool = False, /) -> Capture:
        """A job that copies the state after all accepted commands, with `indexes` these too.

        With `journal` the engine begins to record changes, for a rebuild.
        """


class ResourceType(ABC):
    """One resource type. Engines, states and images are opaque outside it.

    `prefix` is how the names of its resources begin, `noun` what one is called in messages and faults; `maintenance`
    is about its indexes; `fixed` are the fields of a configuration that cannot change, with their names in a body;
    `deletion` is the command that deletes subscriptions by their ids.

    Callbacks, each with the name without prefix: `on_slice` (name, engine, what the job's `publish` returned) when a
    slice is visible, `on_done` (name, work) when a job, or a pass of several, is applied, `on_edit` (name, edit) for
    one of the `edits`, unless `on_done` was replaced, `on_drop` (name, seq) when a resource is deleted, `on_rebuilt`
    (name) when one that failed has another engine, in the state that the log says.
    """

    prefix: ClassVar[str]
    noun: ClassVar[str]
    maintenance: ClassVar[IndexMaintenance] = IndexMaintenance()
    edits: ClassVar[tuple[type, ...]] = ()
    fixed: ClassVar[Mapping[str, str]] = {}
    deletion: ClassVar[type[Any]]

    def __init__(self) -> None:
        self.on_slice: Callable[[str, Any, Any], None] = lambda name, engine, part: None
        self.on_done: Callable[[str, Any], None] = self._done
        self.on_edit: Callable[[str, Any], None] = lambda name, edit: None
        self.on_drop: Callable[[str, int], None] = lambda name, seq: None
        self.on_rebuilt: Callable[[str], None] = lambda name: None
        self._edits: dict[type, bool] = {}
        """Whether jobs of a class are among the `edits`."""

    def _done(self, name: str, job: Any) -> None:
        kind = type(job)
        edits = self._edits.get(kind)
        if edits is None:
            # Of abstract classes it takes a while to say this of each job.
            edits = self._edits[kind] = issubclass(kind, self.edits)
        if edits:
            self.on_edit(name, self.edit_of(job))

    def edit_of(self, job: Any) -> Any:
        """What `on_edit` gets of one of the `edits`."""
        return job

    def kernels(self, config: Any) -> tuple[str, ...]:
        """The groups of kernels (`indexes.compiled.warming`) that a resource of this configuration needs.

        Single requests may need more.
        """
        return (f"{self.prefix.rstrip('/')}.main",)

    def job_kernels(self, config: Any) -> tuple[str, ...]:
        """The groups of kernels that snapshots, rebuilds and verification of a resource of this configuration need.

        Another group than that of the main path compiles them itself. Some resource types have none for maintenance.
        """
        groups = self.kernels(config)
        package = self.prefix.rstrip("/")
        return (*groups, f"{package}.maintenance") if groups == (f"{package}.main",) else groups

    @abstractmethod
    def make(self, config: Any, first_seq: int) -> Engine:
        """A new engine; its creation has the seq `first_seq`."""

    def make_room(self, engine: Any) -> None:  # noqa: B027 (most need nothing)
        """Prepare for a capture that comes soon, so that it takes less time in its turn. In any thread."""

    def change(self, engine: Any, config: Any) -> Job:
        """Accept a PUT of an existing resource; unless overridden nothing may change. Raises `Refused`."""
        self.check_fixed(engine.config, config)
        job: Job = engine.keep()
        return job

    def check_fixed(self, present: Any, config: Any) -> None:
        """Compare the `fixed` fields of two configurations. Raises Refused with a fault for each that differs."""
        faults = [
            Fault(name, f"the {self.noun} stands with {self.shown(getattr(present, field))}", "different")
            for field, name in self.fixed.items()
            if getattr(present, field) != getattr(config, field)
        ]
        if faults:
            raise Refused(faults)

    def shown(self, value: Any) -> str:
        """A value of a configuration in messages, a tuple as a list."""
        return repr(list(value) if isinstance(value, tuple) else value)

    def combine(self, jobs: Sequence[Any]) -> Work:
        """Several jobs, none of them `alone`, as one pass of the kernels."""
        raise NotImplementedError(f"jobs of {self.prefix} are alone")

    def lifetimes(self, engine: Any) -> Iterable[tuple[str, float]]:
        """The subscriptions of a resource that have a time to live, and that in seconds."""
        found: Iterable[tuple[str, float]] = engine.ttl.items()
        return found

    def count(self, metrics: Metrics, resource: str, job: Job) -> None:
        """Count a job that was applied."""
        metrics.applied(resource, type(job.command).__name__, job.count)

    @staticmethod
    @abstractmethod
    def encode(command: Any, count: int, /) -> Iterable[Part]:
        """A command, a `Create` or a `Drop` as rows of the log; `count` is the number of seqs it takes."""

    @staticmethod
    @abstractmethod
    def decode(parts: list[tuple[str, bytes]], /) -> Any:
        """The command of rows, by name and payload. Raises `formats.commands.Damaged`."""

    @staticmethod
    @abstractmethod
    def state_of(captured: Any, /) -> Any:
        """The state in a snapshot of what an engine captured. In any thread."""

    @staticmethod
    @abstractmethod
    def write_state(draft: Draft, name: str, state: Any, /) -> dict[str, Any]:
        """Write a resource's part of a snapshot, below its full name; return its entry in the manifest."""

    @staticmethod
    @abstractmethod
    def read_state(folder: Folder, name: str, about: dict[str, Any], /) -> Any:
        """A resource's part of a snapshot by its entry in the manifest.

        Raises `formats.folder.Damaged`, or KeyError, TypeError, ValueError or AttributeError for an invalid entry.
        """

    @abstractmethod
    def engine_of(self, state: Any, image: Any | None) -> Engine:
        """The engine of a state, with the indexes of its image where there is one."""

    def ready(self, engine: Any) -> bool:
        """Compute derived data after recovery, before the first request; whether there was any."""
        return False

    @abstractmethod
    def sizes(self, engine: Any) -> dict[str, int]:
        """What is logged of a recovered engine: its seq, and how much is in it."""


class ResourceTypes:
    """The resource types of a service."""

    def __init__(self, *resource_types: ResourceType) -> None:
        self._resource_types = {resource_type.prefix: resource_type for resource_type in resource_types}

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._resource_types.values())

    def split(self, resource: str) -> tuple[ResourceType, str]:
        """The type of a resource, and its name without the prefix. Raises `UnknownResourceType`."""
        prefix, slash, name = resource.partition("/")
        resource_type = self._resource_types.get(prefix + slash)
        if resource_type is None or not name:
            raise UnknownResourceType(f"{resource[:140]!r} is of a kind that this version does not know")
        return resource_type, name


__all__ = ["Capture", "Droppable", "Engine", "Job", "ResourceType", "ResourceTypes", "UnknownResourceType", "Work"]
