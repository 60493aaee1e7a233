"""Delivery of the changes of one slice to many readers: those of one connection are queued as a bundle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from app.streaming.buffer import CHANGE, SMALL, Channel, Entries, Message, TakesBundles


def publish_all(
    channels: Sequence[Channel | None],
    seqs: Sequence[int],
    texts: Sequence[bytes],
    blocks: bool,
    entries_at: Callable[[int], Entries],
) -> int:
    """Publish changes, given by columns, as `Channel.publish` does one by one; returns how many readers they have. A
    change without readers may have no channel.

    `texts` are SSE blocks (`blocks`) or messages of WebSockets; equal ones are one object. `entries_at(i)` are the
    entries of the i-th change. Connections get their messages in order of the changes. O(changes + readers).
    """
    sent = 0
    made = Message if blocks else Message.of_rest
    shared: dict[int, Message] = {}
    bundles: dict[TakesBundles, list[Any]] = {}
    """By connection, readers and their texts alternate."""
    last: TakesBundles | None = None
    for channel, seq, text, place in zip(channels, seqs, texts, count(), strict=False):
        if channel is None:
            continue
        reader = channel.lone
        if reader is None or blocks or reader.blocks:
            item = shared.get(id(text))
            if item is None:
                item = shared[id(text)] = made(seq, CHANGE, text)
            channel.retain(item, () if channel.diffs is None else entries_at(place))
            sent += len(channel.readers)
            for each in channel.readers:
                if blocks or each.conflation is not None or not each.connection.bundles:
                    each.push(item)
                elif not each.void:
                    bundles.setdefault(each.connection, []).extend((each, text))
            continue
        # `Channel.retain` inlined: with calls a change would take twice as long.
        log = channel.log
        log.append(seq)
        log.append(text)
        if len(text) > SMALL or len(log) > channel.most:
            channel.settle()
        sent += 1
        connection = reader.connection
        if connection is not last:
            last = connection
            add = bundles.setdefault(connection, []).append
        add(reader)
        add(text)
    for connection, pairs in bundles.items():
        connection.push_all(pairs[::2], pairs[1::2])
    return sent
