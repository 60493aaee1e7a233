"""What the hub asks of each kind of resource: where one is, what streams of its subscriptions begin with, and how they
are told what a slice changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from app.delivery.feed import Feed, Form, Message
from app.problems import invalid

if TYPE_CHECKING:
    from app.delivery.hub import Hub

T = TypeVar("T")


class LiveResource(Protocol):
    """What the hub itself asks of an engine."""

    @property
    def seq(self) -> int: ...


class Between(Protocol):
    """Runs a function on the loop when no slice of a resource is being painted, and answers what it returned.

    All settled slices have been delivered by then. When the resource is gone meanwhile, it runs all the same.
    """

    def __call__(self, name: str, fn: Callable[[], T], /) -> Awaitable[T]: ...


class Live:
    """One live subscription, with a feed for each form that somebody reads or just read: the attribute of that name."""

    __slots__ = ("id",)
    forms: ClassVar[tuple[Form, ...]]

    def __init__(self, id: str) -> None:
        self.id = id

    def feeds(self) -> list[Feed]:
        """The feeds that there are."""
        return [feed for form in self.forms if (feed := getattr(self, form)) is not None]


class Followed(ABC):
    """A resource with live subscriptions. `seq` is settled: all messages up to it are in the queues of their readers.

    What touches it happens between two slices. `feed` is what keeps the messages of one form.
    """

    __slots__ = ("by_id", "engine", "hub", "resource", "seq")
    feed: ClassVar[type[Feed]] = Feed

    def __init__(self, resource: str, engine: Any, hub: Hub) -> None:
        self.resource = resource
        self.engine = engine
        self.hub = hub
        self.seq: int = engine.seq
        self.by_id: dict[str, Live] = {}

    @abstractmethod
    def watch(self, id: str) -> Live:
        """Begin to keep what a subscription's streams need. Raises KeyError when there is no such subscription."""

    @abstractmethod
    def unwatch(self, live: Live) -> None:
        """Nobody reads a subscription any more. It may follow that it is gone, but not the other way round."""

    @abstractmethod
    def forget(self, live: Live) -> None:
        """A subscription is live no longer: `unwatch` was called, or it is gone."""

    @abstractmethod
    def want(self, live: Live, form: Form, on: bool) -> None:
        """A form of a live subscription is read from now on, or no longer."""

    @abstractmethod
    def begin(self, live: Live, form: Form, fresh: bool) -> Message:
        """What a stream begins with: `fresh` streams have no position to go on from, the others had one in vain."""

    def told(self, feed: Feed) -> int:
        """The seq up to which all readers of a feed have been told everything, or have it in the queue."""
        return self.seq

    @abstractmethod
    def deliver(self, slice: Any) -> None:
        """Tell all readers what a slice changed."""


class Source(ABC):
    """One kind of resource. `prefix` is how the names of its resources begin, `noun` what one is called, and
    `followed_noun` what is followed of it."""

    prefix: ClassVar[str]
    noun: ClassVar[str]
    followed_noun: ClassVar[str] = "subscription"

    def __init__(self, find: Callable[[str], LiveResource | None], between: Between) -> None:
        self.find = find
        self.between = between

    @property
    def scope(self) -> str:
        """The scope that a key needs to read its streams."""
        return f"{self.prefix[:-1]}:read"

    @abstractmethod
    def form(self, form: str, old: bool, squash: float | None) -> Form:
        """The form of a stream that is asked for so. Raises the problem 422 for what this kind does not have."""

    @abstractmethod
    def follow(self, resource: str, engine: Any, hub: Hub) -> Followed:
        """A resource of this kind, to be followed."""


def only_changes(noun: str, form: str, old: bool, squash: float | None) -> None:
    """Refuse, with the problem 422, what only streams of lists have."""
    if form != "changes":
        raise invalid("form", f"must be changes: a {noun} has no tiles")
    if old:
        raise invalid("old", "goes with boards only")
    if squash is not None:
        raise invalid("squash", "goes with boards only")
