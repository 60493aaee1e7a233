"""Maintenance of one resource type: packing its indexes from a snapshot, and verifying them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from app.resources.work import Job
from formats.folder import Draft, Folder
from formats.parts import read_image, write_image


class Checked(Protocol):
    """The progress of a verification, as `indexes.boards.verification.Checked`.

    How many lists have been compared since the last one, of how many, how many differences were found, and the first of
    them, named tuples.
    """

    @property
    def compared(self) -> int: ...
    @property
    def of(self) -> int: ...
    @property
    def wrong(self) -> int: ...
    @property
    def differences(self) -> Sequence[Any]: ...


class Fold(Job, Protocol):
    """A job that brings newly packed indexes up to date with what changed since the state was captured.

    They are in place once it has `swapped`, otherwise another fold continues; it is `abandoned` where changes were not
    recorded. `seconds` is what executing took. `release` lets go of the indexes that were in use before, in any thread.
    """

    swapped: bool
    abandoned: bool
    seconds: float

    def release(self) -> None: ...


class IndexMaintenance:
    """Maintenance of a resource type. Engines, states, images and captures are opaque outside it.

    This one is for types that need none: nothing is packed, and nothing is compared.
    """

    spark_rebuild = ""
    """The module of `spark_jobs` that writes an image. Without one it is always packed here."""

    spark_audit = ""
    """The module of `spark_jobs` that compares lists."""

    def churn(self, engine: Any, least: int) -> float:
        """The churn: the share of what is indexed that has changed since it was packed.

        It may exceed 1; 0 where less than `least` is indexed.
        """
        return 0.0

    def packs(self, state: Any) -> bool:
        """Whether there is an image of such a state."""
        return False

    def rows(self, state: Any) -> int:
        """The number of rows that a rebuild packs."""
        raise NotImplementedError

    def pack(self, state: Any) -> Any:
        """The image of a state. In any thread."""
        raise NotImplementedError

    def write_image(self, folder: Folder, resource: str, lsn: int, image: Any) -> None:
        """Write an image. Raises OSError."""
        raise NotImplementedError

    def read_image(self, folder: Folder) -> Any:
        """An image that was written. Raises `formats.folder.Damaged`."""
        raise NotImplementedError

    def fresh(self, image: Any, state: Any) -> Any:
        """The indexes of an image, for `fold`. In any thread."""
        raise NotImplementedError

    def rehearse(self, engine: Any, fresh: Any) -> None:
        """Do what `fold` will do, as far as that makes it shorter, while the engine goes on. In any thread."""

    def fold(self, engine: Any, fresh: Any) -> Fold:
        """A job that puts indexes in place of those in use."""
        raise NotImplementedError

    def rederivation(self) -> Any | None:
        """The command at the end of a rebuild, once the new indexes are in place.

        It recomputes what was decided change by change. None where nothing is decided.
        """
        return None

    def rederived(self, job: Job) -> dict[str, Any]:
        """The result of that command, for the detail of the rebuild."""
        raise NotImplementedError

    def forget(self, engine: Any) -> None:
        """Stop recording changes: no fold will need them."""

    def verify(self, captured: Any) -> Iterator[Checked]:
        """Compare every list of the captured indexes with a scan. In any thread."""
        return iter(())

    def audited(self, captured: Any) -> bool:
        """Whether Spark can do the work of `verify`."""
        return False

    def write_lists(self, draft: Draft, name: str, captured: Any) -> None:
        """Write the lists of the captured indexes, for Spark to compare."""
        raise NotImplementedError


class PackedMaintenance(IndexMaintenance):
    """The maintenance of resource types whose every state has an image, in the files of `formats.parts`."""

    def churn(self, engine: Any, least: int) -> float:
        return self.changed_share(engine) if self.size(engine) >= least else 0.0

    @abstractmethod
    def size(self, engine: Any) -> int:
        """How much is indexed."""

    @abstractmethod
    def changed_share(self, engine: Any) -> float:
        """The share of what is indexed that has changed since it was packed."""

    def packs(self, state: Any) -> bool:
        return True

    def write_image(self, folder: Folder, resource: str, lsn: int, image: Any) -> None:
        write_image(folder, resource, lsn, image)

    def read_image(self, folder: Folder) -> Any:
        return read_image(folder)

    def fold(self, engine: Any, fresh: Any) -> Fold:
        fold: Fold = engine.fold(fresh)
        return fold
