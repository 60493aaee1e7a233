"""Channels: the messages of a live subscription in one form, kept for a while so that a lost connection can resume.

A cursor is `epoch:seq`: everything up to that seq has been read. The epoch names the history that the seq counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import starmap
from typing import Any, Literal, NamedTuple, Protocol

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
"""Most bytes of messages that a channel keeps for readers that resume."""

SMALL = 1 << 10
"""Most bytes of a message that is kept without being counted at once: see `Channel.settle`."""

_TO_CURSOR = '"event":"","cursor":"'

LONGER = len("id: :\nevent: \ndata: {\n\n") - len(_TO_CURSOR + ':",')
"""By how much an SSE block is longer than the same message on a WebSocket."""

_QUOTE = ord('"')
"""The first byte of a message as a WebSocket has it."""

Entries = tuple[ListEntry, ...]

_POSITION = re.compile(r"([^:]{1,64}):(0|[1-9][0-9]{0,18})", re.ASCII)


def with_old(form: Form) -> Form:
    """The form with old values. Raises the problem 422: tiles have none."""
    if form == "tiles":
        raise Invalid(FieldError("old", "goes with form=changes only"))
    return "old"


class Words(NamedTuple):
    """The constant text of messages: before the seq, between it and the fields of the data, and after these."""

    head: str
    middle: str
    end: str

    @classmethod
    def of(cls, epoch: str, event: str, blocks: bool) -> Words:
        r"""Those of an event, as SSE blocks or as WebSockets have them.

        >>> Words.of("e", "gone", blocks=True)
        Words(head='id: e:', middle='\nevent: gone\ndata: {', end='}\n\n')
        """
        if blocks:
            return cls(f"id: {epoch}:", f"\nevent: {event}\ndata: {{", "}\n\n")
        return cls(f'"event":"{event}","cursor":"{epoch}:', '",', "}")


class Message:
    """One message of a stream, whose bytes all of its readers share.

    `block` is the SSE block, `rest` the message on a WebSocket without its prefix: event, cursor and data. Each is made
    from the other on first use; `made_block` and `made_rest` are None until then. `kept` is the one that was there
    first, from which the message can be made again: hundreds of thousands may be kept, and the garbage collector does
    not traverse bytes. `size` is the length of the block in bytes.
    """

    # No `__getattr__`: a class with one has all of its attributes looked up the long way.
    __slots__ = ("event", "kept", "made_block", "made_rest", "seq", "size")
    seq: int
    event: str
    size: int
    kept: bytes
    made_block: bytes | None
    made_rest: bytes | None

    def __init__(self, seq: int, event: str, block: bytes) -> None:
        self.seq = seq
        self.event = event
        self.size = len(block)
        self.kept = self.made_block = block
        self.made_rest = None

    @classmethod
    def of(cls, epoch: str, seq: int, event: str, data: str) -> Message:
        """A message at `epoch:seq`; `data` is a JSON object in one line."""
        return cls.of_rest(seq, event, f'"event":"{event}","cursor":"{epoch}:{seq}",{data[1:]}'.encode())

    @classmethod
    def of_rest(cls, seq: int, event: str, rest: bytes) -> Message:
        """A message as a WebSocket has it."""
        made = cls.__new__(cls)
        made.seq = seq
        made.event = event
        made.kept = made.made_rest = rest
        made.made_block = None
        made.size = len(rest) + LONGER
        return made

    @classmethod
    def of_kept(cls, seq: int, kept: bytes) -> Message:
        """A message from the bytes that were `kept` of it.

        >>> item = message("e", 43, "gone", '{"seq":43}')
        >>> Message.of_kept(43, item.kept) == item
        True
        """
        if kept[0] == _QUOTE:
            return cls.of_rest(seq, kept[9 : kept.index(b'"', 9)].decode(), kept)
        return cls(seq, kept.split(b"\n", 2)[1][7:].decode(), kept)

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
        block = self.made_block
        if block is None:
            rest, begin = self.kept, len(self.event) + len(_TO_CURSOR)
            end = rest.index(b'"', begin)
            cursor, event = rest[begin:end], self.event.encode()
            block = self.made_block = b"id: %b\nevent: %b\ndata: {%b\n\n" % (cursor, event, rest[end + 2 :])
        return block

    @property
    def rest(self) -> bytes:
        r"""The message on a WebSocket, without its prefix.

        >>> Message(43, "gone", b'id: e:43\nevent: gone\ndata: {"seq":43}\n\n').rest
        b'"event":"gone","cursor":"e:43","seq":43}'
        """
        rest = self.made_rest
        if rest is None:
            head, event, data = self.kept.split(b"\n", 2)
            rest = self.made_rest = b'"event":"%b","cursor":"%b",%b' % (event[7:], head[4:], data[7:-2])
        return rest


message = Message.of


def change_of(kept: bytes) -> Message:
    r"""The message of a change from its kept text, for a queue, where its seq is not used.

    >>> change_of(b'"event":"change","cursor":"e:43","seq":43}').block
    b'id: e:43\nevent: change\ndata: {"seq":43}\n\n'
    """
    return Message.of_rest(-1, CHANGE, kept) if kept[0] == _QUOTE else Message(-1, CHANGE, kept)


class Bundle(Message):
    """Changes for several readers of a WebSocket as one entry of its queue: the i-th text is for the i-th reader.

    `frames` are all of them in frames, None if these are not laid out yet.
    """

    __slots__ = ("frames", "readers", "texts")

    def __init__(self, readers: list[Any], texts: list[bytes], size: int, frames: bytes | None = None) -> None:
        self.seq = -1
        self.event = CHANGE
        self.size = size
        self.readers = readers
        self.texts = texts
        self.frames = frames

    def pairs(self) -> Iterator[tuple[Any, bytes]]:
        """Each reader with its message as on a WebSocket."""
        return zip(self.readers, self.texts, strict=True)

    def messages(self) -> Iterator[tuple[Any, Message]]:
        """Each reader with its message."""
        for reader, text in self.pairs():
            yield reader, Message.of_rest(-1, CHANGE, text)

    def cut(self, most: int) -> tuple[Bundle, Bundle | None]:
        """Split after the change with which the first part reaches `most` bytes; the second part is None if empty."""
        size = 0
        for n, text in enumerate(self.texts, 1):
            size += len(text) + LONGER
            if size >= most and n < len(self.texts):
                behind = Bundle(self.readers[n:], self.texts[n:], self.size - size)
                return Bundle(self.readers[:n], self.texts[:n], size), behind
        return self, None


def size_of(kept: bytes) -> int:
    """The `size` of a message from its kept bytes."""
    return len(kept) + LONGER if kept[0] == _QUOTE else len(kept)


def parse_cursor(text: str, epoch: str) -> int | None:
    """The seq of a cursor in this epoch; None for any other text."""
    found = _POSITION.fullmatch(text)
    return int(found[2]) if found and found[1] == epoch else None


class Conflation:
    """The state of a conflated reader: it was sent the list `shown`, as of the seq `at`.

    `last` is the seq of the newest change that is held back, None if none is; `due` is when the net may be sent.
    """

    __slots__ = ("at", "due", "last", "seconds", "shown")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.shown: list[ObjectView] = []
        self.at = -1
        self.last: int | None = None
        self.due = float("-inf")

    def take(self, shown: list[ObjectView], at: int) -> None:
        """Note that all messages up to `at`, which lead to the list `shown`, are in the reader's queue."""
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
    @property
    def blocks(self) -> bool: ...
    @property
    def connection(self) -> TakesBundles: ...


class TakesBundles(Protocol):
    """What channels need of the connection of a reader."""

    @property
    def bundles(self) -> bool: ...
    @property
    def number(self) -> int: ...
    def push_all(self, readers: list[Any], texts: list[bytes], frames: bytes | None = None, /) -> None: ...


class LoneListener(Protocol):
    """What is notified of a channel's lone reader: see `app.streaming.lone_readers`."""

    def note(self, slot: int, channel: Channel, /) -> None: ...


class Channel:
    """One form of one live subscription: its readers and its last messages.

    `kept` are all messages after the seq `floor`, `nbytes` bytes: at most `keep` messages and `KEPT_BYTES`. `log` may
    have `most` elements before it is settled. `past` counts dropped messages, `published` all messages so far.
    `left_at` is when the last reader left, undefined while there are readers. `lone` is the only reader, if it is not
    void and its connection takes bundles or blocks; None from the first conflated reader on. `listener`, if there is
    one, is notified of a new lone reader under the number `slot`. `diffs` are the entries of the messages after the seq
    `diffs_floor`, for conflated readers; None before the first of these.
    """

    __slots__ = (
        "_counted",
        "_floor",
        "_nbytes",
        "diffs",
        "diffs_floor",
        "form",
        "id",
        "keep",
        "left_at",
        "listener",
        "log",
        "lone",
        "most",
        "past",
        "readers",
        "resource",
        "slot",
    )

    def __init__(self, resource: str, id: str, form: Form, floor: int, keep: int) -> None:
        self.resource = resource
        self.id = id
        self.form = form
        self.keep = keep
        self.log: list[Any] = []
        """Seqs and kept bytes alternate. A deque would take 700 bytes more, and an append two more cache misses."""
        self._floor = floor
        self._nbytes = self._counted = 0
        """The bytes of the messages in the first `_counted` elements of the log."""
        self.readers: dict[ChannelReader, None] = {}
        self.left_at = 0.0
        self.most = 2 * (keep + keep // 8)
        self.past = 0
        self.lone: ChannelReader | None = None
        self.listener: LoneListener | None = None
        self.slot = -1
        self.diffs: deque[tuple[int, Entries]] | None = None
        self.diffs_floor = floor

    def publish(self, item: Message, entries: Entries = ()) -> None:
        """Keep a message with its entries, and queue it for every reader. O(readers)."""
        self.retain(item, entries)
        for reader in self.readers:
            reader.push(item)

    def retain(self, item: Message, entries: Entries = ()) -> None:
        """Keep a message with its entries. Amortised O(1)."""
        log = self.log
        log.append(item.seq)
        log.append(item.kept)
        if self.diffs is not None:
            self.diffs.append((item.seq, entries))
        if item.size > SMALL or len(log) > self.most:
            self.settle()

    def settle(self) -> None:
        """Count the bytes of new messages, and drop the oldest beyond the limits. Amortised O(1) a message.

        Small messages are appended to the log uncounted, until the kept ones are needed, a message is not small, or the
        log has too many elements.
        """
        log = self.log
        if self._counted != len(log):
            self._nbytes += sum(map(size_of, log[self._counted + 1 :: 2]))
            self._counted = len(log)
            self.keep_less()

    def keep_less(self) -> None:
        """Drop the oldest messages beyond the limits; all have to be counted."""
        self.drop_oldest(len(self.log) // 2 - self.keep)
        while self._nbytes > KEPT_BYTES:
            self.drop_oldest(1)
        while self.diffs and self.diffs[0][0] <= self._floor:
            self.diffs.popleft()

    @property
    def floor(self) -> int:
        """The seq after which all messages are kept."""
        self.settle()
        return self._floor

    @floor.setter
    def floor(self, seq: int) -> None:
        self._floor = seq

    @property
    def nbytes(self) -> int:
        """The bytes of the messages that are kept."""
        self.settle()
        return self._nbytes

    @property
    def published(self) -> int:
        """How many messages there were so far."""
        return self.past + len(self.log) // 2

    def add(self, reader: ChannelReader) -> None:
        """Add a reader."""
        self.readers[reader] = None
        self.find_lone()

    def remove(self, reader: ChannelReader) -> None:
        """Remove a reader."""
        del self.readers[reader]
        self.find_lone()

    def take_readers(self) -> dict[ChannelReader, None]:
        """Remove all readers, and return them."""
        readers, self.readers = self.readers, {}
        self.find_lone()
        return readers

    def find_lone(self) -> None:
        """Set `lone`, after the readers, or `void` of one, have changed."""
        self.lone = None
        if len(self.readers) == 1 and self.diffs is None:
            (reader,) = self.readers
            if (reader.connection.bundles or reader.blocks) and not reader.void:
                self.lone = reader
        if self.listener is not None:
            self.listener.note(self.slot, self)

    @property
    def blocks(self) -> bool:
        """Whether messages are best made as SSE blocks: the first reader reads those."""
        return next((reader.blocks for reader in self.readers), False)

    @property
    def kept(self) -> list[Message]:
        """The messages that are kept, oldest first. O(messages)."""
        return list(starmap(Message.of_kept, self.pairs()))

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """The seq and the bytes of each message that is kept."""
        self.settle()
        found = iter(self.log)
        return zip(found, found, strict=True)

    def drop_oldest(self, n: int) -> None:
        """Drop the n oldest messages, which are counted; none where n is below 1. O(messages)."""
        if n > 0:
            log = self.log
            self._floor = log[2 * n - 2]
            self._nbytes -= sum(map(size_of, log[1 : 2 * n : 2]))
            self._counted -= 2 * n
            self.past += n
            del log[: 2 * n]

    def restart(self, item: Message) -> None:
        """Queue a message that replaces all before it, so that no earlier cursor can be resumed. O(readers)."""
        self.past = self.published
        self.log.clear()
        self._counted = self._nbytes = 0
        self._floor = item.seq
        if self.diffs is not None:
            self.diffs.clear()
        for reader in self.readers:
            reader.push(item)

    def keep_diffs(self, seq: int) -> None:
        """Keep the entries of messages after `seq`, too."""
        if self.diffs is None:
            self.diffs = deque()
            self.diffs_floor = seq
            self.find_lone()

    def diffs_after(self, after: int) -> list[Entries] | None:
        """The entries of the messages after a seq, oldest first; None if not all are kept."""
        if self.diffs is None or after < max(self.floor, self.diffs_floor):
            return None
        return [entries for seq, entries in self.diffs if seq > after]

    def missed(self, after: int) -> list[Message] | None:
        """The messages after a seq, oldest first; None if not all are kept. O(messages)."""
        if after < self.floor:
            return None
        return [Message.of_kept(seq, text) for seq, text in self.pairs() if seq > after]
