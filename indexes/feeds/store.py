"""The state of a feed, and the changes that plans make to it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from indexes.core.arrays import Ints, run_lengths
from indexes.core.cost import Cost
from indexes.core.names import Names
from indexes.core.plan import Plan
from indexes.core.steps import run_all
from indexes.core.subscription_engine import SubscriptionStore
from indexes.feeds.commands import SetSubscription
from indexes.feeds.config import FeedConfig, Query, Subscriptions, SubscriptionState
from indexes.feeds.feed import FeedIndex
from indexes.feeds.listings import Listings
from indexes.feeds.live_lists import Live
from indexes.feeds.pending_posts import PendingPosts
from indexes.feeds.posts import Posts

FORGET_FROM = 65_536
"""Words beyond twice those in use when words were forgotten last, from which on they are forgotten again."""


class FeedStore(SubscriptionStore[SubscriptionState]):
    """Posts of a window, and subscriptions to the best of them. `now` is the time of the last post or tick; `published`
    is the seq up to which changes of live subscriptions have been published, None for `seq`."""

    def __init__(self, config: FeedConfig, first_seq: int = 0) -> None:
        super().__init__(first_seq)
        self.config = config
        self.now = 0
        self.published: int | None = None
        self.index = FeedIndex(config)
        self.posts_kept = Posts()
        self.names = Names()
        self.listings = Listings()
        self.live = Live(self.index, self.posts_kept)
        self.pending_posts = PendingPosts(config.posts, self.posts_kept, self.now)
        self.post_cost, self.withdraw_cost = Cost(2e-4, apart=1e-4), Cost(1e-3)
        self.subscribe_cost, self.drop_cost = Cost(1e-4), Cost(2e-5)
        self._words_kept = 0

    @property
    def post_count(self) -> int:
        return len(self.posts_kept)

    @property
    def subscription_count(self) -> int:
        return len(self.names)

    def enter(self, some: Subscriptions, lay_out: bool = True) -> Ints:
        """Add subscriptions, and evaluate them; returns their slots. See `FeedIndex.subscribe_steps`."""
        index, shown = self.index, some.keywords.shown()
        documents = index.documents_of(some.keywords)
        slots = run_all(index.subscribe_steps(documents, some.points + 0.0, some.k, some.alpha, lay_out))
        self.listings.put(slots, shown, index.words)
        return slots

    def expect(self, some: Subscriptions) -> None:
        """Make room, and no more, for subscriptions to come. O(n)."""
        words, table = run_lengths(some.keywords.end), self.index.table
        table.expect(words, some.k)
        self.listings.expect(table.end + len(some), int(words.sum()))

    def put(self, some: Subscriptions) -> Ints:
        """Add subscriptions with empty lists; returns their slots. See `FeedIndex.put`."""
        index, shown = self.index, some.keywords.shown()
        documents = index.documents_of(some.keywords)
        slots = index.put(documents, some.points + 0.0, some.k, some.alpha)
        self.listings.put(slots, shown, index.words)
        return slots

    def change(self, slot: int, one: Subscriptions) -> None:
        """Replace a subscription, and evaluate it."""
        index, shown, slots = self.index, one.keywords.shown(), np.array([slot])
        documents = index.documents_of(one.keywords)
        index.change(slots, documents, one.points + 0.0, one.k, one.alpha)
        self.listings.remove(slots)
        self.listings.put(slots, shown, index.words)

    def leave(self, slots: Ints) -> None:
        """Remove subscriptions."""
        self.index.remove(slots)
        self.listings.remove(slots)

    def query_of(self, command: SetSubscription) -> Query:
        """The query of a command."""
        return Query(command.keywords, command.location, command.k, command.alpha)

    def take_up(self, now: int) -> None:
        """Begin with the posts that were loaded; the last of them, or a tick, was at this time."""
        self.now = now
        self.pending_posts = PendingPosts(self.config.posts, self.posts_kept, now)

    def forget_words(self) -> None:
        """Forget words that are not in use, if there are many. No plan holds documents."""
        words = self.index.words
        if words.known > 2 * self._words_kept + FORGET_FROM:
            self.index.forget_words()
            self._words_kept = words.known


FeedPlan: TypeAlias = Plan[FeedStore]
