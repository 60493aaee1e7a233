"""What a live subscription says in one form, kept for a while so that a reader who lost its connection can go on.

A position is `epoch:seq`: everything up to that seq has been read. The epoch names the history that the seq counts.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from app.delivery.readers import Reader

Form = Literal["changes", "tiles"]
GONE = "gone"

_POSITION = re.compile(r"([^:]{1,64}):(0|[1-9][0-9]{0,18})", re.ASCII)


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
    means nothing while there are readers.
    """

    __slots__ = ("board", "floor", "form", "id", "keep", "kept", "left_at", "readers")

    def __init__(self, board: str, id: str, form: Form, floor: int, keep: int) -> None:
        self.board = board
        self.id = id
        self.form = form
        self.floor = floor
        self.keep = keep
        self.kept: deque[Message] = deque()
        self.readers: dict[Reader, None] = {}
        self.left_at = 0.0

    def publish(self, item: Message) -> None:
        """Keep a message and queue it for every reader. O(readers)."""
        kept = self.kept
        kept.append(item)
        if len(kept) > self.keep:
            self.floor = kept.popleft().seq
        for reader in self.readers:
            reader.push(item)

    def restart(self, item: Message) -> None:
        """Queue a message that stands for all before it, so that no earlier position can be continued. O(readers)."""
        self.kept.clear()
        self.floor = item.seq
        for reader in self.readers:
            reader.push(item)

    def missed(self, after: int) -> list[Message] | None:
        """The messages after a position, oldest first; None when they are no longer all kept. O(messages)."""
        if after < self.floor:
            return None
        return [item for item in self.kept if item.seq > after]
