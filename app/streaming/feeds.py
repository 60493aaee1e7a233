"""Live subscriptions of feeds: streams that begin with a list of posts and continue with its changes."""

from __future__ import annotations

from typing import Any, Protocol

from app.rendering.feeds import Posts
from app.streaming.buffer import CHANGE, Channel, Form, Message, message
from app.streaming.protocols import LiveResource, LiveSubscription, Source, StreamHub, only_changes
from indexes.feeds.results import Entry, Slice


class StreamedFeed(Protocol):
    """What the hub needs of a feed.

    `published_seq` is the seq up to which live subscriptions got every change; in the middle of a step that is less
    than `seq`, the seq of the present lists.
    """

    @property
    def seq(self) -> int: ...
    @property
    def published_seq(self) -> int: ...
    def watch(self, id: str) -> None:
        """Report changes of a subscription from now on. Raises KeyError."""

    def unwatch(self, id: str) -> None: ...
    def list_of(self, id: str) -> list[Entry]: ...


class PublishedFeed:
    """A feed as the hub uses it: its seq is the one up to which readers got every change."""

    __slots__ = ("feed",)

    def __init__(self, feed: StreamedFeed) -> None:
        self.feed = feed

    @property
    def seq(self) -> int:
        return self.feed.published_seq


class LivePosts(LiveSubscription):
    """One live subscription and its channel.

    `begun` is the seq of the last list that its readers got in the middle of a step: it includes the changes of that
    step.
    """

    __slots__ = ("begun", "changes")
    forms = ("changes",)

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.changes: Channel | None = None
        self.begun = -1


class LiveFeed(LiveResource):
    """A feed with live subscriptions."""

    __slots__ = ()
    by_id: dict[str, LivePosts]  # type: ignore[assignment]

    def watch(self, id: str) -> LivePosts:
        self.engine.feed.watch(id)
        return LivePosts(id)

    def unwatch(self, live: LiveSubscription) -> None:
        self.engine.feed.unwatch(live.id)

    def forget(self, live: LiveSubscription) -> None:
        """`unwatch` is all that the engine needs."""

    def set_active(self, live: LiveSubscription, form: Form, on: bool) -> None:
        """There is one form."""

    def first_message(self, live: LiveSubscription, form: Form, fresh: bool) -> Message:
        """The list as it is now.

        In the middle of a step that is the one after it, and then all readers get it, so that none gets the changes of
        the step twice.
        """
        assert isinstance(live, LivePosts)
        feed = self.engine.feed
        seq = feed.seq
        data = f'{{"seq":{seq},"list":{Posts().list(feed.list_of(live.id))}}}'
        if feed.published_seq < seq:
            if live.changes is not None and live.begun < seq:
                live.changes.restart(message(self.hub.epoch, seq, "reset", data))
                self.hub.count("reset", len(live.changes.readers))
            live.begun = seq
        return self.hub.message(seq, "snapshot" if fresh else "reset", data)

    def delivered_seq(self, channel: Channel) -> int:
        return max(self.seq, self.by_id[channel.id].begun)

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
        def published(name: str) -> PublishedFeed | None:
            engine = find(name)
            return None if engine is None else PublishedFeed(engine)

        super().__init__(published, between)

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        only_changes(self.noun, form, old, squash)
        return "changes"

    def has(self, engine: Any, id: str) -> bool:
        return bool(engine.feed.subscription(id, False) is not None)

    def live(self, resource: str, engine: Any, hub: StreamHub) -> LiveFeed:
        return LiveFeed(resource, engine, hub)
