"""Live lists that one reader follows, by column: to deliver changes to thousands of them touches few of their objects.

Most lists are followed by one connection. What a change needs then are the log of the list's channel, its reader, and
what this reader's messages begin with; the channel, with what it has for other cases, is left alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from app.rendering.boards import BoardJson
from app.streaming.buffer import SMALL, Channel, Words
from indexes.boards.changed_lists import ChangedLists
from indexes.core.arrays import Ints

NOBODY, OTHERS = 0, -1
"""In place of a connection's number: a channel has no readers; there is no channel, or it has other readers."""


FEW = 64
"""Changes of a slice up to which they are delivered one by one: to begin with columns costs more."""


class Lone:
    """By the slot of each live list: the number of the connection that follows it alone, its reader, what the messages
    of this reader begin with, and the log of its channel.
    """

    def __init__(self) -> None:
        self.numbers: Ints = np.full(16, OTHERS, np.int64)
        self.readers: list[Any] = []
        self.prefixes: list[bytes] = []
        self.logs: list[list[Any]] = []
        self.channels: list[Channel | None] = []

    def follow(self, slot: int, channel: Channel | None) -> None:
        """Have a channel's lone reader from now on, or no channel any more."""
        while len(self.readers) <= slot:
            self.readers.append(None)
            self.prefixes.append(b"")
            self.logs.append([])
            self.channels.append(None)
        if slot >= len(self.numbers):
            more = np.full(slot + 1, OTHERS, np.int64)
            self.numbers = np.append(self.numbers, more)
        before = self.channels[slot]
        if before is not None:
            before.lones = None
        self.channels[slot] = channel
        if channel is None:
            self._set(slot, OTHERS)
            self.logs[slot] = []
        else:
            channel.lones, channel.slot = self, slot
            self.logs[slot] = channel.log
            self.note(slot, channel)

    def note(self, slot: int, channel: Channel) -> None:
        """Note who is the lone reader of a channel."""
        reader: Any = channel.lone
        if reader is not None and not reader.packed:
            self._set(slot, reader.connection.number, reader, reader.prefix)
        else:
            self._set(slot, NOBODY if not channel.readers and channel.diffs is None else OTHERS)

    def _set(self, slot: int, number: int, reader: Any = None, prefix: bytes = b"") -> None:
        self.numbers[slot], self.readers[slot], self.prefixes[slot] = number, reader, prefix

    def deliver(self, changes: ChangedLists, write: BoardJson, words: Words) -> int | None:
        """Keep and queue changes as `publish_all` does; how many readers they have. None, and nothing is done, where
        they are few, where a list has other readers, or where frames cannot be laid out.
        """
        slots = changes.slot_column()
        numbers = self.numbers[slots]
        if len(slots) < FEW or numbers.min() < NOBODY:
            return None
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            slots, numbers, changes = slots[order], numbers[order], changes.reordered(order)
        at: list[int] = slots.tolist()
        framed = write.framed(changes, words, list(map(self.prefixes.__getitem__, at)))
        if framed is None:
            return None
        texts, frames, ends = framed
        self._keep(at, changes.seqs(), texts)
        readers = list(map(self.readers.__getitem__, at))
        cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        for first, last in pairwise((0, *cuts, len(at))):
            if readers[first] is not None:
                begin = ends[first - 1] if first else 0
                some = readers[first:last]
                some[0].connection.push_all(some, texts[first:last], frames[begin : ends[last - 1]])
        return int(np.count_nonzero(numbers))

    def _keep(self, slots: Sequence[int], seqs: Sequence[int], texts: Sequence[bytes]) -> None:
        """As `Channel.retain` for each of some changes."""
        logs = list(map(self.logs.__getitem__, slots))
        deque(map(list.append, logs, seqs), maxlen=0)
        deque(map(list.append, logs, texts), maxlen=0)
        if max(map(len, texts)) > SMALL or max(map(len, logs)) > self._most(slots):
            for slot in set(slots):
                channel = self.channels[slot]
                assert channel is not None, "there is one where there is a number"
                channel.settle()

    def _most(self, slots: Sequence[int]) -> int:
        """How many elements a log may have before it is looked at, the same for all."""
        channel = self.channels[slots[0]]
        return 0 if channel is None else channel.most
