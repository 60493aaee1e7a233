import time

import pytest

from app.idempotency import Answers, KeyReused, Replay, StillRunning, Ticket
from app.storage.log import StoredAnswer


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


def test_answers_that_are_no_longer_in_memory_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[str, StoredAnswer] = {}
    answers = Answers(find=lambda scope, key: rows.get(key), in_memory=2_000)
    now = time.time()
    for n in range(10):
        ticket = claimed(answers, f"{n}")
        rows[f"{n}"] = ticket.store(n, 200, {"seq": n}, now)
        ticket.complete(200, {"seq": n})
    assert len(answers._kept) == 4
    for n in range(10):
        assert answers.claim("", f"{n}", b"hash") == Replay(200, {"seq": n, "replayed": True})
    with pytest.raises(KeyReused):
        answers.claim("", "0", b"another")
    rows["1"] = rows["1"]._replace(complete=False)
    with pytest.raises(StillRunning):
        answers.claim("", "1", b"hash")
    rows["2"] = rows["2"]._replace(created_at=0.0)
    claimed(answers, "2")
    monkeypatch.setattr("app.idempotency.AT_START", 3)
    again = Answers(find=lambda scope, key: rows.get(key))
    again.load(list(rows.values())[-3:])
    assert again.claim("", "0", b"hash") == Replay(200, {"seq": 0, "replayed": True})


def test_what_was_not_answered_stays_in_memory() -> None:
    answers = Answers(in_memory=0)
    for key in ("a", "b", "c"):
        claimed(answers, key)
    for key in ("a", "b", "c"):
        with pytest.raises(StillRunning):
            answers.claim("", key, b"hash")
