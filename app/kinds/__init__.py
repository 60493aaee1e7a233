"""The kinds of resource that the service has, each with what the house must know of it to carry it.

The writer, the catalog, snapshots and recovery name a resource by its whole name, ``boards/flights``, as the log and
the manifest do, and ask its kind for everything that differs between kinds. None of them knows which kinds there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from app.kinds.jobs import Capture, Job, Work
from app.kinds.upkeep import Upkeep
from app.metrics import Metrics
from app.storage.database import LogUnavailable
from formats.commands import Part
from formats.folder import Draft, Folder


class UnknownKind(LogUnavailable):
    """A resource of a kind that this version does not have."""


class Engine(Protocol):
    """What the writer needs of an engine, beside what its kind knows: `next_seq` is that of the next command."""

    next_seq: int

    def prepare(self, command: Any, keep: int = 0, /) -> Job:
        """Check a command and reserve its seqs; `keep` outcomes of it are kept. Raises `Refused`."""

    def prepare_steps(self, command: Any, keep: int = 0, /) -> Generator[Callable[[], Any] | None, Any, Job]:
        """As `prepare`, cut into pieces: yields None where others may go first, or a function to run in any thread."""

    def capture(self, journal: bool = False, indexes: bool = False, /) -> Capture:
        """A job that copies the state after all that was accepted so far, with the indexes if asked for. With `journal`
        the engine begins to note what changes, for a rebuild."""


class Kind(ABC):
    """One kind of resource. What the house calls an engine, a state or an image is opaque to it, and the kind's own.

    `prefix` is how the names of its resources begin, `noun` what one is called in messages and faults.

    `upkeep` is what maintenance does with its indexes.

    Callbacks, each with the name behind the prefix: `on_slice` (name, engine, what the job's `settle` returned) when a
    slice is visible, `on_done` (name, work) when a job, or a pass of several, is applied, `on_edit` (name, edit) for
    one of the `edits`, unless `on_done` was replaced, `on_drop` (name, seq) when a resource is deleted.
    """

    prefix: ClassVar[str]
    noun: ClassVar[str]
    upkeep: ClassVar[Upkeep] = Upkeep()
    edits: ClassVar[tuple[type, ...]] = ()

    def __init__(self) -> None:
        self.on_slice: Callable[[str, Any, Any], None] = lambda name, engine, part: None
        self.on_done: Callable[[str, Any], None] = self._done
        self.on_edit: Callable[[str, Any], None] = lambda name, edit: None
        self.on_drop: Callable[[str, int], None] = lambda name, seq: None

    def _done(self, name: str, job: Any) -> None:
        if isinstance(job, self.edits):
            self.on_edit(name, self.edit_of(job))

    def edit_of(self, job: Any) -> Any:
        """What `on_edit` is told of one of the `edits`."""
        return job

    def kernels(self, config: Any) -> tuple[str, ...]:
        """The groups of kernels (`indexes.warming`) that requests to a resource of this configuration need, but for
        those that a request asks for itself."""
        return (f"{self.prefix.rstrip('/')}.main",)

    @abstractmethod
    def make(self, config: Any, first_seq: int) -> Engine:
        """A new engine; its making has the seq `first_seq`."""

    @abstractmethod
    def change(self, engine: Any, config: Any) -> Job:
        """Accept a PUT of a resource that exists. Raises `Refused`."""

    def together(self, jobs: Sequence[Any]) -> Work:
        """One pass for several jobs that are not `alone`."""
        raise NotImplementedError(f"jobs of {self.prefix} are alone")

    def count(self, metrics: Metrics, resource: str, job: Job) -> None:
        """Count a job that was applied."""
        metrics.applied(resource, type(job.command).__name__, job.count)

    @abstractmethod
    def encode(self, command: Any, count: int) -> Iterable[Part]:
        """A command, a `Create` or a `Drop` as rows of the log; `count` is the number of seqs it takes."""

    @abstractmethod
    def decode(self, parts: list[tuple[str, bytes]]) -> Any:
        """The command whose rows these are, by name and payload. Raises `formats.commands.Damaged`."""

    @abstractmethod
    def state_of(self, captured: Any) -> Any:
        """What was captured, as a snapshot holds it. In any thread."""

    @abstractmethod
    def write_state(self, draft: Draft, name: str, state: Any) -> dict[str, Any]:
        """Write a resource's part of a snapshot, below its whole name; returns what the manifest says of it."""

    @abstractmethod
    def read_state(self, folder: Folder, name: str, about: dict[str, Any]) -> Any:
        """A resource's part of a snapshot, whose manifest says `about` it.

        Raises `formats.folder.Damaged`, or KeyError, TypeError, ValueError or AttributeError for a manifest that does
        not say what it should.
        """

    @abstractmethod
    def engine_of(self, state: Any, image: Any | None) -> Engine:
        """The engine of a state, with the indexes of its image where there is one."""

    def ready(self, engine: Any) -> bool:
        """The snapshot and the whole log are in: make what follows from them, before anybody asks. Whether there was
        anything to make."""
        return False

    @abstractmethod
    def sizes(self, engine: Any) -> dict[str, int]:
        """What is said of an engine when it is taken up: its seq, and how much is in it."""


class Kinds:
    """The kinds that a service has."""

    def __init__(self, *kinds: Kind) -> None:
        self._kinds = {kind.prefix: kind for kind in kinds}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def split(self, resource: str) -> tuple[Kind, str]:
        """The kind of a resource, and its name behind the prefix. Raises `UnknownKind`."""
        prefix, slash, name = resource.partition("/")
        kind = self._kinds.get(prefix + slash)
        if kind is None or not name:
            raise UnknownKind(f"{resource[:140]!r} is of a kind that this version does not know")
        return kind, name


__all__ = ["Capture", "Engine", "Job", "Kind", "Kinds", "UnknownKind", "Work"]
