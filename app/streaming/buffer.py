"""Channels: the messages of a live subscription in one form, kept for a while so that a lost connection can resume.

A cursor is `epoch:seq`: everything up to that seq has been read. The epoch names the history that the seq counts.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Literal, Protocol

from app.errors import FieldError, Invalid
from indexes.boards.lists import ListEntry, ObjectView

Form = Literal["changes", "old", "tiles", "events", "results"]
"""What a stream carries. Of a list: its changes, its changes with old values, or the tiles that reach it. Where
there is no list: single events, such as what the subscription won. Of a standing query: every new result, whole."""

CHANGE = "change"
GONE = "gone"
READY = "ready"
WIN = "win"
NOTIFICATION = "notification"
RESULT = "result"

KEPT_BYTES = 1 << 18
"""Bytes of messages that are kept for those who resume, of one live subscription in one form."""

_TO_CURSOR = '"event":"","cursor":"'

_AROUND = len("id: \nevent: \ndata: \n\n")
"""Bytes of an SSE block besides the cursor, the event and the data."""

Entries = tuple[ListEntry, ...]

_POSITION = re.compile(r"([^:]{1,64}):(0|[1-9][0-9]{0,18})", re.ASCII)


def with_old(form: Form) -> Form:
    """The form with old values. Raises the problem 422: tiles have none."""
    if form == "tiles":
        raise Invalid(FieldError("old", "goes with form=changes only"))
    return "old"


class Message:
    """One message of a stream: the bytes that all who read it share, as SSE and WebSockets have them. Each form is made
    when it is first asked for, the first one from the data, the other from that; `size` is how many bytes the SSE block
    has.
    """

    __slots__ = ("_block", "_cursor", "_data", "_rest", "event", "seq", "size")

    def __init__(self, seq: int, event: str, block: bytes) -> None:
        self.seq = seq
        self.event = event
        self.size = len(block)
        self._block: bytes | None = block
        self._rest: bytes | None = None
        self._cursor = self._data = ""

    @classmethod
    def of(cls, epoch: str, seq: int, event: str, data: str) -> Message:
        """A message at `epoch:seq`; `data` is a JSON object in one line."""
        made = cls.__new__(cls)
        made.seq = seq
        made.event = event
        made._block = made._rest = None
        made._cursor = cursor = f"{epoch}:{seq}"
        made._data = data
        made.size = len(cursor) + len(event) + _AROUND + (len(data) if data.isascii() else len(data.encode()))
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.block, self.event) == (other.block, other.event)

    def __hash__(self) -> int:
        return hash(self.block)

    @property
    def block(self) -> bytes:
        """The whole SSE block.

        >>> message("e", 43, "gone", '{"seq":43}').block.splitlines()
        [b'id: e:43', b'event: gone', b'data: {"seq":43}', b'']
        """
        block = self._block
        if block is None:
            if self._data:
                text = f"id: {self._cursor}\nevent: {self.event}\ndata: {self._data}\n\n"
                block = self._block = text.encode()
                self._cursor = self._data = ""
                return block
            rest, begin = self._rest or b"", len(self.event) + len(_TO_CURSOR)
            end = rest.index(b'"', begin)
            cursor, event = rest[begin:end], self.event.encode()
            block = self._block = b"id: %b\nevent: %b\ndata: {%b\n\n" % (cursor, event, rest[end + 2 :])
            # Most have readers of one kind, and are kept for a while.
            self._rest = None
        return block

    @property
    def rest(self) -> bytes:
        """The same message as a WebSocket has it, behind the names of its stream: the event, the cursor and the data.

        >>> message("e", 43, "gone", '{"seq":43}').rest
        b'"event":"gone","cursor":"e:43","seq":43}'
        """
        rest = self._rest
        if rest is None:
            if self._data:
                text = f'"event":"{self.event}","cursor":"{self._cursor}",{self._data[1:]}'
                rest = self._rest = text.encode()
                self._cursor = self._data = ""
                return rest
            head, event, data = self.block.split(b"\n", 2)
            rest = self._rest = b'"event":"%b","cursor":"%b",%b' % (event[7:], head[4:], data[7:-2])
        return rest


message = Message.of


def parse_cursor(text: str, epoch: str) -> int | None:
    """The seq of a cursor in this epoch; None for any other text."""
    found = _POSITION.fullmatch(text)
    return int(found[2]) if found and found[1] == epoch else None


class Conflation:
    """What a conflated reader has been sent: the list `shown`, which is right up to the seq `at`.

    `last` is the seq of the newest change held back from it, None if there is none; `due` is when it may be sent.
    """

    __slots__ = ("at", "due", "last", "seconds", "shown")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.shown: list[ObjectView] = []
        self.at = -1
        self.last: int | None = None
        self.due = float("-inf")

    def take(self, shown: list[ObjectView], at: int) -> None:
        """Everything up to `at` is in the reader's queue, after which it has this list."""
        self.shown = shown
        self.at = at
        self.last = None


class ChannelReader(Protocol):
    """What a channel and conflation need of a reader; see `app.streaming.connection.Reader`."""

    channel: Channel | None
    conflation: Conflation | None
    void: bool
    waiting: int

    def push(self, item: Message) -> None: ...
    def push_conflated(self, item: Message) -> None: ...
    def finish(self, item: Message) -> None: ...


class Channel:
    """One form of one live subscription: its readers and its last messages.

    `kept` holds every message after the seq `floor`, at most `keep` of them and `KEPT_BYTES` bytes: they have `nbytes`.
    `left_at` is when the last reader left, undefined while there are readers; `published` counts all messages so far.
    `diffs` has what the messages after the seq `diffs_floor` changed, for conflated readers; None as long as there was
    none.
    """

    __slots__ = (
        "diffs",
        "diffs_floor",
        "floor",
        "form",
        "id",
        "keep",
        "kept",
        "left_at",
        "nbytes",
        "published",
        "readers",
        "resource",
    )

    def __init__(self, resource: str, id: str, form: Form, floor: int, keep: int) -> None:
        self.resource = resource
        self.id = id
        self.form = form
        self.floor = floor
        self.keep = keep
        self.kept: deque[Message] = deque()
        self.nbytes = 0
        self.readers: dict[ChannelReader, None] = {}
        self.left_at = 0.0
        self.published = 0
        self.diffs: deque[tuple[int, Entries]] | None = None
        self.diffs_floor = floor

    def publish(self, item: Message, entries: Entries = ()) -> None:
        """Keep a message, which has these entries, and queue it for every reader. O(readers)."""
        self.published += 1
        kept = self.kept
        kept.append(item)
        self.nbytes += item.size
        if self.diffs is not None:
            self.diffs.append((item.seq, entries))
        while len(kept) > self.keep or self.nbytes > KEPT_BYTES:
            oldest = kept.popleft()
            self.floor = oldest.seq
            self.nbytes -= oldest.size
            while self.diffs and self.diffs[0][0] <= self.floor:
                self.diffs.popleft()
        for reader in self.readers:
            reader.push(item)

    def restart(self, item: Message) -> None:
        """Queue a message that replaces all before it, so that no earlier cursor can be resumed. O(readers)."""
        self.kept.clear()
        self.nbytes = 0
        self.floor = item.seq
        if self.diffs is not None:
            self.diffs.clear()
        for reader in self.readers:
            reader.push(item)

    def keep_diffs(self, seq: int) -> None:
        """Keep from `seq` on what messages change."""
        if self.diffs is None:
            self.diffs = deque()
            self.diffs_floor = seq

    def diffs_after(self, after: int) -> list[Entries] | None:
        """What the messages after a seq changed, oldest first; None when that is not all kept."""
        if self.diffs is None or after < max(self.floor, self.diffs_floor):
            return None
        return [entries for seq, entries in self.diffs if seq > after]

    def missed(self, after: int) -> list[Message] | None:
        """The messages after a seq, oldest first; None when they are no longer all kept. O(messages)."""
        if after < self.floor:
            return None
        return [item for item in self.kept if item.seq > after]
