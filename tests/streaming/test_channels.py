"""What a channel keeps for readers who resume: so many messages and so many bytes, and no gap among them."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import cast

import pytest

from app.streaming.buffer import GONE, KEPT_BYTES, NOTIFICATION, Channel, Message, message
from app.streaming.connection import Connection, Reader


def notification(seq: int, size: int) -> Message:
    return message("e1", seq, NOTIFICATION, "x" * size)


@pytest.mark.parametrize("size", [10, 4_000, 100_000])
def test_what_is_kept_is_bounded_in_bytes_and_has_no_gap(size: int) -> None:
    channel = Channel("relays/r", "mine", "events", 0, 256)
    for seq in range(1, 1_001):
        channel.publish(notification(seq, size))
        assert channel.nbytes == sum(len(one.block) for one in channel.kept) <= KEPT_BYTES
    kept = len(channel.kept)
    assert kept == min(256, KEPT_BYTES // len(channel.kept[-1].block))
    assert channel.floor == 1_000 - kept
    missed = channel.missed(channel.floor)
    assert missed is not None and [one.seq for one in missed] == list(range(channel.floor + 1, 1_001))
    assert channel.missed(channel.floor - 1) is None


def test_a_message_that_is_longer_than_what_is_kept_can_be_resumed_behind() -> None:
    channel = Channel("relays/r", "mine", "events", 0, 256)
    channel.publish(notification(1, 10))
    channel.publish(notification(2, KEPT_BYTES))
    assert (len(channel.kept), channel.nbytes, channel.missed(1), channel.missed(2)) == (0, 0, None, [])
    channel.publish(notification(3, 10))
    assert channel.missed(2) == [notification(3, 10)]
    channel.restart(notification(4, 10))
    assert (channel.nbytes, channel.missed(3), channel.missed(4)) == (0, None, [])


@pytest.mark.parametrize("keep", [0, 3, 256])
def test_small_messages_are_counted_later_and_never_many_of_them(keep: int) -> None:
    channel = Channel("relays/r", "mine", "events", 0, keep)
    for seq in range(1, 1_001):
        channel.publish(notification(seq, 10))
        assert len(channel.log) // 2 <= keep * 9 // 8
        assert channel.published == seq
    assert [one.seq for one in channel.kept] == list(range(1_001 - keep, 1_001))
    assert channel.floor == 1_000 - keep
    assert channel.nbytes == sum(len(one.block) for one in channel.kept)


def test_what_is_kept_is_nothing_to_the_collector() -> None:
    channel = Channel("relays/r", "mine", "events", 0, 256)
    for seq in range(1, 11):
        channel.publish(notification(seq, 10))
    assert len(channel.log) == 20
    assert not any(map(gc.is_tracked, channel.log))


@pytest.mark.parametrize("data", ['{"seq":43}', '{"seq":43,"id":"\u00e4"}'])
@pytest.mark.parametrize("event", [NOTIFICATION, GONE])
def test_a_message_is_made_again_of_what_was_kept_of_it(event: str, data: str) -> None:
    item = message("e1", 43, event, data)
    for one in (item, Message(43, event, item.block)):
        again = Message.of_kept(43, one.kept)
        assert (again.seq, again.event, again.block, again.rest) == (43, event, item.block, item.rest)
        assert again.size == len(item.block)


@pytest.mark.parametrize("blocks", [True, False])
def test_messages_are_made_as_the_first_reader_has_them(blocks: bool) -> None:
    channel = Channel("boards/b", "mine", "changes", 0, 256)
    assert not channel.blocks
    for each in (blocks, not blocks):
        channel.readers[Reader(cast("Connection", SimpleNamespace(limit=1, blocks=each)))] = None
    assert channel.blocks == blocks
