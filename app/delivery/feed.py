"""What a live subscription says in one form, kept for a while so that a reader who lost its connection can go on.

A position is `epoch:seq`: everything up to that seq has been read. The epoch names the history that the seq counts.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from app.problems import invalid
from indexes.boards.views import ListEntry

if TYPE_CHECKING:
    from app.delivery.readers import Reader

Form = Literal["changes", "old", "tiles", "occasions", "results"]
"""What a stream says. Of a list: its changes, its changes with old values, or the tiles that reach it. Where there is
no list: occasions, such as what the subscription won. Of a standing query: every new result, whole."""

CHANGE = "change"
GONE = "gone"
READY = "ready"
WIN = "win"
NOTIFICATION = "notification"
RESULT = "result"

Entries = tuple[ListEntry, ...]

_POSITION = re.compile(r"([^:]{1,64}):(0|[1-9][0-9]{0,18})", re.ASCII)


def with_old(form: Form) -> Form:
    """The form with old values. Raises the problem 422: tiles have none."""
    if form == "tiles":
        raise invalid("old", "goes with form=changes only")
    return "old"


class Message(NamedTuple):
    """One message of a stream. `block` is the whole SSE block, made once and shared by all who read it."""

    seq: int
    event: str
    block: bytes


def message(epoch: str, seq: int, event: str, data: str) -> Message:
    """A message at `epoch:seq`; `data` is a JSON object in one line."""
    return Message(seq, event, f"id: {epoch}:{seq}\nevent: {event}\ndata: {data}\n\n".encode())


def socket_text(prefix: str, item: Message) -> str:
    """The same message for a WebSocket: one object that starts with `prefix`, then the event, the cursor and the data.

    >>> socket_text('{"id":"mine",', message("e", 43, "gone", '{"seq":43}'))
    '{"id":"mine","event":"gone","cursor":"e:43","seq":43}'
    """
    head, event, data = item.block.decode().split("\n", 2)
    return f'{prefix}"event":"{event[7:]}","cursor":"{head[4:]}",{data[7:-2]}'


def position(text: str, epoch: str) -> int | None:
    """The seq of a position in this epoch; None for any other text."""
    found = _POSITION.fullmatch(text)
    return int(found[2]) if found and found[1] == epoch else None


class Feed:
    """One form of one live subscription: its readers and its last messages.

    `kept` holds every message after the seq `floor`, at most `keep` of them. `left_at` is when the last reader left; it
    means nothing while there are readers, `published` counts all messages so far. `nets` has what the messages after
    the seq `nets_floor` changed, for readers that are told the net of them; None as long as there was no such reader.
    """

    __slots__ = (
        "floor",
        "form",
        "id",
        "keep",
        "kept",
        "left_at",
        "nets",
        "nets_floor",
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
        self.readers: dict[Reader, None] = {}
        self.left_at = 0.0
        self.published = 0
        self.nets: deque[tuple[int, Entries]] | None = None
        self.nets_floor = floor

    def publish(self, item: Message, entries: Entries = ()) -> None:
        """Keep a message, which says these entries, and queue it for every reader. O(readers)."""
        self.published += 1
        kept = self.kept
        kept.append(item)
        if self.nets is not None:
            self.nets.append((item.seq, entries))
        if len(kept) > self.keep:
            self.floor = kept.popleft().seq
            while self.nets and self.nets[0][0] <= self.floor:
                self.nets.popleft()
        for reader in self.readers:
            reader.push(item)

    def restart(self, item: Message) -> None:
        """Queue a message that stands for all before it, so that no earlier position can be continued. O(readers)."""
        self.kept.clear()
        self.floor = item.seq
        if self.nets is not None:
            self.nets.clear()
        for reader in self.readers:
            reader.push(item)

    def keep_nets(self, seq: int) -> None:
        """Keep from `seq` on what messages change."""
        if self.nets is None:
            self.nets = deque()
            self.nets_floor = seq

    def nets_after(self, after: int) -> list[Entries] | None:
        """What the messages after a position changed, oldest first; None when that is not all kept."""
        if self.nets is None or after < max(self.floor, self.nets_floor):
            return None
        return [entries for seq, entries in self.nets if seq > after]

    def missed(self, after: int) -> list[Message] | None:
        """The messages after a position, oldest first; None when they are no longer all kept. O(messages)."""
        if after < self.floor:
            return None
        return [item for item in self.kept if item.seq > after]
