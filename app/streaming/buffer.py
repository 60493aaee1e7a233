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
"""Bytes of messages that are kept for those who resume, of one live subscription in one form."""

SMALL = 1 << 10
"""Bytes up to which a message is kept without counting it at once: see `Channel.settle`."""

_TO_CURSOR = '"event":"","cursor":"'

LONGER = len("id: :\nevent: \ndata: {\n\n") - len(_TO_CURSOR + ':",')
"""By how much an SSE block is longer than the same message on a WebSocket."""

_QUOTE = ord('"')
"""The first byte of what a WebSocket has of a message."""

Entries = tuple[ListEntry, ...]

_POSITION = re.compile(r"([^:]{1,64}):(0|[1-9][0-9]{0,18})", re.ASCII)


def with_old(form: Form) -> Form:
    """The form with old values. Raises the problem 422: tiles have none."""
    if form == "tiles":
        raise Invalid(FieldError("old", "goes with form=changes only"))
    return "old"


class Words(NamedTuple):
    """What is in a message besides its seq and the fields of its data: before the seq, between it and the fields, and
    behind these.
    """

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
    """One message of a stream: the bytes that all who read it share, as SSE and WebSockets have them.

    `block` is the whole SSE block, `rest` the same message as a WebSocket has it, behind the names of its stream: the
    event, the cursor and the data. One is made from the other when it is first asked for; `made_block` and `made_rest`
    are None before. `kept` is the one of which the message can be made again: there may be hundreds of thousands, and
    what is bytes alone, the collector does not look at. `size` is how many bytes the block has.
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
        """A message of what was `kept` of it.

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
        r"""The `rest` of a message of which the block was there first.

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
    r"""The message of a change whose text is kept, for a queue: nobody reads its seq there.

    >>> change_of(b'"event":"change","cursor":"e:43","seq":43}').block
    b'id: e:43\nevent: change\ndata: {"seq":43}\n\n'
    """
    return Message.of_rest(-1, CHANGE, kept) if kept[0] == _QUOTE else Message(-1, CHANGE, kept)


class Bundle(Message):
    """Changes for several readers of a connection: one for each of `readers`, in order, as WebSockets have them.

    `frames` are all of them as the connection sends them, where that is known.
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
        """Each reader with what a WebSocket has of its message."""
        return zip(self.readers, self.texts, strict=True)

    def messages(self) -> Iterator[tuple[Any, Message]]:
        """Each reader with its message."""
        for reader, text in self.pairs():
            yield reader, Message.of_rest(-1, CHANGE, text)

    def cut(self, most: int) -> tuple[Bundle, Bundle | None]:
        """The first of the changes, until they have so many bytes, and the others, if there are any."""
        size = 0
        for n, text in enumerate(self.texts, 1):
            size += len(text) + LONGER
            if size >= most and n < len(self.texts):
                behind = Bundle(self.readers[n:], self.texts[n:], self.size - size)
                return Bundle(self.readers[:n], self.texts[:n], size), behind
        return self, None


def size_of(kept: bytes) -> int:
    """The `size` of a message of what was kept of it."""
    return len(kept) + LONGER if kept[0] == _QUOTE else len(kept)


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

    `kept` are all messages after the seq `floor`, at most `keep` of them and `KEPT_BYTES` bytes: they have `nbytes`.
    `log` may have `most` elements before it is settled; `past` counts the messages that are kept no longer, and
    `published` all so far. `left_at` is when the last reader left, undefined while there are readers. `lone` is the
    only reader, where it takes messages now and its connection takes bundles or blocks; None once there was a conflated
    one.
    `listener`, if there is one, is notified of it as that of `slot`. `diffs` has what the messages after the seq
    `diffs_floor` changed, for conflated readers; None as long as there was none.
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
        """The seq and the bytes of each message, in turn. A deque takes 700 bytes more, and to append to one of
        thousands waits for two more lines of memory."""
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
        """Keep a message, which has these entries, and queue it for every reader. O(readers)."""
        self.retain(item, entries)
        for reader in self.readers:
            reader.push(item)

    def retain(self, item: Message, entries: Entries = ()) -> None:
        """Keep a message, which has these entries. Amortised O(1)."""
        log = self.log
        log.append(item.seq)
        log.append(item.kept)
        if self.diffs is not None:
            self.diffs.append((item.seq, entries))
        if item.size > SMALL or len(log) > self.most:
            self.settle()

    def settle(self) -> None:
        """Count the messages, and keep no more than may be kept. Amortised O(1) for each message.

        Small messages are appended to the log uncounted, until what is kept is asked for, a message is not small, or
        the log has too many elements.
        """
        log = self.log
        if self._counted != len(log):
            self._nbytes += sum(map(size_of, log[self._counted + 1 :: 2]))
            self._counted = len(log)
            self.keep_less()

    def keep_less(self) -> None:
        """Keep no more than may be kept of messages that are all counted."""
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
        """Have one more reader."""
        self.readers[reader] = None
        self.find_lone()

    def remove(self, reader: ChannelReader) -> None:
        """Have one reader less."""
        del self.readers[reader]
        self.find_lone()

    def take_readers(self) -> dict[ChannelReader, None]:
        """Have no readers any more; those that there were."""
        readers, self.readers = self.readers, {}
        self.find_lone()
        return readers

    def find_lone(self) -> None:
        """Set `lone` after a change of the readers, or of whether they take messages."""
        self.lone = None
        if len(self.readers) == 1 and self.diffs is None:
            (reader,) = self.readers
            if (reader.connection.bundles or reader.blocks) and not reader.void:
                self.lone = reader
        if self.listener is not None:
            self.listener.note(self.slot, self)

    @property
    def blocks(self) -> bool:
        """Whether its messages are read as SSE blocks, by the reader that is asked first."""
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
        """Keep from `seq` on what messages change."""
        if self.diffs is None:
            self.diffs = deque()
            self.diffs_floor = seq
            self.find_lone()

    def diffs_after(self, after: int) -> list[Entries] | None:
        """What the messages after a seq changed, oldest first; None when that is not all kept."""
        if self.diffs is None or after < max(self.floor, self.diffs_floor):
            return None
        return [entries for seq, entries in self.diffs if seq > after]

    def missed(self, after: int) -> list[Message] | None:
        """The messages after a seq, oldest first; None when they are no longer all kept. O(messages)."""
        if after < self.floor:
            return None
        return [Message.of_kept(seq, text) for seq, text in self.pairs() if seq > after]
