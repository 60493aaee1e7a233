"""Live subscriptions without a list: their streams tell of single occasions, such as what a subscription won.

A fresh stream begins with `ready`, and one that may have missed something with `reset`. A kind of resource says what an
occasion is called, which there are in a slice, and how one is written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from app.delivery.feed import READY, Feed, Form, Message, message
from app.delivery.source import Followed, Live, Source, only_changes

if TYPE_CHECKING:
    from app.delivery.hub import Hub


class Occasion(Protocol):
    """Something that the live subscription `id` is told."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...


class Telling(Protocol):
    """What the hub asks of an engine whose subscriptions are told of occasions."""

    @property
    def seq(self) -> int: ...
    def watch(self, key: str) -> None:
        """Tell of a subscription from now on. Raises KeyError."""

    def unwatch(self, key: str) -> None: ...


class LiveOccasions(Live):
    """One live subscription and its feed."""

    __slots__ = ("occasions",)
    forms = ("occasions",)

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.occasions: Feed | None = None


class FollowedOccasions(Followed):
    """A resource with live subscriptions."""

    __slots__ = ()
    event: ClassVar[str]
    by_id: dict[str, LiveOccasions]  # type: ignore[assignment]

    def __init__(self, resource: str, engine: Telling, hub: Hub) -> None:
        super().__init__(resource, engine, hub)

    @abstractmethod
    def occasions(self, slice: Any) -> Iterable[Any]:
        """What a slice has to tell, each an `Occasion`, in order of seq."""

    @abstractmethod
    def write(self, occasion: Any) -> str:
        """What a stream says of it."""

    def watch(self, id: str) -> LiveOccasions:
        self.engine.watch(id)
        return LiveOccasions(id)

    def unwatch(self, live: Live) -> None:
        self.engine.unwatch(live.id)

    def forget(self, live: Live) -> None:
        """The engine itself knows no more than `unwatch` tells it."""

    def want(self, live: Live, form: Form, on: bool) -> None:
        """There is one form, and it is what the engine watches for."""

    def begin(self, live: Live, form: Form, fresh: bool) -> Message:
        """Nothing but the seq."""
        return self.hub.message(self.seq, READY if fresh else "reset", f'{{"seq":{self.seq}}}')

    def deliver(self, slice: Any) -> None:
        """O(occasions + readers)."""
        # Both come in order of seq, and one command makes either occasions or gone subscriptions.
        for occasion in self.occasions(slice):
            self._tell(occasion)
        for seq, id in slice.gone:
            live = self.by_id.get(id)
            if live is not None:
                self.hub.end(self, live, seq)
        self.seq = slice.last_seq

    def _tell(self, occasion: Occasion) -> None:
        live = self.by_id.get(occasion.id)
        if live is not None and live.occasions is not None:
            live.occasions.publish(message(self.hub.epoch, occasion.seq, self.event, self.write(occasion)))
            self.hub.count(self.event, len(live.occasions.readers))


class OccasionSource(Source):
    """A kind of resource whose subscriptions have no lists."""

    followed: ClassVar[type[FollowedOccasions]]

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        only_changes(self.noun, form, old, squash)
        return "occasions"

    def follow(self, resource: str, engine: Any, hub: Hub) -> FollowedOccasions:
        return self.followed(resource, engine, hub)
