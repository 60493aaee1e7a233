"""What a leader sends: it is read as it was written, whatever the pieces, and what is no frame is refused."""

from __future__ import annotations

from random import Random

import msgpack
import pytest

from app.replication.frames import BadFrame, Frame, Frames, packed
from app.storage.keys import KeyRow
from app.storage.rows import CopiedRow, LogRow, StoredAnswer
from app.storage.webhooks import PositionRow, WebhookRow

ROWS = [
    CopiedRow(LogRow(7, "boards/b", 3, 4, "events", b"\x00\xff", 12.5), b"0123456789abcdef"),
    CopiedRow(LogRow(8, "keys", 0, 0, "note", b"", 13.0), None),
]
ANSWERS = [StoredAnswer("anonymous", "k-1", b"hash", 7, 200, b'{"seq":4}', False, 12.5)]
KEYS = [KeyRow("k0", "ops", ("admin", "boards:read"), b"hash", 1.0, None, 2)]
WEBHOOK = WebhookRow("ops", "made", "https://example.org", "boards/b", 1, "whsec_x", 1.0, "active")


@pytest.mark.parametrize("seed", range(5))
def test_a_frame_is_read_as_it_was_written_whatever_the_pieces(seed: int) -> None:
    positions = [PositionRow("ops", "mine", "streaming", 4)]
    whole = Frame(8, 14.0, 2, ROWS, ANSWERS, KEYS, [(WEBHOOK, positions)])
    stream = packed(whole) + packed(Frame(8, 15.0, 2))
    draw, frames, found = Random(seed), Frames(), []
    while stream:
        at = draw.randrange(1, 60)
        found += list(frames.read(stream[:at]))
        stream = stream[at:]
    first, second = found
    assert first[:6] == whole[:6]
    assert first.webhooks == [(WEBHOOK, [PositionRow("ops", "mine", "lost", -1)])], "who takes over begins with reset"
    assert second == Frame(8, 15.0, 2, [], [], None, None)


@pytest.mark.parametrize(
    "what",
    [
        [],
        {"lsn": 1},
        {"lsn": 1, "now": 0.0, "term": 0, "rows": [[1, 2, 3]]},
        {"lsn": 1, "now": 0.0, "term": 0, "rows": [["1", "boards/b", 0, 0, "events", b"", 0.0, None]]},
        {"lsn": 1, "now": 0.0, "term": 0, "answers": [["a", "b", b"", 1, 200, b"", 1, 0.0]]},
        {"lsn": 1, "now": 0.0, "term": 0, "keys": [[]]},
    ],
)
def test_what_is_no_frame_is_refused(what: object) -> None:
    with pytest.raises(BadFrame):
        list(Frames().read(msgpack.packb(what)))


def test_what_is_no_messagepack_is_refused() -> None:
    with pytest.raises(BadFrame):
        list(Frames().read(b"\xc1\xc1"))
