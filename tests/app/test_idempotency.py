import time

import pytest

from app.idempotency import Answers, Replay, Ticket


def claimed(answers: Answers, key: str) -> Ticket:
    ticket = answers.claim("", key, b"hash")
    assert isinstance(ticket, Ticket)
    return ticket


def test_a_replayed_row_completes_the_one_answer_that_lacks_something() -> None:
    """A request that writes no row is stored beside the last one before it, whose answer may not be complete yet."""
    first = Answers()
    rows = [
        claimed(first, "events").store(7, 200, {"seq": 3, "tile_count": 0}, 1e12, lacks=True),
        claimed(first, "no events").store(7, 200, {"seq": 3, "tile_count": 0}, 1e12),
        claimed(first, "no change").store(7, 200, {"seq": 3}, 1e12),
    ]
    answers = Answers()
    answers.load(rows)
    assert answers.awaits(7)
    answers.learn(7, 5)
    assert not answers.awaits(7)
    assert answers.claim("", "events", b"hash") == Replay(200, {"seq": 3, "tile_count": 5, "replayed": True})
    assert answers.claim("", "no events", b"hash") == Replay(200, {"seq": 3, "tile_count": 0, "replayed": True})
    assert answers.claim("", "no change", b"hash") == Replay(200, {"seq": 3, "replayed": True})
    assert [(one.key, one.answer) for one in answers.take_completed()] == [("events", b'{"seq":3,"tile_count":5}')]


def test_answers_are_forgotten_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e6
    monkeypatch.setattr(time, "time", lambda: now)
    answers = Answers(hours=1)
    claimed(answers, "running")
    for key in ("a", "b", "c"):
        now += 1000
        claimed(answers, key).complete(200, {"seq": 1})
    now += 2000
    assert answers.expire() == now - 3600
    assert isinstance(answers.claim("", "b", b"hash"), Replay)
    claimed(answers, "a").complete(200, {"seq": 2})
    now += 3000
    assert isinstance(answers.claim("", "a", b"hash"), Replay)
    answers.expire()
    claimed(answers, "c")
