"""What a leader sends to those who follow its log: a stream of MessagePack maps.

Each has the leader's last row (``lsn``), its time (``now``) and its term. One with ``rows`` has rows of the log as they
are, with their checksums, and the ``answers`` stored with them; ``keys`` and ``webhooks`` are all there are, and hold
from before the rows on. One without any of these is a sign of life.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgpack

from app.storage.keys import KeyRow
from app.storage.rows import CopiedRow, LogRow, StoredAnswer
from app.storage.webhooks import PositionRow, StoredWebhook, WebhookRow

MEDIA_TYPE = "application/vnd.rankcast.log"

LARGEST = 2 << 30
"""Bytes of one map, at most: a row holds a part of a command, and parts are limited by the largest body."""


class BadFrame(Exception):
    """What came is no frame of this stream."""


class Frame(NamedTuple):
    """A frame as it was read."""

    lsn: int
    now: float
    term: int
    rows: Sequence[CopiedRow] = ()
    answers: Sequence[StoredAnswer] = ()
    keys: Sequence[KeyRow] | None = None
    webhooks: Sequence[StoredWebhook] | None = None


def packed(frame: Frame) -> bytes:
    """A frame as it is sent."""
    found: dict[str, Any] = {"lsn": frame.lsn, "now": frame.now, "term": frame.term}
    if frame.rows:
        found["rows"] = [(*row, checksum) for row, checksum in frame.rows]
    if frame.answers:
        found["answers"] = [tuple(answer) for answer in frame.answers]
    if frame.keys is not None:
        found["keys"] = [tuple(key) for key in frame.keys]
    if frame.webhooks is not None:
        found["webhooks"] = [(tuple(row), [one.id for one in positions]) for row, positions in frame.webhooks]
    whole: bytes = msgpack.packb(found)
    return whole


class Frames:
    """Reads frames from the pieces of a stream."""

    def __init__(self) -> None:
        self._unpacker = msgpack.Unpacker(max_buffer_size=LARGEST, use_list=False)

    def read(self, piece: bytes) -> Iterator[Frame]:
        """The frames that a piece completes. Raises `BadFrame`."""
        try:
            self._unpacker.feed(piece)
            for found in self._unpacker:
                yield _frame(found)
        except (ValueError, TypeError, KeyError, LookupError, msgpack.UnpackException) as error:
            raise BadFrame(f"what the leader sends cannot be read: {error}") from error


def _frame(found: Any) -> Frame:
    lsn, now, term = int(found["lsn"]), float(found["now"]), int(found["term"])
    rows = [CopiedRow(_log_row(row[:-1]), row[-1]) for row in found.get("rows", ())]
    answers = [_answer(row) for row in found.get("answers", ())]
    keys, webhooks = found.get("keys"), found.get("webhooks")
    return Frame(
        lsn,
        now,
        term,
        rows,
        answers,
        None if keys is None else [KeyRow(key[0], key[1], tuple(key[2]), *key[3:]) for key in keys],
        None if webhooks is None else [_webhook(*webhook) for webhook in webhooks],
    )


def _log_row(values: Sequence[Any]) -> LogRow:
    row = LogRow._make(values)
    kinds = (int, str, int, int, str, bytes, float)
    if any(type(value) is not kind for value, kind in zip(row, kinds, strict=True)):
        raise ValueError("a row of the log has another shape")
    return row


def _answer(values: Sequence[Any]) -> StoredAnswer:
    answer = StoredAnswer._make(values)
    kinds = (str, str, bytes, int, int, bytes, bool, float)
    if any(type(value) is not kind for value, kind in zip(answer, kinds, strict=True)):
        raise ValueError("a stored response has another shape")
    return answer


def _webhook(row: Sequence[Any], ids: Sequence[str]) -> StoredWebhook:
    # How far deliveries are is the leader's alone: who takes over goes on with `reset`.
    webhook = WebhookRow._make(row)
    return webhook, [PositionRow(webhook.name, id, "lost", -1) for id in ids]
