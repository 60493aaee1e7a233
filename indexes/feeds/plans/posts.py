"""Plans that change the window of a feed: posts, ticks and withdrawals. See `indexes.core.plan`.

Posts are executed in chunks of some milliseconds, and the changes of lists are published with the chunk. When an epoch
begins with the last post of a chunk, all buffers are refilled in slices: the seq of the chunk is visible from the first
of these on, and reads meanwhile return the lists after the refill.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Generator, Mapping
from typing import Any, TypeAlias

from indexes.core.arrays import Ints32
from indexes.core.background import BackgroundTask
from indexes.core.ids import Packed
from indexes.core.plan import LONG, Plan
from indexes.feeds.commands import Post, Tick, Withdraw
from indexes.feeds.kernels.window import NEXT
from indexes.feeds.live_lists import Views
from indexes.feeds.pending_posts import Before, Undo
from indexes.feeds.posts import Newest
from indexes.feeds.publishing import PIECE
from indexes.feeds.report import ChangedLists, Report
from indexes.feeds.results import ListChange, Slice
from indexes.feeds.store import FeedStore

EPOCH = 2e-5
"""Estimated seconds for a subscription when an epoch begins."""

Outcome: TypeAlias = tuple[Ints32, ChangedLists]
"""Of some posts: how many lists held each right after it, and the lists that changed."""


class WindowPlan(Plan[FeedStore]):
    """A plan that changes the window."""

    def __init__(
        self, engine: FeedStore, command: Any, count: int, owner: int, undo: Undo, struck: list[int], before: Before
    ) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._struck = struck
        self._before = before
        # A plan without elements has no pending state; settling it would settle that of its predecessors.
        self.done = count == 0

    def _finish(self) -> None:
        self.done = True
        self.engine.pending_posts.settle(self._owner, self._undo)

    def _slice(self, changes: list[ListChange]) -> Slice | None:
        """The slice with these changes; None if no subscription is live."""
        engine = self.engine
        return Slice(engine.seq, changes, []) if engine.live and not self.silent else None

    def cancel(self) -> None:
        self.engine.pending_posts.roll_back(self._owner, self._undo, self._struck, self._before)
        super().cancel()


class SteppedPlan(WindowPlan):
    """A plan that changes the window in steps, the last of which may begin an epoch."""

    _steps: Generator[None, None, Any] | None = None

    def _go_on(self, budget: float) -> Any:
        """Continue a step for about `budget` seconds; returns its result, or None while it is not done."""
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
        """Estimated seconds for the rest of the plan."""


class PostPlan(SteppedPlan):
    """New posts; `reached` is the number of lists that held each right after it."""

    command: Post

    def __init__(self, engine: FeedStore, command: Post, owner: int, undo: Undo, before: Before) -> None:
        super().__init__(engine, command, len(command), owner, undo, [], before)
        self.reached: list[int] = []
        self._merging: BackgroundTask[Packed] | None = None
        self._executed = 0
        self._shown = 0
        self._published = 0
        self._outcome: Outcome | None = None
        self._newest: Newest | None = None

    @property
    def _estimate(self) -> float:
        engine, left = self.engine, self.count - self._executed
        if self._merging is not None or engine.posts_kept.ids.crowded:
            return LONG
        seconds = left * engine.post_cost.seconds
        if left >= engine.index.before_epoch(self.command.at):
            seconds += EPOCH * engine.subscription_count
        return seconds

    def lets_begin(self, following: Any) -> bool:
        engine = self.engine
        return (
            isinstance(following, PostPlan)
            and self._executed == self.count > self._shown + 1  # what a lone post reaches is valid until the next one
            and self._steps is None
            and not engine.live
            and following.count < engine.index.before_epoch(following.command.at)
            and not engine.posts_kept.ids.crowded_with(self.count + following.count)
        )

    def response_fields(self) -> dict[str, Any]:
        """The ids of the posts, and the number of lists that held each right after it."""
        posts = zip(self.command.ids, self.reached, strict=False)
        return {"results": [{"id": key, "reached": n} for key, n in posts]}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return self.results_of(answer)

    def _has_room(self, budget: float) -> bool:
        """Whether there is room for ids; if not, they are merged in the background, which is awaited for `budget`."""
        ids = self.engine.posts_kept.ids
        if self._merging is None:
            if not ids.crowded:
                return True
            self._merging = BackgroundTask(ids.merged)
        if not self._merging.done(budget):
            return False
        ids.swap(self._merging.result)
        self._merging = None
        return True

    def execute(self, budget: float) -> None:
        if self._steps is not None:
            self._outcome = self._go_on(budget)
        elif self._executed < self.count and self._has_room(budget):
            index, cost = self.engine.index, self.engine.post_cost
            if self.count == 1 and not cost.by_thread:
                began = time.perf_counter()
                self._outcome = self._post(budget)
                cost.learn_passed(time.perf_counter() - began)
            else:
                # The time of other processes is not a cost of the posts, and of two threads that of the longer counts.
                began = time.thread_time() + index.waited
                self._outcome = self._post(budget)
                cost.learn(time.thread_time() + index.waited - began, self._executed - self._shown)
        if self._outcome is not None and self._executed == self.count:
            self.engine.forget_words()

    def _post(self, budget: float) -> Outcome | None:
        """Publish as many posts as fit, up to the next epoch; None if that begins, and goes on."""
        engine, c, lo = self.engine, self.command, self._executed
        index, report = engine.index, Report()
        left = self.count - lo
        hi = lo + (1 if left == 1 else engine.post_cost.fit(budget, min(PIECE, left, index.before_epoch(c.at))))
        if engine.live.known:
            engine.live.step()
        # Posts of the plan before may be in the window, and not published.
        number = int(index.window.size[NEXT]) - lo
        step = Newest(number, self.first_seq, c.at, c.ids, c.keywords, c.points, c.payload).part(lo, hi)
        reached = index.post_keywords(step.keywords, step.points, c.at, report)
        self._newest, self._executed = step.unlisted(), hi
        if not index.due:
            return reached, report.end()
        self._steps = self._begin_epoch(reached, report)
        return self._go_on(0.0)

    def _begin_epoch(self, reached: Ints32, report: Report) -> Generator[None, None, Outcome]:
        yield from self.engine.index.epoch_steps(reached, report)
        return reached, report.end()

    def publish(self) -> Slice | None:
        engine, hi = self.engine, self._executed
        if self._shown < hi:
            engine.published = engine.seq
            self._show()
            engine.seq = self.first_seq + hi - 1
            self._shown = hi
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            return None
        reached, changed = outcome
        engine.published = None
        part = None
        if engine.live.known:
            first_seq = self.first_seq + self._published
            part = self._slice(engine.live.changes(changed, first_seq, Views(engine.posts_kept)))
        self.reached += reached.tolist()
        self._published = hi
        engine.posts_kept.trim()
        if hi == self.count:
            self._finish()
        return part

    def _show(self) -> None:
        """Let the new posts be found by their ids."""
        posts, window, step = self.engine.posts_kept, self.engine.config.posts, self._newest
        assert step is not None, "no step has been executed"
        for some in (step,) if window is None else step.parts(window):
            if window is not None:
                # A new post may take the id of one that expires.
                posts.expire(posts.next + len(some.ids) - window)
            posts.append(some)
        self._newest = None
        self.engine.now = max(self.engine.now, self.command.at)


class TickPlan(SteppedPlan):
    """The advance of time, by which posts expire."""

    command: Tick

    def __init__(self, engine: FeedStore, command: Tick, owner: int, before: Before) -> None:
        super().__init__(engine, command, 1, owner, [], [], before)
        self._changed: ChangedLists | None = None
        self._begun = False

    @property
    def _estimate(self) -> float:
        return LONG

    def execute(self, budget: float) -> None:
        if self._changed is not None or self.done:
            return
        if not self._begun:
            self._begun = True
            self.engine.live.step()
            self._steps = self.engine.index.expire_steps(self.command.at)
        self._changed = self._go_on(budget)

    def publish(self) -> Slice | None:
        engine = self.engine
        if self.done or not self._begun:
            return None
        if engine.seq < self.last_seq:
            engine.published = engine.seq
            engine.posts_kept.expire(engine.index.first)
            engine.now = self.command.at
            engine.seq = self.last_seq
        if self._changed is None:
            return None
        engine.published = None
        changes = engine.live.changes(self._changed, self.first_seq, Views(engine.posts_kept))
        engine.posts_kept.trim()
        self._finish()
        return self._slice(changes)


class WithdrawPlan(WindowPlan):
    """Withdrawals of posts, each in a step of its own."""

    command: Withdraw

    def __init__(
        self, engine: FeedStore, command: Withdraw, owner: int, undo: Undo, struck: list[int], before: Before
    ) -> None:
        super().__init__(engine, command, len(command), owner, undo, struck, before)
        self._executed = 0
        self._gone: list[tuple[int, ChangedLists]] = []

    @property
    def work(self) -> float:
        # One post may be in any number of lists, each of which is evaluated.
        return LONG

    def execute(self, budget: float) -> None:
        engine, lo = self.engine, self._executed
        if lo == self.count:
            return
        began = time.perf_counter()
        engine.live.step()
        hi = lo + engine.withdraw_cost.fit(budget, self.count - lo)
        for number in self._struck[lo:hi]:
            self._gone.append((number, engine.index.withdraw([number])))
        engine.withdraw_cost.learn(time.perf_counter() - began, hi - lo)
        self._executed = hi

    def publish(self) -> Slice | None:
        engine = self.engine
        if not self._gone:
            return None
        views = Views(engine.posts_kept)
        first = self.first_seq + self._executed - len(self._gone)
        changes = []
        for i, (number, changed) in enumerate(self._gone):
            changes += engine.live.changes(changed, first + i, views)
            engine.posts_kept.withdraw(number)
        self._gone = []
        engine.seq = self.first_seq + self._executed - 1
        if self._executed == self.count:
            self._finish()
        return self._slice(changes)
