"""Conflation: streams with at most one change per interval, the net of the changes meanwhile.

Changes are held back from a conflated reader, and the list that it was last sent is kept. When its interval has passed,
that list is compared with the present one, and the difference is sent as one change, with the seq of the newest change
in it.
"""

from __future__ import annotations

import asyncio
import heapq
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any

from app.errors import FieldError, Invalid
from app.streaming.buffer import CHANGE, Channel, ChannelReader, Conflation, Entries, Form, Message, message, with_old
from app.streaming.protocols import Between, LiveResource, LiveSubscription
from indexes.boards.lists import ObjectView, net_entries

LONGEST = 3600.0
"""Longest interval in seconds."""

BATCH = 128
"""Readers served in one step of the event loop."""

WAITING = 4
"""Messages waiting for a reader from which on its changes are held back longer."""

SPARE = 1024
"""Entries of the heap up to which it is not purged of closed readers."""


def check_conflation(form: Form, seconds: float) -> None:
    """Raise the problem 422 for a form or an interval that conflation does not take."""
    if form == "tiles":
        raise Invalid(FieldError("squash", "goes with form=changes only"))
    if not 0 < seconds <= LONGEST:
        raise Invalid(FieldError("squash", f"must be more than 0 and at most {LONGEST:g} seconds"))


_FORMS: dict[str, Form] = {"changes": "changes", "tiles": "tiles"}


def board_form(form: str, old: bool, squash: float | None) -> Form:
    """The form of a board's stream with these options. Raises the problem 422 for what boards do not have."""
    found = _FORMS.get(form)
    if found is None:
        raise Invalid(FieldError("form", "must be changes or tiles"))
    if old:
        found = with_old(found)
    if squash is not None:
        check_conflation(found, squash)
    return found


class ListResource(LiveResource):
    """A resource whose live subscriptions have lists of objects."""

    @abstractmethod
    def offset(self, live: Any) -> int:
        """How many ranks a subscription skips."""

    @abstractmethod
    def shown(self, live: Any) -> list[ObjectView]:
        """The list of a subscription as it is now."""

    @abstractmethod
    def changes_json(self, entries: Entries, old: bool) -> str:
        """The changes of a list in JSON."""


class Conflator:
    """Hold changes back and send their net when it is due.

    `find` returns a resource with live subscriptions, `sent` is called for every change that is sent.
    """

    def __init__(
        self,
        epoch: str,
        find: Callable[[str], LiveResource | None],
        between: Between,
        clock: Callable[[], float],
        sent: Callable[[], None],
    ) -> None:
        self.epoch = epoch
        self._find = find
        self._between = between
        self._clock = clock
        self._sent = sent
        self._pending: list[ChannelReader] = []
        self._held = 0
        self._stopped = False
        self._heap: list[tuple[float, int, ChannelReader]] = []
        self._most = SPARE
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[None]] = set()

    def hold(self, reader: ChannelReader, conflation: Conflation, seq: int) -> None:
        """Hold back a change from a reader. O(1)."""
        if conflation.last is None:
            self._pending.append(reader)
        conflation.last = seq
        self._held += 1

    def release(self, live_resource: LiveResource) -> int:
        """Send the due changes after a slice, and schedule the others.

        Return how many changes of the slice were held back. O(k) for each reader served, at most `BATCH` of them.
        """
        held, self._held = self._held, 0
        if not self._pending:
            return held
        pending, self._pending = self._pending, []
        now = self._clock()
        due = [reader for reader in pending if reader.conflation is not None and reader.conflation.due <= now]
        self._send(live_resource, due[:BATCH])
        shown = set(due[:BATCH])
        for reader in pending:
            if reader not in shown:
                self._schedule(reader)
        self._set_timer()
        return held

    async def send_due(self) -> None:
        """Send all due changes. O(k) for each reader."""
        now = self._clock()
        due: dict[str, list[ChannelReader]] = {}
        while self._heap and self._heap[0][0] <= now:
            reader = heapq.heappop(self._heap)[2]
            conflation, channel = reader.conflation, reader.channel
            # A reader that was served meanwhile has another entry.
            if channel is not None and conflation is not None and conflation.last is not None and conflation.due <= now:
                due.setdefault(channel.resource, []).append(reader)
        try:
            for name, readers in due.items():
                for start in range(0, len(readers), BATCH):
                    await self._between(name, partial(self._send_some, name, readers[start : start + BATCH]))
                    await asyncio.sleep(0)
        finally:
            self._set_timer()

    def stop(self) -> None:
        """Send nothing any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._work:
            task.cancel()

    def caught_up(self, live_resource: LiveResource, reader: ChannelReader, items: Sequence[Message] = ()) -> None:
        """Note that a reader got `items`, after which it has the present list. O(k) for a conflated one."""
        conflation, channel = reader.conflation, reader.channel
        if conflation is not None and channel is not None:
            board = _listed(live_resource)
            conflation.take(board.shown(board.by_id[channel.id]), live_resource.delivered_seq(channel))
            if any(item.event == CHANGE for item in items):
                conflation.due = self._clock() + conflation.seconds

    def missed(
        self, live_resource: LiveResource, live: LiveSubscription, channel: Channel, after: int, missed: list[Message]
    ) -> list[Message]:
        """The net of the changes missed since a cursor, as one message or none. O(changes k).

        Where their entries were not kept, since the subscription had no conflated reader then, they stay one by one.
        """
        changes = channel.diffs_after(after)
        if changes is None or not missed:
            return missed
        board = _listed(live_resource)
        mine = board.by_id[live.id]
        offset, now = board.offset(mine), board.shown(mine)
        entries = net_entries(rewound(now, reversed(changes), offset), now, offset, offset)
        return [self._message(live_resource, channel, missed[-1].seq, entries)] if entries else []

    def _send_some(self, name: str, readers: Iterable[ChannelReader]) -> None:
        live_resource = self._find(name)
        if live_resource is not None:
            live_resource.seq = live_resource.engine.seq
            self._send(live_resource, readers)

    def _send(self, live_resource: LiveResource, readers: Iterable[ChannelReader]) -> None:
        """Send each its net change. Readers of one subscription share the list, equal changes share the text."""
        lists: dict[str, list[ObjectView]] = {}
        made: dict[tuple[int, Entries, str], Message] = {}
        clock, board = self._clock(), _listed(live_resource)
        for reader in readers:
            conflation, channel = reader.conflation, reader.channel
            if conflation is None or channel is None or conflation.last is None or reader.void:
                continue
            if reader.waiting >= WAITING:
                conflation.due = clock + conflation.seconds
                self._schedule(reader)
                continue
            live = board.by_id[channel.id]
            if channel.id not in lists:
                lists[channel.id] = board.shown(live)
            now, seq, offset = lists[channel.id], conflation.last, board.offset(live)
            entries = net_entries(conflation.shown, now, offset, offset)
            conflation.take(now, live_resource.delivered_seq(channel))
            if entries:
                conflation.due = clock + conflation.seconds
                key = seq, entries, channel.form
                if key not in made:
                    made[key] = self._message(live_resource, channel, seq, entries)
                reader.push_conflated(made[key])
                self._sent()

    def _message(self, live_resource: LiveResource, channel: Channel, seq: int, entries: Entries) -> Message:
        text = _listed(live_resource).changes_json(entries, channel.form == "old")
        return message(self.epoch, seq, CHANGE, f'{{"seq":{seq},"changes":{text}}}')

    # --- timer --------------------------------------------------------------------------------------------------------

    def _schedule(self, reader: ChannelReader) -> None:
        assert reader.conflation is not None
        heapq.heappush(self._heap, (reader.conflation.due, next(self._numbers), reader))

    def _set_timer(self) -> None:
        """Set the timer to the first due time."""
        if len(self._heap) > self._most:
            self._heap = [entry for entry in self._heap if entry[2].channel is not None]
            heapq.heapify(self._heap)
            self._most = max(SPARE, 2 * len(self._heap))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(
                max(0.0, self._heap[0][0] - self._clock()), self._on_timer
            )

    def _on_timer(self) -> None:
        self._timer = None
        task = asyncio.create_task(self.send_due())
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _listed(live_resource: LiveResource) -> ListResource:
    assert isinstance(live_resource, ListResource), "only streams of lists are conflated"
    return live_resource


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
