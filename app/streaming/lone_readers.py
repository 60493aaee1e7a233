"""Live lists with a single reader, in columns: a change that reaches thousands of them touches few Python objects.

Most lists have one reader. To deliver a change then takes the log of the list's channel, the reader, and the prefix of
its messages; the channel itself is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from app.rendering.boards import BoardJson
from app.streaming.buffer import CHANGE, SMALL, Channel, Words
from app.streaming.frames import chunk
from app.streaming.protocols import DirectWriter
from indexes.boards.changed_lists import ChangedLists
from indexes.core.arrays import Ints

NOBODY, OTHERS = 0, -1
"""In place of a connection's number: a channel without readers; no channel, or one with other than a lone reader."""

FEW = 64
"""Changes of a slice from which on they are delivered by column: for fewer, setting up the columns costs more."""


class Framed(NamedTuple):
    """Changes in order of the `numbers` of their connections: the text of each as it is kept, the frames of all in one
    piece, and where each frame `ends`.
    """

    changes: ChangedLists
    numbers: Ints
    texts: list[bytes]
    frames: bytes
    ends: list[int]


class LoneReaders:
    """By the slot of a live list: the number of the connection of its lone reader, whether that is one of server-sent
    events, the reader, the prefix of its messages, and the log of the channel.
    """

    def __init__(self, pump: DirectWriter) -> None:
        self._pump = pump
        self._numbers: Ints = np.full(16, OTHERS, np.int64)
        self._blocks = np.zeros(16, np.bool_)
        self._readers: list[Any] = []
        self._prefixes: list[bytes] = []
        self._logs: list[list[Any]] = []
        self._channels: list[Channel | None] = []
        self._most = 0
        """How many elements a log may have before it is settled; all channels of a resource have the same."""

    def follow(self, slot: int, channel: Channel | None) -> None:
        """Track the lone reader of a channel, which replaces the channel at this slot; None for no channel."""
        while len(self._readers) <= slot:
            self._readers.append(None)
            self._prefixes.append(b"")
            self._logs.append([])
            self._channels.append(None)
        if slot >= len(self._numbers):
            # Twice as many at least, so that it is amortised O(1).
            self._numbers = np.append(self._numbers, np.full(slot + 1, OTHERS, np.int64))
            self._blocks = np.append(self._blocks, np.zeros(slot + 1, np.bool_))
        before = self._channels[slot]
        if before is not None:
            before.listener = None
        self._channels[slot] = channel
        if channel is None:
            self._set(slot, OTHERS)
            self._logs[slot] = []
        else:
            channel.listener, channel.slot = self, slot
            self._logs[slot], self._most = channel.log, channel.most
            self.note(slot, channel)

    def note(self, slot: int, channel: Channel) -> None:
        """Note that the lone reader of a channel has changed. O(1)."""
        reader: Any = channel.lone
        if reader is not None and not reader.packed:
            self._set(slot, reader.connection.number, reader)
        else:
            self._set(slot, NOBODY if not channel.readers and channel.diffs is None else OTHERS)

    def _set(self, slot: int, number: int, reader: Any = None) -> None:
        self._numbers[slot], self._readers[slot] = number, reader
        self._blocks[slot] = reader is not None and reader.blocks
        self._prefixes[slot] = b"" if reader is None else reader.prefix

    def deliver(self, changes: ChangedLists, write: BoardJson, epoch: str) -> int | None:
        """Keep and deliver changes as `publish_all` does; returns how many readers they have. None, with nothing done,
        if they are few, a list has more than a lone reader, or the frames cannot be laid out. O(changes), and
        O(n log n) if those of sockets are not in order of connections.
        """
        slots = changes.slot_column()
        if len(slots) < FEW or slots.max() >= len(self._numbers):
            return None
        numbers = self._numbers[slots]
        if numbers.min() < NOBODY:
            return None
        framed = None
        to_sockets = np.flatnonzero(~self._blocks[slots])
        if len(to_sockets):
            framed = self._framed(_those(changes, to_sockets), write, epoch)
            if framed is None:
                return None
        if len(to_sockets) < len(slots):
            self._send_chunks(_those(changes, np.flatnonzero(self._blocks[slots])), write, epoch)
        if framed is not None:
            self._send_frames(framed)
        return int(np.count_nonzero(numbers))

    def _send_chunks(self, changes: ChangedLists, write: BoardJson, epoch: str) -> None:
        """Keep changes, and write them to readers of server-sent events. O(changes)."""
        texts = write.changed(changes, Words.of(epoch, CHANGE, blocks=True))
        at = changes.slots()
        self._keep(at, changes.seqs(), texts)
        # All readers are looked up before the first write: one that falls behind is no longer a lone reader.
        self._pump.write_direct([self._readers[slot] for slot in at], texts, map(chunk, texts))

    def _framed(self, changes: ChangedLists, write: BoardJson, epoch: str) -> Framed | None:
        """Lay out the frames of changes for sockets, and of those without readers; None if that cannot be done.
        O(changes), and O(n log n) if they are not in order of connections.
        """
        numbers = self._numbers[changes.slot_column()]
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, changes = numbers[order], changes.reordered(order)
        prefixes = list(map(self._prefixes.__getitem__, changes.slots()))
        framed = write.framed(changes, Words.of(epoch, CHANGE, blocks=False), prefixes)
        return None if framed is None else Framed(changes, numbers, *framed)

    def _send_frames(self, framed: Framed) -> None:
        """Keep changes; queue those of one socket as a bundle, write single ones directly. O(changes)."""
        changes, numbers, texts, frames, ends = framed
        at = changes.slots()
        self._keep(at, changes.seqs(), texts)
        readers = list(map(self._readers.__getitem__, at))
        cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        alone: list[int] = []
        for first, last in pairwise((0, *cuts, len(at))):
            if readers[first] is None:
                continue
            if last - first == 1:
                alone.append(first)
                continue
            begin = ends[first - 1] if first else 0
            some = readers[first:last]
            some[0].connection.push_all(some, texts[first:last], frames[begin : ends[last - 1]])
        if alone:
            pieces = [frames[ends[n - 1] if n else 0 : ends[n]] for n in alone]
            self._pump.write_direct(map(readers.__getitem__, alone), map(texts.__getitem__, alone), pieces)

    def _keep(self, slots: Sequence[int], seqs: Sequence[int], texts: Sequence[bytes]) -> None:
        """As `Channel.retain` for each of some changes."""
        logs = list(map(self._logs.__getitem__, slots))
        # A list that has changed several times has its log here as often.
        for log, seq, text in zip(logs, seqs, texts, strict=True):
            log.append(seq)
            log.append(text)
        if max(map(len, texts)) > SMALL or max(map(len, logs)) > self._most:
            for slot in set(slots):
                channel = self._channels[slot]
                assert channel is not None, "there is one where there is a number"
                channel.settle()


def _those(changes: ChangedLists, places: Ints) -> ChangedLists:
    """The changes at these places, which are in order: all of them, or some. O(places)."""
    return changes if len(places) == len(changes) else changes.reordered(places)
