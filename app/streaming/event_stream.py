"""Live subscriptions without a list: their streams carry single events, such as what a subscription won.

A fresh stream begins with `ready`, and one that may have missed something with `reset`. A resource type says what an
event is called, which there are in a slice, and how one is written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from app.streaming.buffer import READY, Channel, Form, Message, message
from app.streaming.protocols import LiveResource, LiveSubscription, Source, StreamHub, only_changes


class StreamEvent(Protocol):
    """One event for the live subscription `id`."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...


class EventEngine(Protocol):
    """What the hub needs of an engine whose subscriptions get single events."""

    @property
    def seq(self) -> int: ...
    def watch(self, key: str) -> None:
        """Report events of a subscription from now on. Raises KeyError."""

    def unwatch(self, key: str) -> None: ...


class LiveEvents(LiveSubscription):
    """One live subscription and its channel."""

    __slots__ = ("events",)
    forms = ("events",)

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.events: Channel | None = None


class LiveEventResource(LiveResource):
    """A resource with live subscriptions."""

    __slots__ = ()
    event: ClassVar[str]
    by_id: dict[str, LiveEvents]  # type: ignore[assignment]

    def __init__(self, resource: str, engine: EventEngine, hub: StreamHub) -> None:
        super().__init__(resource, engine, hub)

    @abstractmethod
    def events(self, slice: Any) -> Iterable[Any]:
        """The events of a slice, each a `StreamEvent`, in order of seq."""

    @abstractmethod
    def write(self, event: Any) -> str:
        """The data of its message in JSON."""

    def watch(self, id: str) -> LiveEvents:
        self.engine.watch(id)
        return LiveEvents(id)

    def unwatch(self, live: LiveSubscription) -> None:
        self.engine.unwatch(live.id)

    def forget(self, live: LiveSubscription) -> None:
        """`unwatch` is all that the engine needs."""

    def set_active(self, live: LiveSubscription, form: Form, on: bool) -> None:
        """There is one form."""

    def first_message(self, live: LiveSubscription, form: Form, fresh: bool) -> Message:
        """Nothing but the seq."""
        return self.hub.message(self.seq, READY if fresh else "reset", f'{{"seq":{self.seq}}}')

    def deliver(self, slice: Any) -> None:
        """O(events + readers)."""
        # Both come in order of seq, and one command makes either events or deleted subscriptions.
        for event in self.events(slice):
            self._publish(event)
        for seq, id in slice.gone:
            live = self.by_id.get(id)
            if live is not None:
                self.hub.end(self, live, seq)
        self.seq = slice.last_seq

    def _publish(self, event: StreamEvent) -> None:
        live = self.by_id.get(event.id)
        if live is not None and live.events is not None:
            live.events.publish(message(self.hub.epoch, event.seq, self.event, self.write(event)))
            self.hub.count(self.event, len(live.events.readers))


class EventSource(Source):
    """A resource type whose subscriptions have no lists."""

    live_resource: ClassVar[type[LiveEventResource]]

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        only_changes(self.noun, form, old, squash)
        return "events"

    def live(self, resource: str, engine: Any, hub: StreamHub) -> LiveEventResource:
        return self.live_resource(resource, engine, hub)
