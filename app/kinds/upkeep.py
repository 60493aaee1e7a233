"""What maintenance asks of a kind of resource: laying out its indexes anew from a snapshot, and checking them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from app.kinds.jobs import Job
from formats.folder import Draft, Folder


class Checked(Protocol):
    """How many lists have been compared since the last one, of how many, how many differences were found, and the first
    of them, named tuples; `indexes.boards.verify.Checked` is one."""

    @property
    def compared(self) -> int: ...
    @property
    def of(self) -> int: ...
    @property
    def wrong(self) -> int: ...
    @property
    def differences(self) -> Sequence[Any]: ...


class Fold(Job, Protocol):
    """A job that brings newly packed indexes up to date with what changed since the state was captured. They are in
    place once it has `swapped`, otherwise another one goes on; it is `abandoned` where nobody noted what changes.
    `seconds` is what painting took."""

    swapped: bool
    abandoned: bool
    seconds: float


class Upkeep:
    """The upkeep of a kind. Engines, states, images and what was captured are the kind's own.

    As it stands here, for kinds that need none: nothing is packed, and nothing is compared.
    """

    spark_rebuild = ""
    """The module of `spark_jobs` that writes an image. Without one it is always packed here."""

    spark_audit = ""
    """The module of `spark_jobs` that compares lists."""

    def worn(self, engine: Any, least: int) -> float:
        """How much there is to gain from a rebuild, from 0 to 1 and beyond: about the share of what is indexed that has
        changed since. 0 where less than `least` is indexed."""
        return 0.0

    def packs(self, state: Any) -> bool:
        """Whether there is an image of such a state."""
        return False

    def rows(self, state: Any) -> int:
        """What a rebuild lays out anew, counted."""
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

    def fold(self, engine: Any, fresh: Any) -> Fold:
        """A job that puts indexes in place of those in use."""
        raise NotImplementedError

    def rederivation(self) -> Any | None:
        """The command by which a rebuild ends once the new indexes are in place: it decides anew what was decided as
        changes came. None where nothing is decided."""
        return None

    def rederived(self, job: Job) -> dict[str, Any]:
        """What that command came to, for the detail of the rebuild."""
        raise NotImplementedError

    def forget(self, engine: Any) -> None:
        """Note no more what changes: no fold will ask."""

    def verify(self, captured: Any) -> Iterator[Checked]:
        """Compare all that the captured indexes answer with a scan. In any thread."""
        return iter(())

    def audited(self, captured: Any) -> bool:
        """Whether Spark can do the work of `verify`."""
        return False

    def write_lists(self, draft: Draft, name: str, captured: Any) -> None:
        """Write what the captured indexes answer, for Spark to compare."""
        raise NotImplementedError
