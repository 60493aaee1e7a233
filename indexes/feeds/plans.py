"""Accepted changes of a feed's window on their way: posts, ticks and withdrawals. See `indexes.plan`.

Posts come in chunks of some milliseconds, and what is told of a chunk is told once it is in. Where an epoch begins with
the last post of a chunk, all lists are worked out anew in slices: its seq is visible from the first of these on, and
whoever asks for a list meanwhile is answered from after the epoch.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from indexes.beside import Beside
from indexes.feeds.coming import Before, Undo
from indexes.feeds.commands import Post, Tick, Withdraw
from indexes.feeds.feed import PIECE, Posted, Told
from indexes.feeds.live import Views
from indexes.feeds.model import bag_of_shown
from indexes.feeds.views import ListChange, PostView, Slice
from indexes.ids import Packed
from indexes.plan import LONG
from indexes.plan import Plan as AnyPlan

if TYPE_CHECKING:
    from indexes.feeds.engine import FeedEngine

Plan: TypeAlias = AnyPlan["FeedEngine"]

EPOCH = 2e-5
"""Seconds that a subscription is said to take when an epoch begins."""


class WindowPlan(AnyPlan["FeedEngine"]):
    """What changes the window."""

    def __init__(
        self, engine: FeedEngine, command: Any, count: int, owner: int, undo: Undo, struck: list[int], before: Before
    ) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._struck = struck
        self._before = before
        # One without elements promised nothing; to settle it would settle those before it, which are under way.
        self.done = count == 0

    def _finish(self) -> None:
        self.done = True
        self.engine.coming.settle(self._owner, self._undo)

    def _heard(self, changes: list[ListChange]) -> Slice | None:
        """What is told: nothing where nobody listens."""
        engine = self.engine
        return Slice(engine.seq, changes, []) if engine.live and not self.silent else None

    def cancel(self) -> None:
        self.engine.coming.take_back(self._owner, self._undo, self._struck, self._before)
        super().cancel()


class SteppedPlan(WindowPlan):
    """What changes the window in steps that an epoch may end."""

    _steps: Generator[None, None, Any] | None = None

    def _go_on(self, budget: float) -> Any:
        """Go on with a step that has begun, for about `budget` seconds; what it came to, or None while it is not
        done."""
        assert self._steps is not None
        until = time.perf_counter() + budget
        while True:
            try:
                next(self._steps)
            except StopIteration as stop:
                self._steps = None
                return stop.value
            if not self.engine.index.settling and time.perf_counter() > until:
                return None

    @property
    def work(self) -> float:
        return LONG if self._steps is not None else self._estimate

    @property
    @abstractmethod
    def _estimate(self) -> float:
        """Seconds that all that is left may take."""


class PostPlan(SteppedPlan):
    """Posts that come: `reached` says in how many lists each was right after it."""

    command: Post

    def __init__(self, engine: FeedEngine, command: Post, owner: int, undo: Undo, before: Before) -> None:
        super().__init__(engine, command, len(command), owner, undo, [], before)
        self.reached: list[int] = []
        self._merging: Beside[Packed] | None = None
        self._painted = 0
        self._shown = 0
        self._settled = 0
        self._posted: Posted | None = None
        self._views: list[PostView] = []

    @property
    def _estimate(self) -> float:
        engine, left = self.engine, self.count - self._painted
        if self._merging is not None or engine.posts_kept.ids.wants_merge():
            return LONG
        epoch = left >= engine.index.before_epoch(self.command.at)
        return left * engine.post_cost.seconds + epoch * EPOCH * engine.subscription_count

    def told(self) -> dict[str, Any]:
        """The ids of the posts that are in, and how many lists each was in right after it."""
        posts = zip(self.command.ids.to_pylist(), self.reached, strict=False)
        return {"results": [{"id": key, "reached": n} for key, n in posts]}

    def _has_room(self, budget: float) -> bool:
        """Whether ids can be noted; if not, all are merged beside, and that is waited for so long."""
        ids = self.engine.posts_kept.ids
        if self._merging is None:
            if not ids.wants_merge():
                return True
            self._merging = Beside(ids.merged)
        if not self._merging.done(budget):
            return False
        ids.swap(self._merging.found)
        self._merging = None
        return True

    def paint(self, budget: float) -> None:
        if self._steps is None:
            if self._painted == self.count or not self._has_room(budget):
                return
            # What other threads and processes take meanwhile is not the cost of a post.
            began = time.thread_time()
            self._begin(budget)
            self._posted = self._go_on(0.0)
            self.engine.post_cost.learn(time.thread_time() - began, self._painted - self._shown)
        else:
            self._posted = self._go_on(budget)
        if self._posted is not None and self._painted == self.count:
            self.engine.forget_words()

    def _begin(self, budget: float) -> None:
        """Posts come as far as the next epoch, or as they fit."""
        engine, command, lo = self.engine, self.command, self._painted
        index = engine.index
        most = min(PIECE, self.count - lo, index.before_epoch(command.at))
        hi = lo + engine.post_cost.fit(budget, most)
        engine.live.step()
        shown = command.keywords.part(lo, hi).shown()
        points = command.points[lo:hi] + 0.0
        first = engine.posts_kept.next
        rows = zip(command.ids.slice(lo, hi - lo).to_pylist(), shown, points.tolist(), strict=True)
        self._views = [
            PostView(first + i, self.first_seq + lo + i, key, words, (x, y), command.at, command.payload.get(lo + i))
            for i, (key, words, (x, y)) in enumerate(rows)
        ]
        documents = index.documents([bag_of_shown(one) for one in shown])
        self._steps = index.post_steps(documents, points, command.at)
        self._painted = hi

    def settle(self) -> Slice | None:
        engine, hi = self.engine, self._painted
        if self._shown < hi:
            engine.untold = engine.seq
            self._show()
            engine.seq = self.first_seq + hi - 1
            self._shown = hi
        posted, self._posted = self._posted, None
        if posted is None:
            return None
        engine.untold = None
        heard = None
        if engine.live:
            changes = engine.live.hear(posted.told, self.first_seq + self._settled, Views(engine.posts_kept))
            heard = self._heard(changes)
        self.reached += posted.reached.tolist()
        self._settled = hi
        engine.posts_kept.trim()
        if hi == self.count:
            self._finish()
        return heard

    def _show(self) -> None:
        """Let what has come be found by its ids."""
        posts, window = self.engine.posts_kept, self.engine.config.posts
        if window is not None:
            # Those that go lie in columns together. An id may be taken again by one that comes.
            posts.expire(min(posts.next, posts.next + len(self._views) - window))
        for view in self._views:
            posts.append(view)
            if window is not None and posts.next - posts.first > window:
                posts.expire(posts.next - window)
        self._views = []
        self.engine.now = max(self.engine.now, self.command.at)


class TickPlan(SteppedPlan):
    """Time goes on, and posts go."""

    command: Tick

    def __init__(self, engine: FeedEngine, command: Tick, owner: int, before: Before) -> None:
        super().__init__(engine, command, 1, owner, [], [], before)
        self._told: Told | None = None
        self._begun = False

    @property
    def _estimate(self) -> float:
        return LONG

    def paint(self, budget: float) -> None:
        if self._told is not None or self.done:
            return
        if not self._begun:
            self._begun = True
            self.engine.live.step()
            self._steps = self.engine.index.expire_steps(self.command.at)
        self._told = self._go_on(budget)

    def settle(self) -> Slice | None:
        engine = self.engine
        if self.done or not self._begun:
            return None
        if engine.seq < self.last_seq:
            engine.untold = engine.seq
            engine.posts_kept.expire(engine.index.first)
            engine.now = self.command.at
            engine.seq = self.last_seq
        if self._told is None:
            return None
        engine.untold = None
        heard = self._heard(engine.live.hear(self._told, self.first_seq, Views(engine.posts_kept)))
        engine.posts_kept.trim()
        self._finish()
        return heard


class WithdrawPlan(WindowPlan):
    """Posts that are withdrawn, each in a step of its own."""

    command: Withdraw

    def __init__(
        self, engine: FeedEngine, command: Withdraw, owner: int, undo: Undo, struck: list[int], before: Before
    ) -> None:
        super().__init__(engine, command, len(command), owner, undo, struck, before)
        self._painted = 0
        self._gone: list[tuple[int, Told]] = []

    @property
    def work(self) -> float:
        return (self.count - self._painted) * self.engine.withdraw_cost.seconds

    def paint(self, budget: float) -> None:
        engine, lo = self.engine, self._painted
        if lo == self.count:
            return
        began = time.perf_counter()
        engine.live.step()
        hi = lo + engine.withdraw_cost.fit(budget, self.count - lo)
        for number in self._struck[lo:hi]:
            self._gone.append((number, engine.index.withdraw([number])))
        engine.withdraw_cost.learn(time.perf_counter() - began, hi - lo)
        self._painted = hi

    def settle(self) -> Slice | None:
        engine = self.engine
        if not self._gone:
            return None
        views = Views(engine.posts_kept)
        first = self.first_seq + self._painted - len(self._gone)
        changes = []
        for i, (number, told) in enumerate(self._gone):
            changes += engine.live.hear(told, first + i, views)
            engine.posts_kept.withdraw(number)
        self._gone = []
        engine.seq = self.first_seq + self._painted - 1
        if self._painted == self.count:
            self._finish()
        return self._heard(changes)
