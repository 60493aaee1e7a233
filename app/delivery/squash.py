"""Streams that want at most one change every so many seconds: each is told the net of what happened meanwhile.

Such a reader is not sent the changes of its feed. It holds the list that it was last told; when its time has come that
list is compared with the present one, and what differs is one change, with the seq of the last that it stands for.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, cast

from app.delivery.feed import CHANGE, Entries, Feed, Form, Message, message
from app.problems import invalid
from indexes.boards.plans import net_entries
from indexes.boards.views import ObjectView

if TYPE_CHECKING:
    from app.delivery.lists import FollowedBoard
    from app.delivery.readers import Reader
    from app.delivery.source import Between, Followed, Live

LONGEST = 3600.0
"""Seconds that a reader may ask for."""

PORTION = 128
"""Readers that are told at once; others get their turn in between."""

WAITING = 4
"""Messages in a reader's queue from which on it is told nothing more: it gets the net when it has taken them."""

SPARE = 1024
"""Entries up to which the heap is not looked through for readers that left."""


def check_squash(form: Form, seconds: float) -> None:
    """Raise the problem 422 for what cannot be squashed so."""
    if form == "tiles":
        raise invalid("squash", "goes with form=changes only")
    if not 0 < seconds <= LONGEST:
        raise invalid("squash", f"must be more than 0 and at most {LONGEST:g} seconds")


class Squash:
    """What a squashed reader knows: the list `told` to it, which is right up to the seq `at`.

    `last` is the seq of the newest change that it has not been told, None if there is none; `due` is when it may be.
    """

    __slots__ = ("at", "due", "last", "seconds", "told")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.told: list[ObjectView] = []
        self.at = -1
        self.last: int | None = None
        self.due = float("-inf")

    def take(self, told: list[ObjectView], at: int) -> None:
        """It has been told everything up to `at`."""
        self.told = told
        self.at = at
        self.last = None


class Squasher:
    """Holds changes back and lets them out. `find` answers a resource with live subscriptions, `sent` is called for
    every change that is sent. Only streams of lists are squashed, which is to say of boards."""

    def __init__(
        self,
        epoch: str,
        find: Callable[[str], Followed | None],
        between: Between,
        clock: Callable[[], float],
        sent: Callable[[], None],
    ) -> None:
        self._epoch = epoch
        self._find = find
        self._between = between
        self._clock = clock
        self._sent = sent
        self._stirred: list[Reader] = []
        self._held = 0
        self._stopped = False
        self._heap: list[tuple[float, int, Reader]] = []
        self._most = SPARE
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[None]] = set()

    def hold(self, reader: Reader, squash: Squash, seq: int) -> None:
        """A change that a reader is not sent now. O(1)."""
        if squash.last is None:
            self._stirred.append(reader)
        squash.last = seq
        self._held += 1

    def release(self, followed: Followed) -> int:
        """A slice has been delivered: tell those whose time has come, and see to the others later.

        Returns how many changes of the slice were held back. O(k) for each reader told, at most `PORTION` of them.
        """
        held, self._held = self._held, 0
        if not self._stirred:
            return held
        stirred, self._stirred = self._stirred, []
        now = self._clock()
        due = [reader for reader in stirred if reader.squash is not None and reader.squash.due <= now]
        self._tell(followed, due[:PORTION])
        told = set(due[:PORTION])
        for reader in stirred:
            if reader not in told:
                self._later(reader)
        self._wind()
        return held

    async def squeeze(self) -> None:
        """Tell everyone whose time has come. O(k) for each."""
        now = self._clock()
        due: dict[str, list[Reader]] = {}
        while self._heap and self._heap[0][0] <= now:
            reader = heapq.heappop(self._heap)[2]
            squash, feed = reader.squash, reader.feed
            # One that was told meanwhile by another way has an entry for its next time.
            if feed is not None and squash is not None and squash.last is not None and squash.due <= now:
                due.setdefault(feed.resource, []).append(reader)
        try:
            for name, readers in due.items():
                for start in range(0, len(readers), PORTION):
                    await self._between(name, partial(self._tell_some, name, readers[start : start + PORTION]))
                    await asyncio.sleep(0)
        finally:
            self._wind()

    def stop(self) -> None:
        """Hold back for good what is held back."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._work:
            task.cancel()

    def caught_up(self, followed: Followed, reader: Reader, items: Sequence[Message] = ()) -> None:
        """A reader has been queued `items`, after which it knows the list as it is. O(k) for a squashed one."""
        squash, feed = reader.squash, reader.feed
        if squash is not None and feed is not None:
            board = _board(followed)
            squash.take(board.shown(board.by_id[feed.id]), followed.seq)
            if any(item.event == CHANGE for item in items):
                squash.due = self._clock() + squash.seconds

    def missed(self, followed: Followed, live: Live, feed: Feed, after: int, missed: list[Message]) -> list[Message]:
        """The net of the changes missed since a position, as one message or none. O(changes k).

        Where what they changed is not kept, since nobody followed the subscription squashed then, they stay one by one.
        """
        changes = feed.nets_after(after)
        if changes is None or not missed:
            return missed
        board = _board(followed)
        mine = board.by_id[live.id]
        offset, now = board.offset(mine), board.shown(mine)
        entries = net_entries(rewound(now, reversed(changes), offset), now, offset, offset)
        return [self._message(followed, feed, missed[-1].seq, entries)] if entries else []

    def _tell_some(self, name: str, readers: Iterable[Reader]) -> None:
        followed = self._find(name)
        if followed is not None:
            followed.seq = followed.engine.seq
            self._tell(followed, readers)

    def _tell(self, followed: Followed, readers: Iterable[Reader]) -> None:
        """Send each its net change. Those who read one subscription share the list, those with one change the text."""
        lists: dict[str, list[ObjectView]] = {}
        made: dict[tuple[int, Entries, str], Message] = {}
        clock, board = self._clock(), _board(followed)
        for reader in readers:
            squash, feed = reader.squash, reader.feed
            if squash is None or feed is None or squash.last is None or reader.void:
                continue
            if reader.waiting >= WAITING:
                squash.due = clock + squash.seconds
                self._later(reader)
                continue
            live = board.by_id[feed.id]
            if feed.id not in lists:
                lists[feed.id] = board.shown(live)
            now, seq, offset = lists[feed.id], squash.last, board.offset(live)
            entries = net_entries(squash.told, now, offset, offset)
            squash.take(now, followed.seq)
            if entries:
                squash.due = clock + squash.seconds
                key = seq, entries, feed.form
                if key not in made:
                    made[key] = self._message(followed, feed, seq, entries)
                reader.tell(made[key])
                self._sent()

    def _message(self, followed: Followed, feed: Feed, seq: int, entries: Entries) -> Message:
        text = _board(followed).write.changes(entries, feed.form == "old")
        return message(self._epoch, seq, CHANGE, f'{{"seq":{seq},"changes":{text}}}')

    # --- when ---------------------------------------------------------------------------------------------------------

    def _later(self, reader: Reader) -> None:
        assert reader.squash is not None
        heapq.heappush(self._heap, (reader.squash.due, next(self._numbers), reader))

    def _wind(self) -> None:
        """Set the timer to the first that is due."""
        if len(self._heap) > self._most:
            self._heap = [entry for entry in self._heap if entry[2].feed is not None]
            heapq.heapify(self._heap)
            self._most = max(SPARE, 2 * len(self._heap))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, self._heap[0][0] - self._clock()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        task = asyncio.create_task(self.squeeze())
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _board(followed: Followed) -> FollowedBoard:
    return cast("FollowedBoard", followed)


def rewound(now: list[ObjectView], changes: Iterable[Entries], offset: int) -> list[ObjectView]:
    """The list before these changes, newest first, the newest of which led to `now`. O(changes k)."""
    items = now
    for entries in changes:
        named = {entry.id for entry in entries}
        items = [item for item in items if item.id not in named]
        before = [(entry.old_rank, entry.old) for entry in entries if entry.old_rank is not None and entry.old]
        for rank, old in sorted(before, key=lambda pair: pair[0]):
            items.insert(rank - offset - 1, old)
    return items
