"""Live subscriptions of feeds: streams that begin with a list of posts and go on with its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from app.delivery.feed import CHANGE, Feed, Form, Message, message
from app.delivery.feeds_json import Posts
from app.delivery.source import Followed, Live, Source, only_changes
from indexes.feeds.views import Entry, Slice

if TYPE_CHECKING:
    from app.delivery.hub import Hub


class LiveFeed(Protocol):
    """What the hub asks of a feed. `told_seq` is the seq up to which live subscriptions were told everything; in the
    middle of a step that is less than `seq`, at which a list that is asked for stands."""

    @property
    def seq(self) -> int: ...
    @property
    def told_seq(self) -> int: ...
    def watch(self, id: str) -> None:
        """Tell of a subscription from now on. Raises KeyError."""

    def unwatch(self, id: str) -> None: ...
    def list_of(self, id: str) -> list[Entry]: ...


class Told:
    """A feed as the hub sees it: positions that it gives out are those up to which readers were told."""

    __slots__ = ("feed",)

    def __init__(self, feed: LiveFeed) -> None:
        self.feed = feed

    @property
    def seq(self) -> int:
        return self.feed.told_seq


class LivePosts(Live):
    """One live subscription and its feed. `begun` is the seq of the last list that its readers got in the middle of a
    step: they have what that step will tell."""

    __slots__ = ("begun", "changes")
    forms = ("changes",)

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.changes: Feed | None = None
        self.begun = -1


class FollowedFeed(Followed):
    """A feed with live subscriptions."""

    __slots__ = ()
    by_id: dict[str, LivePosts]  # type: ignore[assignment]

    def watch(self, id: str) -> LivePosts:
        self.engine.feed.watch(id)
        return LivePosts(id)

    def unwatch(self, live: Live) -> None:
        self.engine.feed.unwatch(live.id)

    def forget(self, live: Live) -> None:
        """The engine itself knows no more than `unwatch` tells it."""

    def want(self, live: Live, form: Form, on: bool) -> None:
        """There is one form, and it is what the engine watches for."""

    def begin(self, live: Live, form: Form, fresh: bool) -> Message:
        """The list as it is now. In the middle of a step that is the one after it, and then all readers get it, so that
        none of them hears of the step twice."""
        assert isinstance(live, LivePosts)
        feed = self.engine.feed
        seq = feed.seq
        data = f'{{"seq":{seq},"list":{Posts().list(feed.list_of(live.id))}}}'
        if feed.told_seq < seq:
            if live.changes is not None and live.begun < seq:
                live.changes.restart(message(self.hub.epoch, seq, "reset", data))
                self.hub.count("reset", len(live.changes.readers))
            live.begun = seq
        return self.hub.message(seq, "snapshot" if fresh else "reset", data)

    def told(self, feed: Feed) -> int:
        return max(self.seq, self.by_id[feed.id].begun)

    def deliver(self, slice: Slice) -> None:
        """O(changes + readers), and a post is written once."""
        write, sent = Posts(), 0
        for change in slice.changes:
            live = self.by_id.get(change.id)
            if live is None or live.changes is None or change.seq <= live.begun:
                continue
            data = f'{{"seq":{change.seq},"changes":{write.changes(change.changes)}}}'
            live.changes.publish(message(self.hub.epoch, change.seq, CHANGE, data))
            sent += len(live.changes.readers)
        for seq, id in slice.gone:
            live = self.by_id.get(id)
            if live is not None:
                self.hub.end(self, live, seq)
        self.seq = slice.last_seq
        self.hub.count(CHANGE, sent)


class FeedSource(Source):
    """Feeds."""

    prefix = "feeds/"
    noun = "feed"

    def __init__(self, find: Any, between: Any) -> None:
        def told(name: str) -> Told | None:
            engine = find(name)
            return None if engine is None else Told(engine)

        super().__init__(told, between)

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        only_changes(self.noun, form, old, squash)
        return "changes"

    def follow(self, resource: str, engine: Any, hub: Hub) -> FollowedFeed:
        return FollowedFeed(resource, engine, hub)
