"""Live standing queries of maps: streams that begin with the answer and go on with every new one, whole."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from app.delivery.feed import RESULT, Entries, Feed, Form, Message, message
from app.delivery.maps_json import located, map_json
from app.delivery.source import Followed, Live, Source, only_changes
from indexes.maps.model import MapConfig
from indexes.maps.views import QueryView, Slice

if TYPE_CHECKING:
    from app.delivery.hub import Hub

MOST_KEPT = 64 << 10
"""Bytes of answers that are kept for readers who come back, beside the latest one. A later answer stands for those
before it, so that what is left out is not missed."""


class LiveMap(Protocol):
    """What the hub asks of a map."""

    @property
    def config(self) -> MapConfig: ...
    @property
    def seq(self) -> int: ...
    def watch(self, id: str) -> None:
        """Tell of a standing query from now on. Raises KeyError."""

    def unwatch(self, id: str) -> None: ...
    def query(self, id: str, answer: bool) -> QueryView | None: ...


class ResultFeed(Feed):
    """A feed that keeps fewer of its messages where they are long."""

    __slots__ = ("_bytes", "_seqs")

    def __init__(self, resource: str, id: str, form: Form, floor: int, keep: int) -> None:
        super().__init__(resource, id, form, floor, keep)
        self._bytes = 0
        self._seqs: deque[int] = deque()

    def publish(self, item: Message, entries: Entries = ()) -> None:
        """As `Feed.publish`; the floor counts all messages."""
        self.published += 1
        kept, seqs = self.kept, self._seqs
        kept.append(item)
        seqs.append(item.seq)
        self._bytes += len(item.block)
        if len(seqs) > self.keep:
            self.floor = seqs.popleft()
        while kept and (kept[0].seq <= self.floor or (len(kept) > 1 and self._bytes > MOST_KEPT)):
            self._bytes -= len(kept.popleft().block)
        for reader in self.readers:
            reader.push(item)


class LiveQuery(Live):
    """One live standing query and its feed."""

    __slots__ = ("results",)
    forms = ("results",)

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.results: Feed | None = None


class FollowedMap(Followed):
    """A map with live standing queries."""

    __slots__ = ("_json",)
    feed = ResultFeed
    by_id: dict[str, LiveQuery]  # type: ignore[assignment]

    def __init__(self, resource: str, engine: LiveMap, hub: Hub) -> None:
        super().__init__(resource, engine, hub)
        self._json = map_json(engine.config)

    def watch(self, id: str) -> LiveQuery:
        self.engine.watch(id)
        return LiveQuery(id)

    def unwatch(self, live: Live) -> None:
        self.engine.unwatch(live.id)

    def forget(self, live: Live) -> None:
        """The engine itself knows no more than `unwatch` tells it."""

    def want(self, live: Live, form: Form, on: bool) -> None:
        """There is one form, and it is what the engine watches for."""

    def begin(self, live: Live, form: Form, fresh: bool) -> Message:
        """The answer as it is now."""
        return self.hub.message(self.seq, "snapshot" if fresh else "reset", self._data([live.id], self.seq)[0])

    def deliver(self, slice: Slice) -> None:
        """O(answers + readers). The answer is the one after the slice."""
        followed = [(id, self.by_id.get(id)) for _, id in slice.results]
        due = [(id, live.results) for id, live in followed if live is not None and live.results is not None]
        for (_, feed), data in zip(due, self._data([id for id, _ in due], slice.last_seq), strict=True):
            feed.publish(message(self.hub.epoch, slice.last_seq, RESULT, data))
            self.hub.count(RESULT, len(feed.readers))
        for seq, id in slice.gone:
            live = self.by_id.get(id)
            if live is not None:
                self.hub.end(self, live, seq)
        self.seq = slice.last_seq

    def _data(self, ids: list[str], seq: int) -> list[str]:
        """What queries hold now, written together: an object may be in the answers of hundreds that are followed."""
        places, answers = [], []
        for id in ids:
            view: QueryView | None = self.engine.query(id, True)
            assert view is not None and view.answer is not None, "it is watched, so it stands"
            places.append(located(view.location))
            answers.append(view.answer)
        texts = self._json.results(answers)
        return [f'{{"seq":{seq},{place},{text}}}' for place, text in zip(places, texts, strict=True)]


class MapSource(Source):
    """Maps."""

    prefix = "maps/"
    noun = "map"
    followed_noun = "query"

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        only_changes(self.noun, form, old, squash)
        return "results"

    def follow(self, resource: str, engine: Any, hub: Hub) -> FollowedMap:
        return FollowedMap(resource, engine, hub)
