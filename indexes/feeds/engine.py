"""The engine of a feed behind the writer: deterministic commands in, every subscription's best posts out.

    plan = engine.prepare(command)     checked against the state that it will meet; nothing has changed yet
    plan.paint(0.005)                  kernel work, in any one thread
    plan.settle()                      visible now, at engine.seq

`apply` does all of it at once. Over one `FeedIndex`, which holds subscriptions and their lists, it keeps the ids and
texts of posts and subscriptions, the seq, lifetimes, and what is promised but not done. What it answers is read between
two slices. The same commands in the same order give the same lists; no clock or random source is read, save to cut work
into slices.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from indexes.commands import Fault, Refused
from indexes.cost import Cost
from indexes.feeds.coming import Coming
from indexes.feeds.coming import Undo as PostUndo
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
from indexes.feeds.edit_plans import AddPlan, DeletePlan, SetPlan
from indexes.feeds.feed import FeedIndex
from indexes.feeds.listings import Listings
from indexes.feeds.live import Live, Views
from indexes.feeds.model import Asked, FeedConfig, Standing, Subscriptions, bag_of_shown
from indexes.feeds.packing import Layout
from indexes.feeds.plans import Plan, PostPlan, TickPlan, WithdrawPlan
from indexes.feeds.posts import Posts
from indexes.feeds.subscribers import ALPHA, ROW, X, Y
from indexes.feeds.theta import MOST_K
from indexes.feeds.upkeep import CapturePlan, FoldPlan
from indexes.feeds.views import Entry, PostView, Slice, SubscriptionView
from indexes.names import Names
from indexes.overlay import STRIDE
from indexes.plan import SamePlan, applied
from indexes.promised import GONE, Promised, Promises, Steps, Undo, accept_many, run_steps

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

BULK = 4_096
"""From this many on, new subscriptions are checked by their sorted ids, off the loop."""

FAR = 1e300
"""No coordinate is larger in size."""

FORGET_FROM = 65_536
"""Words beyond twice those in use when words were forgotten last, from which on they are forgotten again."""


class FeedEngine:
    """Posts of a window, and subscriptions to the best of them.

    `first_seq` is the seq of the feed's own creation. `ttl` are the time limits of the subscriptions that have one, and
    `now` is the time of the last post or tick.
    """

    def __init__(self, config: FeedConfig, first_seq: int = 0) -> None:
        self.config = config
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.now = 0
        self.untold: int | None = None
        self.index = FeedIndex(config)
        self.posts_kept = Posts()
        self.names = Names()
        self.listings = Listings()
        self.ttl: dict[str, float] = {}
        self.live = Live(self.index, self.posts_kept)
        self.coming = Coming(config.posts, self.posts_kept, self.now)
        self.pending: Promises[Standing] = Promises()
        self.post_cost, self.withdraw_cost = Cost(2e-4), Cost(1e-3)
        self.subscribe_cost, self.drop_cost = Cost(1e-4), Cost(2e-5)
        self._words_kept = 0
        self._owner = 0

    @property
    def post_count(self) -> int:
        return len(self.posts_kept)

    @property
    def subscription_count(self) -> int:
        return len(self.names)

    @property
    def told_seq(self) -> int:
        """The seq up to which live subscriptions have been told everything: `seq`, but before it where a step is under
        way that an epoch ends."""
        return self.seq if self.untold is None else self.untold

    @property
    def watched(self) -> set[str]:
        """The ids of live subscriptions."""
        return {known.id for known in self.live.known.values()}

    @property
    def oldest(self) -> int | None:
        """The time of the oldest post of the window, or None: a window of time loses it when it is as old as that."""
        return self.posts_kept.oldest_at

    # Commands.

    def prepare(self, command: Command, keep: int = 0) -> Plan:
        """Check a command and reserve its seqs. How many lists each post reaches is kept, whatever `keep` says.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        return run_steps(self.prepare_steps(command, keep))

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[Plan]:
        """As `prepare`, cut into pieces: yields None where others may go first, or a function to run in any thread.

        No other command of this feed may be prepared in between.
        """
        self._owner += 1
        match command:
            case Post():
                return (yield from self._accept_post(command))
            case Tick():
                return self._accept_tick(command)
            case Withdraw():
                return (yield from self._accept_withdraw(command))
            case AddSubscriptions():
                return (yield from self._accept_many(command))
            case SetSubscription():
                return self._accept_set(command, self.latest(command.id))
            case ChangeSubscription():
                return self._accept_change(command)
            case DeleteSubscriptions():
                return (yield from self._accept_delete(command))

    def apply(self, command: Command) -> tuple[Plan, list[Slice]]:
        """Prepare, paint and settle a command; returns its plan and what live subscriptions must hear of."""
        return applied(self.prepare(command))

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state, with what every subscription holds if asked for. There is nothing to note for a
        `journal`: see `fold`."""
        return CapturePlan(self, indexes)

    def fold(self, layout: Layout) -> FoldPlan:
        """A plan that lays all subscriptions out anew, by how rare words are and in which cells a layout says."""
        return FoldPlan(self, layout)

    def keep(self) -> Plan:
        """A plan that changes nothing: the answer to a PUT of the configuration that stands."""
        return SamePlan(self)

    def latest(self, key: str) -> Standing | None:
        """A subscription as it will be when everything accepted has been applied."""
        promised = self.pending.get(key)
        return promised.stands if promised is not None else self._settled(key)

    def _settled(self, key: str) -> Standing | None:
        slot = self.names.find(key)
        return None if slot < 0 else Standing(self._asked(slot), self.ttl.get(key))

    def _asked(self, slot: int) -> Asked:
        s = self.index.table.arrays
        x, y, alpha = s.row[slot * ROW + np.array([X, Y, ALPHA])].tolist()
        shown = self.listings.shown(slot, self.index.table, self.index.words)
        return Asked(shown, (x, y), int(s.k[slot]), alpha)

    def _accept_post(self, command: Post) -> Steps[Plan]:
        wrong_words = partial(command.keywords.faults, True)
        found = (yield wrong_words) if len(command) > BULK else wrong_words()
        faults = [Fault("keywords", reason, index=i) for i, reason in found]
        faults += _outside(command.points)
        wrong = {fault.index for fault in faults}
        coming = self.coming
        undo: PostUndo = []
        kept, before = [], coming.before
        try:
            if faults and not command.skip:
                # Ids are looked at all the same: all that is wrong is said.
                wrong = set()
            seen: set[str] = set()
            for i, key in enumerate(command.ids.to_pylist()):
                if i not in wrong:
                    if coming.find(key) >= 0:
                        twice = key in seen
                        reason = f"{key!r} stands twice in this request" if twice else f"{key!r} is taken"
                        faults.append(Fault("id", reason, "taken", i))
                    else:
                        kept.append(i)
                        seen.add(key)
                        coming.post(self._owner, key, undo)
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
            if faults and not command.skip:
                raise Refused(sorted(faults, key=lambda fault: (fault.kind == "taken", fault.index)))
        except (GeneratorExit, Refused):
            coming.take_back(self._owner, undo, [], before)
            raise
        some = command.take(kept) if faults else command
        some = Post(some.ids, some.keywords, some.points + 0.0, max(command.at, coming.now), some.payload)
        if kept:
            coming.posted(before.next, some.at)
        plan = PostPlan(self, some, self._owner, undo, before)
        plan.faults, plan.positions = sorted(faults, key=lambda fault: fault.index or 0), kept if faults else None
        return plan

    def _accept_tick(self, command: Tick) -> Plan:
        coming, span = self.coming, self.config.span
        now = max(command.at, coming.now)
        if span is None or not coming.expires(now - span):
            return SamePlan(self)
        before = coming.before
        coming.tick(now, now - span)
        return TickPlan(self, Tick(now), self._owner, before)

    def _accept_withdraw(self, command: Withdraw) -> Steps[Plan]:
        coming = self.coming
        undo: PostUndo = []
        found, struck, before = [], [], coming.before
        try:
            for i, key in enumerate(dict.fromkeys(command.ids)):
                number = coming.find(key)
                if number >= 0:
                    found.append(key)
                    struck.append(number)
                    coming.withdraw(self._owner, key, number, undo)
                elif command.must_exist:
                    raise Refused([Fault("id", f"there is no post {key!r}", "missing")])
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
        except (GeneratorExit, Refused):
            coming.take_back(self._owner, undo, struck, before)
            raise
        return WithdrawPlan(self, Withdraw(found), self._owner, undo, struck, before)

    def _accept_set(self, command: SetSubscription, before: Standing | None) -> Plan:
        faults = _wrong(Subscriptions.of([self.asked_of(command)]))
        if faults:
            raise Refused([Fault(fault.field, fault.reason) for fault in faults])
        x, y = command.location
        asked = self.asked_of(command)._replace(location=(x + 0.0, y + 0.0))
        after = Standing(asked, command.ttl or None)
        whole = SetSubscription(command.id, *asked, after.ttl)
        if before == after:
            return SamePlan(self, whole)
        undo: Undo[Standing] = []
        self.pending.put(self._owner, command.id, Promised(None, after), undo)
        same = before is not None and before.asked == asked
        return SetPlan(self, whole, self._owner, undo, made=before is None, same=same)

    def _accept_change(self, command: ChangeSubscription) -> Plan:
        before = self.latest(command.id)
        if before is None:
            raise Refused([Fault("id", f"there is no subscription {command.id!r}", "missing")])
        named = {field: value for field in Asked._fields if (value := getattr(command, field)) is not None}
        ttl = before.ttl if command.ttl is None else command.ttl
        return self._accept_set(SetSubscription(command.id, *before.asked._replace(**named), ttl), before)

    def _accept_delete(self, command: DeleteSubscriptions) -> Steps[Plan]:
        undo: Undo[Standing] = []
        found = []
        try:
            for i, key in enumerate(dict.fromkeys(command.ids)):
                if self._will_stand(key):
                    found.append(key)
                    self.pending.put(self._owner, key, GONE, undo)
                elif command.must_exist:
                    raise Refused([Fault("id", f"there is no subscription {key!r}", "missing")])
                # An id of the sorted base takes some microseconds to find.
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
        except (GeneratorExit, Refused):
            self.pending.take_back(self._owner, undo)
            raise
        return DeletePlan(self, DeleteSubscriptions(found), self._owner, undo)

    def _will_stand(self, key: str) -> bool:
        promised = self.pending.get(key)
        return promised is not GONE if promised is not None else self.names.find(key) >= 0

    def _accept_many(self, command: AddSubscriptions) -> Steps[Plan]:
        """Nothing changes before it returns."""
        accepted = yield from accept_many(
            command,
            lambda: _wrong(command.subscriptions),
            lambda: self.names,
            self.pending,
            self._will_stand,
            BULK,
        )
        undo: Undo[Standing] = []
        self.pending.put_all(self._owner, accepted.command, accepted.packed, undo)
        plan = AddPlan(self, accepted.command, self._owner, undo)
        plan.faults, plan.positions = accepted.faults, accepted.positions
        return plan

    # What plans do.

    def enter(self, some: Subscriptions, lay_out: bool = True) -> Int64:
        """Subscriptions come and are evaluated; returns their slots. See `FeedIndex.subscribe_steps`."""
        index, shown = self.index, some.keywords.shown()
        documents = index.documents([bag_of_shown(one) for one in shown])
        steps = index.subscribe_steps(documents, some.points + 0.0, some.k, some.alpha, lay_out)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                slots: Int64 = stop.value
                break
        self.listings.put(slots, shown, index.words)
        return slots

    def put(self, some: Subscriptions) -> Int64:
        """Subscriptions come that hold nothing yet; returns their slots. See `FeedIndex.put`."""
        index, shown = self.index, some.keywords.shown()
        documents = index.documents([bag_of_shown(one) for one in shown])
        slots = index.put(documents, some.points + 0.0, some.k, some.alpha)
        self.listings.put(slots, shown, index.words)
        return slots

    def change(self, slot: int, one: Subscriptions) -> None:
        """A subscription asks something else, and is evaluated."""
        index, shown, slots = self.index, one.keywords.shown(), np.array([slot])
        documents = index.documents([bag_of_shown(asked) for asked in shown])
        index.change(slots, documents, one.points + 0.0, one.k, one.alpha)
        self.listings.remove(slots)
        self.listings.put(slots, shown, index.words)

    def leave(self, slots: Int64) -> None:
        """Subscriptions go."""
        self.index.remove(slots)
        self.listings.remove(slots)

    def asked_of(self, command: SetSubscription) -> Asked:
        """What a command asks for."""
        return Asked(command.keywords, command.location, command.k, command.alpha)

    def take_up(self, now: int) -> None:
        """Posts were loaded, where there were none; the last of them, or a tick, was at this time."""
        self.now = now
        self.coming = Coming(self.config.posts, self.posts_kept, now)

    def forget_words(self) -> None:
        """Forget words that nobody uses, where there are many. Nothing that was made of words is under way."""
        words = self.index.words
        if words.known > 2 * self._words_kept + FORGET_FROM:
            self.index.forget_words()
            self._words_kept = words.known

    # Reads, between two slices.

    def post(self, key: str) -> PostView | None:
        """The post of an id, or None."""
        number = self.posts_kept.find(key)
        return None if number < 0 else self.posts_kept.view(number)

    def posts(self, after: str | None, limit: int) -> list[PostView]:
        """Up to `limit` posts of the window in order of id, behind `after`."""
        return self.posts_kept.after(after, limit)

    def subscription(self, key: str, lists: bool = False) -> SubscriptionView | None:
        """The subscription of an id, or None; with its list if that is asked for."""
        slot = self.names.find(key)
        if slot < 0:
            return None
        return self._view(key, slot)._replace(list=self._list(slot) if lists else None)

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of id, behind `after`, without lists."""
        return [self._view(key, slot) for key, slot in islice(self.names.after(after), limit)]

    def list_of(self, key: str) -> list[Entry]:
        """The list of a subscription, best first. Raises KeyError."""
        return self._list(self._slot(key))

    def _view(self, key: str, slot: int) -> SubscriptionView:
        return SubscriptionView(key, *self._asked(slot), self.ttl.get(key), None)

    def _list(self, slot: int) -> list[Entry]:
        numbers, scores = self.index.list(slot)
        return Views(self.posts_kept).entries(numbers.tolist(), scores.tolist())

    def _slot(self, key: str) -> int:
        slot = self.names.find(key)
        if slot < 0:
            raise KeyError(key)
        return slot

    def watch(self, key: str) -> None:
        """Tell how a list changes from now on, until the subscription is deleted or watched no longer. Raises
        KeyError."""
        slot = self._slot(key)
        if slot not in self.live.known:
            self.live.begin(slot, key)

    def unwatch(self, key: str) -> None:
        """Tell no more of a subscription."""
        slot = self.names.find(key)
        if slot >= 0:
            self.live.end(slot)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(everything)."""
        assert not self.pending and not self.coming, "something is promised still"
        self.index.check()
        self.posts_kept.check()
        self.names.ids.check()
        slots = sorted(slot for _, slot in self.names.after(None))
        assert slots == self.index.table.slots().tolist(), "a subscription in part"
        assert self.posts_kept.first == self.index.first, "another window"
        assert self.coming.next == self.posts_kept.next == int(self.index.window.size[1]), "posts are counted wrongly"
        assert all(self.names.find(key) >= 0 for key in (*self.ttl, *self.watched)), "a lifetime of nobody"
        for slot, known in self.live.known.items():
            entries = self._list(slot)
            ranks = {entry.post.number: (rank, entry.score, entry.post.id) for rank, entry in enumerate(entries, 1)}
            assert ranks == known.ranks, "readers know another list"


def _outside(points: Float64) -> list[Fault]:
    wrong = ~(np.abs(points) <= FAR).all(axis=1)
    reason = f"coordinates are numbers of at most {FAR:g} in size"
    return [Fault("location", reason, index=i) for i in np.flatnonzero(wrong).tolist()]


def _wrong(some: Subscriptions) -> list[Fault]:
    """What cannot be stored."""
    found = [Fault("keywords", reason, index=i) for i, reason in some.keywords.faults(False)]
    found += _outside(some.points)
    k, alpha = (some.k < 1) | (some.k > MOST_K), ~((some.alpha >= 0) & (some.alpha <= 1))
    found += [Fault("k", f"must be from 1 to {MOST_K}", index=i) for i in np.flatnonzero(k).tolist()]
    found += [Fault("alpha", "must be from 0 to 1", index=i) for i in np.flatnonzero(alpha).tolist()]
    return sorted(found, key=lambda fault: fault.index or 0)
