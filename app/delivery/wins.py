"""Live subscriptions of matchers: streams of the events that a subscription won."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from app.delivery.feed import WIN
from app.delivery.matcher_json import matcher_json
from app.delivery.occasions import FollowedOccasions, OccasionSource, Telling
from indexes.matchers.model import MatcherConfig
from indexes.matchers.views import Slice, Win

if TYPE_CHECKING:
    from app.delivery.hub import Hub


class LiveMatcher(Telling, Protocol):
    """What the hub asks of a matcher."""

    @property
    def config(self) -> MatcherConfig: ...


class FollowedMatcher(FollowedOccasions):
    """A matcher with live subscriptions."""

    __slots__ = ("_json",)
    event = WIN

    def __init__(self, resource: str, engine: LiveMatcher, hub: Hub) -> None:
        super().__init__(resource, engine, hub)
        self._json = matcher_json(engine.config)

    def occasions(self, slice: Slice) -> list[Win]:
        return slice.wins

    def write(self, occasion: Win) -> str:
        return self._json.win(occasion)


class MatcherSource(OccasionSource):
    """Matchers."""

    prefix = "matchers/"
    noun = "matcher"
    followed = FollowedMatcher
