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
    """One live subscription. Its channels are the attributes named as the forms, None while a form is not read."""

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
    """A resource with live subscriptions, whose messages up to `seq` are in the queues of their readers.

    Used between two slices only. `channel` is the class of channels.
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
        """Make a subscription live in the engine. Raises KeyError for an unknown one."""

    @abstractmethod
    def unwatch(self, live: LiveSubscription) -> None:
        """Undo `watch` for a subscription that has lost its last reader, and may have been deleted."""

    @abstractmethod
    def forget(self, live: LiveSubscription) -> None:
        """Drop what is kept here of a subscription that is no longer live, after `unwatch` or its deletion."""

    @abstractmethod
    def set_active(self, live: LiveSubscription, form: Form, on: bool) -> None:
        """Note that a form of a live subscription is read from now on (`on`), or no longer."""

    @abstractmethod
    def first_message(self, live: LiveSubscription, form: Form, fresh: bool) -> Message:
        """The first message of a stream that is `fresh`, or whose cursor cannot be resumed."""

    def delivered_seq(self, channel: Channel) -> int:
        """The seq up to which all readers of a channel have every message, sent or in the queue."""
        return self.seq

    def missed(self, live: LiveSubscription, form: Form, after: int) -> list[Message] | None:
        """The messages since a seq, if they can be made although none were kept; None if they cannot."""
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
