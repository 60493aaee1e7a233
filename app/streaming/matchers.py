"""Live subscriptions of matchers: streams of the events that a subscription won."""

from __future__ import annotations

from typing import Protocol

from app.rendering.matchers import matcher_json
from app.streaming.buffer import WIN
from app.streaming.event_stream import EventEngine, EventSource, LiveEventResource
from app.streaming.protocols import StreamHub
from indexes.matchers.config import MatcherConfig
from indexes.matchers.results import Slice, Win


class StreamedMatcher(EventEngine, Protocol):
    """What the hub asks of a matcher."""

    @property
    def config(self) -> MatcherConfig: ...


class LiveMatcher(LiveEventResource):
    """A matcher with live subscriptions."""

    __slots__ = ("_json",)
    event = WIN

    def __init__(self, resource: str, engine: StreamedMatcher, hub: StreamHub) -> None:
        super().__init__(resource, engine, hub)
        self._json = matcher_json(engine.config)

    def events(self, slice: Slice) -> list[Win]:
        return slice.wins

    def write(self, win: Win) -> str:
        return self._json.win(win)


class MatcherSource(EventSource):
    """Matchers."""

    prefix = "matchers/"
    noun = "matcher"
    live_resource = LiveMatcher
