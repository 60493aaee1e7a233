"""The engine behind the writer.

Commands accepted ahead of their turn, applied in slices, told, and taken back, beside a history of what should stand at
each seq. Lists are held against brute force at every slice, scores bit for bit, and readers who know nothing but what
they were told hold the same.
"""

from __future__ import annotations

from collections import deque
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.core.commands import Refused
from indexes.core.plan import LONG
from indexes.feeds.commands import (
    AddSubscriptions,
    ChangeSubscription,
    DeleteSubscriptions,
    Post,
    SetSubscription,
    Tick,
    Withdraw,
)
from indexes.feeds.config import FeedConfig, Keywords, Query, Subscriptions
from indexes.feeds.engine import FeedEngine
from indexes.feeds.results import Entry, PostView
from indexes.feeds.state import engine_of, layout_of, state_of
from indexes.feeds.verification import verify
from tests.oracles.feed_service import FeedService, Posted, Subscribed
from tests.oracles.feeds import FeedOracle
from tests.support.values import present

BOUNDS = (0.0, 0.0, 4.0, 3.0)
WORDS = [*"abcdefg", "ß", "𝄞", "\uffff"]
POSTS = [f"p{i}" for i in range(14)]
IDS = [f"s{i}" for i in range(6)]

WINDOWS = [
    {"posts": 1},
    {"posts": 3},
    {"posts": 10, "buffer": "kscore"},
    {"posts": 10, "tfidf": False},
    {"posts": 90, "buffer": "kmax"},
    {"span": 1},
    {"span": 6},
    {"span": 6, "tfidf": False, "buffer": "fixed"},
]

words = st.sampled_from(WORDS)
weights = st.sampled_from([1.0, 2.0, 0.3, 1e-300, 1e300])
listed = st.lists(words, min_size=1, max_size=5)
shown = st.one_of(listed, listed, st.dictionaries(words, weights, min_size=1, max_size=4))
coordinates = st.one_of(st.integers(-1, 5).map(float), st.floats(-1, 5), st.sampled_from([1e300, -1e300]))
places = st.tuples(coordinates, coordinates)
asked = st.builds(Query, shown, places, st.sampled_from([1, 2, 3, 20]), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
ttls = st.sampled_from([None, 5.0])
wrong_words = st.sampled_from(
    [["a" * 129], [""], ["a", ""], {"a": 0.0}, {"a": -1.0}, {"a": float("inf")}, ["a"] * 1001]
)
wrong_places = st.sampled_from([(np.nan, 0.0), (0.0, np.inf), (2e300, 0.0)])
post_rows = st.tuples(
    st.sampled_from(POSTS),
    st.one_of(shown, shown, st.just([])),
    places,
    st.sampled_from([None, None, b'{"a":1}', b"7"]),
)


def viewed(post: PostView) -> Posted:
    return Posted(post.number, post.seq, post.id, post.keywords, post.location, post.at, post.payload)


def entries(some: list[Entry]) -> list[tuple[Posted, float]]:
    return [(viewed(entry.post), entry.score) for entry in some]


def subscribed(one: Query, ttl: float | None) -> Subscribed:
    return Subscribed(one.keywords, one.location, one.k, one.alpha, ttl)


def posting(rows: list[Any], at: int, skip: bool) -> Post:
    payload = {i: text for i, (*_, text) in enumerate(rows) if text is not None}
    points = np.array([place for _, _, place, _ in rows], np.float64).reshape(-1, 2)
    keywords = Keywords.of([keywords for _, keywords, *_ in rows])
    return Post([key for key, *_ in rows], keywords, points, at, payload, skip)


class Story(RuleBasedStateMachine):
    """`history[i]` is what stands at seq i; its last entry is what the next command meets."""

    @initialize(window=st.sampled_from(WINDOWS), piece=st.sampled_from([1, 3, 256]))
    def open(self, window: dict[str, Any], piece: int) -> None:
        # Epochs are cut into pieces, however few subscriptions there are.
        self.small = [patch("indexes.feeds.publishing.PIECE", piece), patch("indexes.feeds.posts.PIECE", 4)]
        self.small.append(patch("indexes.feeds.plans.posts.PIECE", piece))
        self.small.append(patch("indexes.feeds.epochs.BOUNDED", piece))
        self.small.append(patch("indexes.feeds.epochs.REFILLED", piece))
        self.small.append(patch("indexes.feeds.base.MANY", 3 if piece == 1 else 20_000))
        self.small.append(patch("indexes.feeds.base.DIVIDED", 6 if piece == 1 else 50_000))
        if piece == 3:
            # Ids are merged all the time, and looked up as those of bulk are.
            self.small += [patch("indexes.core.ids.MERGE_AT", 4), patch("indexes.feeds.posts.RECENT", 4)]
            self.small.append(patch("indexes.core.subscription_engine.BULK", 2))
        for one in self.small:
            one.start()
        self.config = FeedConfig(BOUNDS, **window)
        self.engine = FeedEngine(self.config)
        oracle = FeedOracle(BOUNDS, self.config.posts, self.config.span, self.config.tfidf)
        self.history = [FeedService(oracle)]
        self.lists: list[Any] = [{}]
        self.queue: deque = deque()
        self.begun = None
        self.readers: dict = {}
        self.clock = 1

    def teardown(self) -> None:
        for one in getattr(self, "small", []):
            one.stop()

    @property
    def latest(self) -> FeedService:
        return self.history[-1]

    def accept(self, command: Any, refused: dict[int, str], states: list[FeedService]) -> Any:
        """Prepare a command: it is refused for the elements at these places, or leads to these states."""
        before = self.engine.next_seq
        if refused and not getattr(command, "skip", False):
            with pytest.raises(Refused) as told:
                self.engine.prepare(command)
            assert {(fault.index, fault.kind) for fault in told.value.faults} >= set(refused.items())
            assert {fault.index for fault in told.value.faults} == set(refused)
            assert self.engine.next_seq == before
            return None
        plan = self.engine.prepare(command)
        assert plan.count == len(states) and plan.first_seq == before
        assert {fault.index for fault in plan.faults} == set(refused)
        self.history += states
        self.lists += [state.lists() for state in states]
        if plan.count:
            self.queue.append(plan)
        return plan

    # Posts.

    def send(self, rows: list[Any], at: int, skip: bool, bad: dict[Any, Any] | set[int]) -> None:
        """Post rows of which those at the places in `bad` are wrong."""
        states, now, refused, reached = [], self.latest, dict.fromkeys(bad, "invalid"), []
        for i, (key, keywords, place, payload) in enumerate(rows):
            if i in bad and skip:
                continue
            if key in now.posts:
                refused.setdefault(i, "taken")
                continue
            now = now.copy()
            if i in bad:
                # Its id counts all the same where nothing is skipped.
                keywords, place = [], (0.0, 0.0)
            reached.append(now.post(key, keywords, place, at, payload))
            states.append(now)
        plan = self.accept(posting(rows, at, skip), refused, states if skip or not refused else [])
        if plan is not None:
            plan.wanted = [
                {"id": list(state.posts.values())[-1].id, "reached": n}
                for state, n in zip(states, reached, strict=True)
            ]
            assert plan.response_fields() == {"results": []}
            assert plan.positions == ([i for i in range(len(rows)) if i not in refused] if refused else None)

    def rows(self, rng: Any, n: int) -> list[Any]:
        """Posts most of which have a free id, if need be that of a post that an earlier one of them pushes out."""
        rows, there = [], sorted(self.latest.posts.values(), key=lambda post: post.number)
        left = [post.id for post in there]
        for i in range(n):
            while self.config.posts is not None and len(left) > self.config.posts:
                left.pop(0)
            free = [key for key in POSTS if key not in left]
            # Now and then the oldest, which only the next one would push out.
            pool = left[:1] if left and rng.random() < 0.03 else free or [f"x{len(self.history)}-{i}"]
            key = str(rng.choice(pool))
            keywords = rng.choice(WORDS, int(rng.integers(0, 5))).tolist()
            if rng.random() < 0.3:
                keywords = {word: float(rng.choice([0.5, 1.0, 3.0])) for word in keywords} or []
            payload = [None, None, b"7"][int(rng.integers(3))]
            rows.append((key, keywords, (float(rng.integers(-1, 6)), float(rng.random() * 3)), payload))
            left.append(key)
        return rows

    @rule(
        seed=st.integers(0, 10**6), n=st.integers(0, 12), gone_by=st.sampled_from([0, 0, 1, 3, -2]), skip=st.booleans()
    )
    def post(self, seed: int, n: int, gone_by: int, skip: bool) -> None:
        self.clock = max(1, self.clock + gone_by)
        self.send(self.rows(np.random.default_rng(seed), n), self.clock, skip, {})

    @rule(rows=st.lists(post_rows, max_size=9), skip=st.booleans())
    def post_any(self, rows: list[Any], skip: bool) -> None:
        self.send(rows, self.clock, skip, {})

    @precondition(lambda self: self.latest.posts)
    @rule(seed=st.integers(0, 10**6), n=st.integers(1, 3))
    def withdraw_some(self, seed: int, n: int) -> None:
        keys = np.random.default_rng(seed).permutation(sorted(self.latest.posts))[:n].tolist()
        self.withdraw_these(keys, True)

    @precondition(lambda self: self.config.span is not None and self.latest.posts)
    @rule(which=st.integers(0, 5))
    def tick_at_the_end_of_one(self, which: Any) -> None:
        posts = sorted(self.latest.posts.values(), key=lambda post: post.number)
        self.clock = max(self.clock, posts[which % len(posts)].at + self.config.span)
        self.tick_at(self.clock)

    @rule(n=st.integers(20, 70), seed=st.integers(0, 9))
    def post_many(self, n: int, seed: int) -> None:
        """So many that epochs begin."""
        rng = np.random.default_rng(seed)
        rows = []
        for i in range(n):
            keywords = rng.choice(WORDS, int(rng.integers(1, 4))).tolist()
            place = (float(rng.integers(0, 4)), float(rng.random() * 3))
            rows.append((f"m{len(self.history)}-{i}", keywords, place, None))
        self.send(rows, self.clock, False, {})

    @rule(
        rows=st.lists(post_rows, min_size=1, max_size=5), i=st.integers(0, 4), skip=st.booleans(),
        wrong=st.one_of(wrong_words, wrong_places),
    )  # fmt: skip
    def post_wrongly(self, rows: list[Any], i: int, skip: bool, wrong: Any) -> None:
        i %= len(rows)
        key, keywords, place, payload = rows[i]
        keywords, place = (keywords, wrong) if isinstance(wrong, tuple) else (wrong, place)
        rows[i] = (key, keywords, place, payload)
        self.send(rows, self.clock, skip, {i})

    @rule(by=st.sampled_from([-1, 0, 1, 2, 7]))
    def tick(self, by: int) -> None:
        self.clock = max(1, self.clock + by)
        self.tick_at(self.clock)

    def tick_at(self, at: int) -> None:
        states = []
        if self.config.span is not None and self.latest.would_expire(at):
            states = [self.latest.copy()]
            states[0].tick(at)
        self.accept(Tick(at), {}, states)

    @rule(keys=st.lists(st.sampled_from(POSTS), max_size=4), must_exist=st.booleans())
    def withdraw(self, keys: list[str], must_exist: bool) -> None:
        self.withdraw_these(keys, must_exist)

    def withdraw_these(self, keys: list[str], must_exist: bool) -> None:
        there = [key for key in dict.fromkeys(keys) if key in self.latest.posts]
        if must_exist and set(keys) - set(there):
            before = self.engine.next_seq
            with pytest.raises(Refused) as told:
                self.engine.prepare(Withdraw(keys, True))
            assert [fault.kind for fault in told.value.faults] == ["missing"] and self.engine.next_seq == before
            return
        states, now = [], self.latest
        for key in there:
            now = now.copy()
            now.withdraw(key)
            states.append(now)
        self.accept(Withdraw(keys, must_exist), {}, states)

    # Subscriptions.

    @rule(some=st.lists(st.tuples(st.sampled_from(IDS), asked, ttls), min_size=1, max_size=5), skip=st.booleans())
    def add(self, some: list[tuple[str, Query, float | None]], skip: bool) -> None:
        states, now, refused = [], self.latest, {}
        for i, (key, one, ttl) in enumerate(some):
            if key in now.subscriptions:
                refused[i] = "taken"
                continue
            now = now.copy()
            now.set(key, subscribed(one, ttl))
            states.append(now)
        lifetimes = {i: seconds for i, (_, _, seconds) in enumerate(some) if seconds is not None}
        columns = Subscriptions.of([one for _, one, _ in some])
        command = AddSubscriptions(pa.array([key for key, *_ in some]), columns, lifetimes, skip)
        self.accept(command, refused, states if skip or not refused else [])

    @rule(n=st.integers(1, 4))
    def add_many(self, n: int) -> None:
        """So many, beside those that are there, that they are laid out together."""
        states, now, some = [], self.latest, []
        for i in range(n):
            some.append(Query([WORDS[i], WORDS[-i]], (1.0, float(i)), 2, 0.5))
            now = now.copy()
            now.set(f"n{len(self.history)}-{i}", subscribed(some[-1], None))
            states.append(now)
        ids = pa.array([f"n{len(self.history)}-{i}" for i in range(n)])
        with patch("indexes.feeds.plans.subscriptions.MANY", 2):
            self.accept(AddSubscriptions(ids, Subscriptions.of(some)), {}, states)
            self.finish()

    @rule(one=asked, wrong=st.one_of(wrong_words, wrong_places, st.sampled_from([0, 4096, -1.0, 1.5, np.nan, []])))
    def subscribe_wrongly(self, one: Query, wrong: tuple[float, float] | list[Any]) -> None:
        match wrong:
            case tuple():
                field, one = "location", one._replace(location=wrong)
            case int():
                field, one = "k", one._replace(k=wrong)
            case float():
                field, one = "alpha", one._replace(alpha=wrong)
            case _:
                field, one = "keywords", one._replace(keywords=wrong)
        before = self.engine.next_seq
        some = AddSubscriptions(pa.array(["x", "y"]), Subscriptions.of([one._replace(**GOOD), one]))
        for command, index in ((some, 1), (SetSubscription("x", *one), None)):
            with pytest.raises(Refused) as told:
                self.engine.prepare(command)
            assert {(fault.field, fault.index) for fault in told.value.faults} == {(field, index)}
        assert self.engine.next_seq == before

    def set_to(self, command: SetSubscription | ChangeSubscription, key: str, after: Subscribed) -> None:
        states = []
        if self.latest.subscriptions.get(key) != after:
            states = [self.latest.copy()]
            states[0].set(key, after)
        made = key not in self.latest.subscriptions
        plan = self.accept(command, {}, states)
        assert not plan.count or plan.made == made

    @rule(key=st.sampled_from(IDS), one=asked, ttl=ttls)
    def set(self, key: str, one: Query, ttl: float | None) -> None:
        self.set_to(SetSubscription(key, *one, ttl), key, subscribed(one, ttl))

    @rule(key=st.sampled_from(IDS), one=asked, given=st.integers(0, 15), ttl=st.sampled_from([None, 0.0, 7.0]))
    def change(self, key: str, one: Query, given: int, ttl: None) -> None:
        named = {name: value for j, (name, value) in enumerate(one._asdict().items()) if given >> j & 1}
        command = ChangeSubscription(key, **named, ttl=ttl)
        before = self.latest.subscriptions.get(key)
        if before is None:
            with pytest.raises(Refused) as told:
                self.engine.prepare(command)
            assert [fault.kind for fault in told.value.faults] == ["missing"]
            return
        was = Query(before.keywords, before.place, before.k, before.alpha)
        left = before.ttl if ttl is None else ttl or None
        self.set_to(command, key, subscribed(was._replace(**named), left))

    @rule(keys=st.lists(st.sampled_from(IDS), max_size=4), must_exist=st.booleans())
    def delete(self, keys: list[str], must_exist: bool) -> None:
        there = [key for key in dict.fromkeys(keys) if key in self.latest.subscriptions]
        if must_exist and set(keys) - set(there):
            with pytest.raises(Refused):
                self.engine.prepare(DeleteSubscriptions(keys, True))
            return
        states, now = [], self.latest
        for key in there:
            now = now.copy()
            now.unsubscribe(key)
            states.append(now)
        self.accept(DeleteSubscriptions(keys, must_exist), {}, states)

    # What becomes of them.

    @precondition(lambda self: self.queue and self.queue[-1] is not self.begun)
    @rule()
    def cancel(self) -> None:
        plan = self.queue.pop()
        plan.cancel()
        del self.history[plan.first_seq :], self.lists[plan.first_seq :]

    @precondition(lambda self: self.queue)
    @rule(slices=st.integers(1, 6), budget=st.sampled_from([0.0, 0.0, 0.001, 1.0]))
    def go_on(self, slices: int, budget: float) -> None:
        for _ in range(slices):
            if self.queue:
                self.slice(budget)

    def slice(self, budget: float = 1.0) -> None:
        plan = self.begun = self.queue[0]
        plan.execute(budget)
        heard = plan.publish()
        if heard is not None:
            self.hear(heard)
        elif self.engine.published_seq < self.engine.seq:
            assert plan.first_seq - 1 <= self.engine.published_seq and not plan.done
        if plan.done:
            self.queue.popleft()
            self.begun = None
            if hasattr(plan, "wanted"):
                assert plan.response_fields()["results"] == plan.wanted
            assert self.engine.seq == plan.last_seq
            self.heard_all()
        self.compare()

    def hear(self, heard: Any) -> None:
        """Readers apply what they are told, and hold what stands at that seq, as they held what stood before it."""
        assert [change.seq for change in heard.changes] == sorted(change.seq for change in heard.changes)
        assert heard.last_seq == self.engine.seq == self.engine.published_seq
        for change in heard.changes:
            held = self.readers[change.id]
            assert held == self.lists[change.seq - 1][change.id]
            ranks = {post.number: rank for rank, (post, _) in enumerate(held, 1)}
            for one in change.changes:
                if one.old_rank is not None:
                    assert held[one.old_rank - 1][0].id == one.id
                if one.new_rank is not None:
                    assert one.entry.post.id == one.id
                    assert ranks.get(one.entry.post.number) == one.old_rank
            leaving = {one.old_rank for one in change.changes}
            left = [entry for rank, entry in enumerate(held, 1) if rank not in leaving]
            for one in change.changes:
                if one.new_rank is not None:
                    left.insert(one.new_rank - 1, entries([one.entry])[0])
            assert left != held, "nothing changed"
            assert left == self.lists[change.seq][change.id]
            self.readers[change.id] = left
        for seq, key in heard.gone:
            assert key not in self.lists[seq] and key in self.lists[seq - 1]
            del self.readers[key]

    def heard_all(self) -> None:
        """Where nothing is under way, readers hold what stands."""
        seq = self.engine.published_seq
        assert seq == self.engine.seq
        for key, held in self.readers.items():
            assert held == self.lists[seq][key]

    @rule(key=st.sampled_from(IDS))
    def watch(self, key: str) -> None:
        seq = self.engine.seq
        if key not in self.lists[seq]:
            with pytest.raises(KeyError):
                self.engine.watch(key)
        elif key not in self.readers:
            self.engine.watch(key)
            self.readers[key] = self.lists[seq][key]

    @rule(key=st.sampled_from(IDS))
    def unwatch(self, key: str) -> None:
        self.engine.unwatch(key)
        self.readers.pop(key, None)

    @rule()
    def finish(self) -> None:
        while self.queue:
            self.slice()
        self.engine.check()
        assert set(self.readers) == self.engine.watched

    @rule()
    def restore(self) -> None:
        """A feed that is made of what was captured goes on in place of the other."""
        self.finish()
        plan = self.engine.capture(indexes=True)
        while not plan.done:
            plan.execute(0.0)
            plan.publish()
        for checked in verify(present(plan.captured)):
            assert not checked.wrong, checked.differences
        self.engine = engine_of(state_of(present(plan.captured)))
        assert self.engine.next_seq == self.engine.seq + 1
        self.engine.check()
        for key in self.readers:
            self.engine.watch(key)
        self.compare()

    @rule()
    def rebuild(self) -> None:
        self.finish()
        capture = self.engine.capture(True)
        while not capture.done:
            capture.execute(1.0)
            capture.publish()
        layout = layout_of(state_of(present(capture.captured)))
        statistics = layout.statistics
        assert statistics.words == sorted(statistics.words)
        posts = self.latest.posts.values()
        assert statistics.df.tolist() == [sum(word in post.keywords for post in posts) for word in statistics.words]
        fold = self.engine.fold(layout)
        while not fold.done:
            fold.execute(0.0)
            fold.publish()
        assert fold.swapped and self.engine.index.churn == 0.0
        self.engine.index.check()

    @rule()
    def forget_words(self) -> None:
        if self.begun is None:
            self.engine.index.forget_words()

    @invariant()
    def compare(self) -> None:
        engine = getattr(self, "engine", None)
        if engine is None:
            return
        stands, lists = self.history[engine.seq], self.lists[engine.seq]
        assert engine.post_count == len(stands.posts) and engine.subscription_count == len(stands.subscriptions)
        assert [viewed(post) for post in engine.posts(None, 1000)] == [
            stands.posts[key] for key in sorted(stands.posts)
        ]
        for key in POSTS[:4]:
            post = engine.post(key)
            assert (post and viewed(post)) == stands.posts.get(key)
        after = sorted(stands.posts)[1:2]
        assert [post.id for post in engine.posts(after[0] if after else "~", 2)] == sorted(stands.posts)[2:4]
        found = engine.subscriptions(None, 1000)
        assert [view.id for view in found] == sorted(stands.subscriptions)
        for view in found:
            assert Subscribed(*view[1:6]) == stands.subscriptions[view.id] and view.list is None
            assert entries(engine.list_of(view.id)) == lists[view.id], view.id
        for key in IDS:
            view = engine.subscription(key, True)
            assert (view is None) == (key not in lists)
            if view is not None:
                assert entries(view.list) == lists[key]
        oldest = min(stands.posts.values(), key=lambda post: post.number, default=None)
        assert engine.oldest == (None if oldest is None else oldest.at)


GOOD: dict[str, Any] = {"keywords": ["a"], "location": (0.0, 0.0), "k": 1, "alpha": 0.5}

Story.TestCase.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
TestStory = Story.TestCase


def small(window: dict[str, Any], *keys: Any) -> FeedEngine:
    """A feed with a subscription to "a", live, and posts of "a" with these ids."""
    engine = FeedEngine(FeedConfig(BOUNDS, **window))
    engine.apply(SetSubscription("s", ["a"], (0.0, 0.0), 3, 0.5))
    engine.watch("s")
    for key in keys:
        engine.apply(posts(key))
    return engine


def posts(*keys: Any, words: tuple[Any, ...] = ("a",), at: int = 0, skip: bool = False) -> Post:
    return posting([(key, list(words), (0.0, 0.0), None) for key in keys], at, skip)


def refusals(engine: FeedEngine, command: Post) -> list[tuple[str, str, int | None]]:
    with pytest.raises(Refused) as told:
        engine.prepare(command)
    return [(fault.field, fault.kind, fault.index) for fault in told.value.faults]


def test_an_id_is_free_once_another_post_has_pushed_its_own_out() -> None:
    engine = small({"posts": 2}, "p0", "p1")
    assert refusals(engine, posts("p0")) == [("id", "taken", 0)]
    assert refusals(engine, posts("p2", "p1", "p1")) == [("id", "taken", 1), ("id", "taken", 2)]
    plan, _ = engine.apply(posts("p2", "p0"))
    assert plan.count == 2 and [post.id for post in engine.posts(None, 9)] == ["p0", "p2"]
    engine.apply(Withdraw(["p0"]))
    engine.apply(posts("p0"))
    assert [entry.post.id for entry in engine.list_of("s")] == ["p0"], "a withdrawn post counts in the window"


def test_an_id_is_promised_from_the_moment_its_post_is_accepted() -> None:
    engine = small({"span": 5}, "p0")
    first = engine.prepare(posts("p1", at=3))
    assert refusals(engine, posts("p1", at=3)) == [("id", "taken", 0)]
    tick = engine.prepare(Tick(8))
    assert engine.prepare(Tick(8)).count == 0, "all that is so old will be gone"
    again = engine.prepare(posts("p0", "p1", at=2))
    assert again.command.at == 8, "time never goes back"
    for plan in (again, tick):
        plan.cancel()
    assert refusals(engine, posts("p0")) == [("id", "taken", 0)]
    first.cancel()
    assert engine.prepare(posts("p1")).count == 1


def test_an_epoch_is_told_as_new_scores_at_the_seq_of_its_post() -> None:
    engine = small({"posts": 64})
    engine.apply(SetSubscription("s", ["a", "b"], (0.0, 0.0), 2, 0.0))
    for i in range(63):
        engine.apply(posts(f"p{i}", words=("a", "b", "c") if i % 2 else ("a",)))
    before = engine.list_of("s")
    plan: Any
    plan, heard = engine.apply(posts("p63", words=("z",)))
    assert plan.reached == [0]
    ((change,),) = [part.changes for part in heard]
    after = engine.list_of("s")
    assert change.seq == plan.last_seq and [entry.post.id for entry in after] == ["p61", "p59"]
    assert [(one.id, one.old_rank, one.new_rank) for one in change.changes] == [("p61", 1, 1), ("p59", 2, 2)]
    assert [one.entry for one in change.changes] == after
    assert all(new.score != old.score for new, old in zip(after, before, strict=True))


def test_a_check_that_is_given_up_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.feeds.engine.STRIDE", 8)
    monkeypatch.setattr("indexes.core.pending_subscriptions.STRIDE", 8)
    engine = small({"posts": 9}, "p0")
    commands: list[Any] = [posts("p1", "p2"), Withdraw(["p0", "p1"]), DeleteSubscriptions(["s", "t"])]
    for command in commands:
        steps = engine.prepare_steps(command)
        next(steps)
        steps.close()
        engine.check()
    assert engine.next_seq == engine.seq + 1
    assert [engine.prepare(command).count for command in commands] == [2, 2, 1]


@pytest.mark.parametrize("key", ["s0", "s19"])
def test_a_stream_that_begins_while_an_epoch_does_begins_after_it(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr("indexes.feeds.epochs.BOUNDED", 1)
    engine = small({"posts": 64})
    for i in range(20):
        engine.apply(SetSubscription(f"s{i}", ["a", "b"], (0.0, 0.0), 2, 0.0))
    words = [["a", "b", "c"] if i % 2 else ["a"] for i in range(63)]
    ids = [f"p{i}" for i in range(64)]
    plan = engine.prepare(Post(ids, Keywords.of([*words, ["z"]]), np.zeros((64, 2))))
    engine.post_cost.seconds = 1e-9
    plan.execute(1.0)
    assert plan.publish() is None and not plan.done
    assert (engine.seq, engine.published_seq) == (plan.last_seq, plan.first_seq - 1), (
        "its seq is there, and nothing is published"
    )
    begun = engine.list_of(key)
    engine.watch(key)
    heard = []
    while not plan.done:
        plan.execute(0.0)
        heard += [part for part in [plan.publish()] if part is not None]
    assert {change.id for part in heard for change in part.changes} == {"s"}
    assert engine.list_of(key) == begun and engine.published_seq == engine.seq
    engine.check()


def test_a_withdrawal_is_never_executed_on_the_event_loop() -> None:
    engine = small({"posts": 4}, "p0", "p1")
    plan = engine.prepare(Withdraw(["p0"]))
    assert plan.work >= LONG, "any number of lists may hold the post"
    plan.cancel()


def test_posts_of_a_group_are_shown_with_the_slice_that_publishes_them() -> None:
    engine = small({"posts": 64}, "p0")
    plan = engine.prepare(posts(*(f"q{i}" for i in range(9))))
    engine.post_cost.seconds = 1e-9
    plan.execute(0.005)
    told = present(plan.publish())
    assert plan.done and plan.reached == [1] * 9 and len(told.changes) == 9
    assert engine.seq == engine.published_seq == plan.last_seq
    engine.check()
