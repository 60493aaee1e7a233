"""Live standing queries of maps: streams that begin with the result and continue with every new one, whole."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from app.rendering.maps import located, map_json
from app.streaming.buffer import RESULT, Channel, Entries, Form, Message, message
from app.streaming.protocols import LiveResource, LiveSubscription, Source, StreamHub, only_changes
from indexes.maps.config import MapConfig
from indexes.maps.results import QueryView, Slice

MOST_KEPT = 64 << 10
"""Bytes of results that are kept for readers who resume, besides the latest one. A result replaces those before it, so
that dropping older ones loses nothing."""


class StreamedMap(Protocol):
    """What the hub needs of a map."""

    @property
    def config(self) -> MapConfig: ...
    @property
    def seq(self) -> int: ...
    def watch(self, id: str) -> None:
        """Report results of a standing query from now on. Raises KeyError."""

    def unwatch(self, id: str) -> None: ...
    def query(self, id: str, answer: bool) -> QueryView | None: ...


class ResultChannel(Channel):
    """A channel that keeps fewer of its messages where they are long."""

    __slots__ = ("_seqs",)

    def __init__(self, resource: str, id: str, form: Form, floor: int, keep: int) -> None:
        super().__init__(resource, id, form, floor, keep)
        self._seqs: deque[int] = deque()

    def publish(self, item: Message, entries: Entries = ()) -> None:
        """As `Channel.publish`; the floor counts all messages."""
        self._seqs.append(item.seq)
        super().publish(item, entries)

    def keep_less(self) -> None:
        """As `Channel.keep_less`; the floor is the last seq that is not kept, whether its message was or not."""
        log, seqs, floor = self.log, self._seqs, self._floor
        while len(seqs) > self.keep:
            floor = seqs.popleft()
        while log and (log[0] <= floor or (len(log) > 2 and self._nbytes > MOST_KEPT)):
            self.drop_oldest(1)
        self._floor = floor


class LiveQuery(LiveSubscription):
    """One live standing query and its channel."""

    __slots__ = ("results",)
    forms = ("results",)

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.results: Channel | None = None


class LiveMap(LiveResource):
    """A map with live standing queries."""

    __slots__ = ("_json",)
    channel = ResultChannel
    by_id: dict[str, LiveQuery]  # type: ignore[assignment]

    def __init__(self, resource: str, engine: StreamedMap, hub: StreamHub) -> None:
        super().__init__(resource, engine, hub)
        self._json = map_json(engine.config)

    def watch(self, id: str) -> LiveQuery:
        self.engine.watch(id)
        return LiveQuery(id)

    def unwatch(self, live: LiveSubscription) -> None:
        self.engine.unwatch(live.id)

    def forget(self, live: LiveSubscription) -> None:
        """`unwatch` is all that the engine needs."""

    def set_active(self, live: LiveSubscription, form: Form, on: bool) -> None:
        """There is one form."""

    def first_message(self, live: LiveSubscription, form: Form, fresh: bool) -> Message:
        """The answer as it is now."""
        return self.hub.message(self.seq, "snapshot" if fresh else "reset", self._data([live.id], self.seq)[0])

    def deliver(self, slice: Slice) -> None:
        """O(answers + readers). The answer is the one after the slice."""
        live_resource = [(id, self.by_id.get(id)) for _, id in slice.results]
        due = [(id, live.results) for id, live in live_resource if live is not None and live.results is not None]
        for (_, channel), data in zip(due, self._data([id for id, _ in due], slice.last_seq), strict=True):
            channel.publish(message(self.hub.epoch, slice.last_seq, RESULT, data))
            self.hub.count(RESULT, len(channel.readers))
        for seq, id in slice.gone:
            live = self.by_id.get(id)
            if live is not None:
                self.hub.end(self, live, seq)
        self.seq = slice.last_seq

    def _data(self, ids: list[str], seq: int) -> list[str]:
        """The present results, written together: an object may be in hundreds of them."""
        places, answers = [], []
        for id in ids:
            view: QueryView | None = self.engine.query(id, True)
            assert view is not None and view.answer is not None, "it is watched, so it exists"
            places.append(located(view.location))
            answers.append(view.answer)
        texts = self._json.results(answers)
        return [f'{{"seq":{seq},{place},{text}}}' for place, text in zip(places, texts, strict=True)]


class MapSource(Source):
    """Maps."""

    prefix = "maps/"
    noun = "map"
    subscription_noun = "query"
    replays = False
    """Answers are worked out again only when the log has been replayed."""

    def has(self, engine: Any, id: str) -> bool:
        return bool(engine.query(id, False) is not None)

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        only_changes(self.noun, form, old, squash)
        return "results"

    def live(self, resource: str, engine: Any, hub: StreamHub) -> LiveMap:
        return LiveMap(resource, engine, hub)
