"""The interfaces between the hub and the resource types.

They say what streams of a subscription begin with, and how a slice becomes messages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from app.errors import FieldError, Invalid
from app.streaming.buffer import Channel, ChannelReader, Conflation, Form, Message

T = TypeVar("T")


class StreamedEngine(Protocol):
    """What the hub itself needs of an engine."""

    @property
    def seq(self) -> int: ...


class Between(Protocol):
    """Run a function on the loop between two slices of a resource, and return its result.

    All published slices have been delivered by then. If the resource is deleted meanwhile, the function runs all the
    same.
    """

    def __call__(self, name: str, fn: Callable[[], T], /) -> Awaitable[T]: ...


class LiveSubscription:
    """One live subscription, with a channel for each form that is or was just read: the attribute of that name."""

    __slots__ = ("id",)
    forms: ClassVar[tuple[Form, ...]]

    def __init__(self, id: str) -> None:
        self.id = id

    def channels(self) -> list[Channel]:
        """The channels in use."""
        return [channel for form in self.forms if (channel := getattr(self, form)) is not None]


class Conflating(Protocol):
    """What resources and readers need of `app.streaming.conflation.Conflator`."""

    def hold(self, reader: ChannelReader, conflation: Conflation, seq: int, /) -> None: ...
    def release(self, live_resource: LiveResource, /) -> int: ...
    def caught_up(
        self, live_resource: LiveResource, reader: ChannelReader, items: Sequence[Message] = (), /
    ) -> None: ...


class DirectWriter(Protocol):
    """What lone readers need of `app.streaming.connection.Pump`."""

    def write_direct(self, readers: Iterable[Any], texts: Iterable[bytes], pieces: Iterable[bytes], /) -> None: ...


class StreamHub(Protocol):
    """What live resources need of `app.streaming.hub.Hub`."""

    epoch: str

    @property
    def pump(self) -> DirectWriter: ...
    @property
    def conflator(self) -> Conflating: ...
    def message(self, seq: int, event: str, data: str) -> Message: ...
    def count(self, event: str, messages: int) -> None: ...
    def end(self, live_resource: LiveResource, live: LiveSubscription, seq: int) -> None: ...


class LiveResource(ABC):
    """A resource with live subscriptions. All messages up to `seq` are in the queues of their readers.

    Used between two slices only. `channel` is the class that keeps the messages of one form.
    """

    __slots__ = ("by_id", "engine", "hub", "resource", "seq")
    channel: ClassVar[type[Channel]] = Channel

    def __init__(self, resource: str, engine: Any, hub: StreamHub) -> None:
        self.resource = resource
        self.engine = engine
        self.hub = hub
        self.seq: int = engine.seq
        self.by_id: dict[str, LiveSubscription] = {}

    @abstractmethod
    def watch(self, id: str) -> LiveSubscription:
        """Begin to keep what a subscription's streams need. Raises KeyError for an unknown subscription."""

    @abstractmethod
    def unwatch(self, live: LiveSubscription) -> None:
        """A subscription has no readers any more; it may exist or be deleted."""

    @abstractmethod
    def forget(self, live: LiveSubscription) -> None:
        """A subscription is live no longer: `unwatch` was called, or it is gone."""

    @abstractmethod
    def set_active(self, live: LiveSubscription, form: Form, on: bool) -> None:
        """A form of a live subscription is read from now on (`on`), or no longer."""

    @abstractmethod
    def first_message(self, live: LiveSubscription, form: Form, fresh: bool) -> Message:
        """What a stream begins with: a `fresh` one has no cursor, the others have one that cannot be resumed."""

    def delivered_seq(self, channel: Channel) -> int:
        """The seq up to which all readers of a channel have every message, sent or in the queue."""
        return self.seq

    def missed(self, live: LiveSubscription, form: Form, after: int) -> list[Message] | None:
        """What a stream missed since a seq, where its messages were not kept; None where that is not known either."""
        return None

    @abstractmethod
    def deliver(self, slice: Any) -> None:
        """Queue for all readers what a slice changed."""


class Source(ABC):
    """One resource type.

    `prefix` is how the names of its resources begin; `noun` and `subscription_noun` are used in messages. `replays`
    says that live subscriptions get the same messages when the log is replayed.
    """

    prefix: ClassVar[str]
    noun: ClassVar[str]
    subscription_noun: ClassVar[str] = "subscription"
    replays: ClassVar[bool] = True

    def __init__(self, find: Callable[[str], StreamedEngine | None], between: Between) -> None:
        self.find = find
        self.between = between

    def has(self, engine: Any, id: str) -> bool:
        """Whether a resource has a subscription."""
        return bool(engine.subscription(id) is not None)

    @abstractmethod
    def form(self, form: str, old: bool, squash: float | None) -> Form:
        """The form of a stream with these options. Raises the problem 422 for what this resource type does not have."""

    @abstractmethod
    def live(self, resource: str, engine: Any, hub: StreamHub) -> LiveResource:
        """A resource that gets its first live subscription."""


def only_changes(noun: str, form: str, old: bool, squash: float | None) -> None:
    """Refuse, with the problem 422, what only streams of lists have."""
    if form != "changes":
        raise Invalid(FieldError("form", f"must be changes: a {noun} has no tiles"))
    if old:
        raise Invalid(FieldError("old", "goes with boards only"))
    if squash is not None:
        raise Invalid(FieldError("squash", "goes with boards only"))
