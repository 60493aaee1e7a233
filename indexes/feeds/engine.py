"""The engine of a feed: deterministic commands in, the best posts of every subscription out. See
`indexes.core.subscription_engine`.

Besides a `FeedIndex`, which holds subscriptions and their lists, the engine has the ids and texts of posts and
subscriptions, the seq, time limits, and the pending state.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from indexes.core.arrays import Floats
from indexes.core.commands import Fault, Refused
from indexes.core.names import Names
from indexes.core.pending import STRIDE
from indexes.core.pending_subscriptions import Steps
from indexes.core.plan import SamePlan
from indexes.core.subscription_engine import BULK, SubscriptionEngine
from indexes.feeds.commands import (
    AddSubscriptions,
    ChangeSubscription,
    Command,
    DeleteSubscriptions,
    Post,
    SetSubscription,
    Tick,
    Withdraw,
)
from indexes.feeds.config import Query, Subscriptions, SubscriptionState
from indexes.feeds.kernels.subscriptions import ALPHA, ROW, X, Y
from indexes.feeds.kernels.window import NEXT
from indexes.feeds.live_lists import Views
from indexes.feeds.packing import Layout
from indexes.feeds.pending_posts import Before
from indexes.feeds.pending_posts import Undo as PostUndo
from indexes.feeds.plans.maintenance import CapturePlan, FoldPlan
from indexes.feeds.plans.posts import PostPlan, TickPlan, WithdrawPlan
from indexes.feeds.plans.subscriptions import AddPlan, DeletePlan, SetPlan
from indexes.feeds.results import Entry, PostView, SubscriptionView
from indexes.feeds.store import FeedPlan, FeedStore
from indexes.feeds.theta import MOST_K

FEW = 512
"""Posts up to which they are checked in one go where all of them apply."""

FAR = 1e300
"""The greatest absolute value of a coordinate."""


class FeedEngine(FeedStore, SubscriptionEngine[SubscriptionState]):
    """A feed behind the writer: it checks commands and makes their plans, and answers reads."""

    @property
    def published_seq(self) -> int:
        """The seq up to which changes of live subscriptions have been published: `seq`, or less during a step at whose
        end an epoch begins."""
        return self.seq if self.published is None else self.published

    @property
    def _names(self) -> Names:
        return self.names

    @property
    def oldest(self) -> int | None:
        """The time of the oldest post of the window, or None: a window of time loses it when it is as old as that."""
        return self.posts_kept.oldest_at

    # Commands.

    def prepare(self, command: Command, keep: int = 0) -> Any:
        plan = self._accept_plain(command) if isinstance(command, Post) else None
        return super().prepare(command, keep) if plan is None else plan

    def _accept_plain(self, posts: Post) -> PostPlan | None:
        """The plan of posts that are few, and of which it is plain that all apply; otherwise None. O(words)."""
        ids, points, pending = posts.ids, posts.points, self.pending_posts
        if len(ids) > FEW or posts.keywords.faults(True) or not pending.are_new(ids):
            return None
        if posts.keywords.record is None:
            coordinates = points.ravel().tolist()
            # Their length together is that of each at least, and no number where one is none.
            if not math.hypot(*coordinates) <= FAR:
                return None
            points = points + 0.0 if 0.0 in coordinates else points
        self._owner += 1
        undo: PostUndo = []
        before = pending.before
        pending.post_new(self._owner, ids, undo)
        return self._post_plan(posts, points, undo, before)

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[FeedPlan]:
        self._owner += 1
        match command:
            case Post():
                return (yield from self._accept_post(command))
            case Tick():
                return self._accept_tick(command)
            case Withdraw():
                return (yield from self._accept_withdraw(command))
            case AddSubscriptions():
                return (yield from self._accept_add(command, lambda: _wrong(command.subscriptions), AddPlan))
            case SetSubscription():
                return self._accept_set(command, self.latest(command.id))
            case ChangeSubscription():
                return self._accept_change(command)
            case DeleteSubscriptions():
                return (yield from self._accept_delete(command, DeletePlan))

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state, with the buffers if `indexes`. A fold needs no `journal` of later changes."""
        return CapturePlan(self, indexes=indexes)

    def fold(self, layout: Layout) -> FoldPlan:
        """A plan that rebuilds the index of all subscriptions by the word frequencies and the cells of a layout."""
        return FoldPlan(self, layout)

    def settled(self, key: str) -> SubscriptionState | None:
        slot = self.names.find(key)
        return None if slot < 0 else SubscriptionState(self._query(slot), self.ttl.get(key))

    def _query(self, slot: int) -> Query:
        s = self.index.table.arrays
        x, y, alpha = s.row[slot * ROW + np.array([X, Y, ALPHA])].tolist()
        shown = self.listings.shown(slot, self.index.table, self.index.words)
        return Query(shown, (x, y), int(s.k[slot]), alpha)

    def _accept_post(self, command: Post) -> Steps[FeedPlan]:
        wrong_words = partial(command.keywords.faults, True)
        found = (yield wrong_words) if len(command) > BULK else wrong_words()
        faults = [Fault("keywords", reason, index=i) for i, reason in found]
        faults += _outside(command.points)
        wrong = {fault.index for fault in faults}
        pending = self.pending_posts
        undo: PostUndo = []
        kept, before = [], pending.before
        try:
            if faults and not command.skip:
                # Ids are checked all the same, so that all faults are reported.
                wrong = set()
            seen: set[str] = set()
            for i, key in enumerate(command.ids):
                if i not in wrong or command.apart:
                    if pending.find(key) >= 0:
                        twice = key in seen and not command.apart
                        reason = f"{key!r} occurs twice in this request" if twice else f"{key!r} is taken"
                        faults.append(Fault("id", reason, "taken", i))
                    elif i not in wrong:
                        kept.append(i)
                        seen.add(key)
                        pending.post(self._owner, key, undo)
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
            if faults and not command.skip:
                raise Refused(sorted(faults, key=lambda fault: (fault.kind == "taken", fault.index)))
        except (GeneratorExit, Refused):
            pending.roll_back(self._owner, undo, [], before)
            raise
        some = command.take(kept) if faults else command
        plan = self._post_plan(some, some.points + 0.0, undo, before)
        plan.faults, plan.positions = sorted(faults, key=lambda fault: fault.index or 0), kept if faults else None
        return plan

    def _post_plan(self, command: Post, points: Floats, undo: PostUndo, before: Before) -> PostPlan:
        """The plan of posts that are pending, at these places, of which none is -0."""
        pending = self.pending_posts
        at = max(command.at, pending.now)
        if command.ids:
            pending.posted(before.next, at)
        if at != command.at or points is not command.points:
            command = Post(command.ids, command.keywords, points, at, command.payload)
        return PostPlan(self, command, self._owner, undo, before)

    def _accept_tick(self, command: Tick) -> FeedPlan:
        pending, span = self.pending_posts, self.config.span
        now = max(command.at, pending.now)
        if span is None or not pending.expires(now - span):
            return SamePlan(self)
        before = pending.before
        pending.tick(now, now - span)
        return TickPlan(self, Tick(now), self._owner, before)

    def _accept_withdraw(self, command: Withdraw) -> Steps[FeedPlan]:
        pending = self.pending_posts
        undo: PostUndo = []
        found, struck, before = [], [], pending.before
        try:
            for i, key in enumerate(dict.fromkeys(command.ids)):
                number = pending.find(key)
                if number >= 0:
                    found.append(key)
                    struck.append(number)
                    pending.withdraw(self._owner, key, number, undo)
                elif command.must_exist:
                    raise Refused([Fault("id", f"there is no post {key!r}", "missing")])
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
        except (GeneratorExit, Refused):
            pending.roll_back(self._owner, undo, struck, before)
            raise
        return WithdrawPlan(self, Withdraw(found), self._owner, undo, struck, before)

    def _accept_set(self, command: SetSubscription, before: SubscriptionState | None) -> FeedPlan:
        faults = _wrong(Subscriptions.of([self.query_of(command)]))
        if faults:
            raise Refused([Fault(fault.field, fault.reason) for fault in faults])
        x, y = command.location
        query = self.query_of(command)._replace(location=(x + 0.0, y + 0.0))
        after = SubscriptionState(query, command.ttl or None)
        whole = SetSubscription(command.id, *query, after.ttl)
        if before == after:
            return SamePlan(self, whole)
        undo = self._will_be(command.id, after)
        same = before is not None and before.query == query
        return SetPlan(self, whole, self._owner, undo, made=before is None, same=same)

    def _accept_change(self, command: ChangeSubscription) -> FeedPlan:
        before = self._must_exist(command.id)
        named = {field: value for field in Query._fields if (value := getattr(command, field)) is not None}
        ttl = before.ttl if command.ttl is None else command.ttl
        return self._accept_set(SetSubscription(command.id, *before.query._replace(**named), ttl), before)

    # Reads, between two slices.

    def post(self, key: str) -> PostView | None:
        """The post with an id, or None."""
        number = self.posts_kept.find(key)
        return None if number < 0 else self.posts_kept.view(number)

    def posts(self, after: str | None, limit: int) -> list[PostView]:
        """Up to `limit` posts of the window in order of id, after `after`."""
        return self.posts_kept.after(after, limit)

    def subscription(self, key: str, lists: bool = False) -> SubscriptionView | None:
        """The subscription with an id, or None; with its list if `lists`."""
        slot = self.names.find(key)
        if slot < 0:
            return None
        return self._view(key, slot)._replace(list=self._list(slot) if lists else None)

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of id, after `after`, without lists."""
        return [self._view(key, slot) for key, slot in islice(self.names.after(after), limit)]

    def list_of(self, key: str) -> list[Entry]:
        """The list of a subscription, best first. Raises KeyError."""
        return self._list(self._slot(key))

    def _view(self, key: str, slot: int) -> SubscriptionView:
        return SubscriptionView(key, *self._query(slot), self.ttl.get(key), None)

    def _list(self, slot: int) -> list[Entry]:
        numbers, scores = self.index.list(slot)
        return Views(self.posts_kept).entries(numbers.tolist(), scores.tolist())

    def _slot(self, key: str) -> int:
        slot = self.names.find(key)
        if slot < 0:
            raise KeyError(key)
        return slot

    def watch(self, key: str) -> None:
        slot = self._slot(key)
        if slot not in self.live.known:
            self.live.begin(slot, key)
        super().watch(key)

    def unwatch(self, key: str) -> None:
        slot = self.names.find(key)
        if slot >= 0:
            self.live.end(slot)
        super().unwatch(key)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree; no command may be pending. O(everything)."""
        self.check_ids()
        assert not self.pending_posts, "pending state remains"
        self.index.check()
        self.posts_kept.check()
        self.names.ids.check()
        slots = sorted(slot for _, slot in self.names.after(None))
        assert slots == self.index.table.slots().tolist(), "a subscription in part"
        assert self.posts_kept.first == self.index.first, "another window"
        counts = {self.pending_posts.next, self.posts_kept.next, int(self.index.window.size[NEXT])}
        assert len(counts) == 1, "posts are counted wrongly"
        assert self.watched == {known.id for known in self.live.known.values()}, "other lists are followed"
        for slot, known in self.live.known.items():
            entries = self._list(slot)
            ranks = {entry.post.number: (rank, entry.score, entry.post.id) for rank, entry in enumerate(entries, 1)}
            assert ranks == known.ranks, "another list was published"


def _outside(points: Floats) -> list[Fault]:
    size = np.abs(points)
    if size.max(initial=0.0) <= FAR:
        return []
    wrong = ~(size <= FAR).all(axis=1)
    reason = f"coordinates are numbers of at most {FAR:g} in size"
    return [Fault("location", reason, index=i) for i in np.flatnonzero(wrong).tolist()]


def _wrong(some: Subscriptions) -> list[Fault]:
    """The faults of subscriptions."""
    found = [Fault("keywords", reason, index=i) for i, reason in some.keywords.faults(False)]
    found += _outside(some.points)
    k, alpha = (some.k < 1) | (some.k > MOST_K), ~((some.alpha >= 0) & (some.alpha <= 1))
    found += [Fault("k", f"must be from 1 to {MOST_K}", index=i) for i in np.flatnonzero(k).tolist()]
    found += [Fault("alpha", "must be from 0 to 1", index=i) for i in np.flatnonzero(alpha).tolist()]
    return sorted(found, key=lambda fault: fault.index or 0)
