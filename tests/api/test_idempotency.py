import asyncio
import json
import time
import tracemalloc

import pytest

from app.storage.rows import StoredAnswer
from app.write_path.idempotency import Answers, KeyReused, Replay, StillRunning, Ticket


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
    answers.learn(7, lambda answer: {"tile_count": 5})
    assert not answers.awaits(7)
    assert answers.claim("", "events", b"hash") == Replay(200, {"seq": 3, "tile_count": 5, "replayed": True})
    assert answers.claim("", "no events", b"hash") == Replay(200, {"seq": 3, "tile_count": 0, "replayed": True})
    assert answers.claim("", "no change", b"hash") == Replay(200, {"seq": 3, "replayed": True})
    assert [(one.key, one.answer) for one in answers.take_completed()] == [("events", b'{"seq":3,"tile_count":5}')]


def test_what_applying_told_is_to_be_stored_before_the_request_is_answered() -> None:
    answers = Answers()
    lacking, whole = claimed(answers, "lacking"), claimed(answers, "whole")
    lacking.store(1, 200, {"seq": 3, "tile_count": 0}, time.time(), lacks=True)
    whole.store(2, 200, {"seq": 4}, time.time())
    lacking.applied({"seq": 3, "tile_count": 0}, {"tile_count": 7})
    whole.applied({"seq": 4}, {"tile_count": 0})
    completed = answers.take_completed()
    assert [(one.key, one.answer) for one in completed] == [("lacking", b'{"seq":3,"tile_count":7}')]
    lacking.complete(200, {"seq": 3, "tile_count": 7, "more": 1})
    answers.give_back(completed)
    assert [one.answer for one in answers.take_completed()] == [b'{"seq":3,"tile_count":7,"more":1}']


def test_answers_are_forgotten_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e6
    monkeypatch.setattr("app.runtime.clock.now", lambda: now)
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


def ask(answers: Answers, key: str, request_hash: bytes = b"hash") -> Ticket | Replay:
    """What a key gives, with the database asked where that may help."""
    row = asyncio.run(answers.look_up("", key)) if answers.elsewhere("", key) else None
    return answers.claim("", key, request_hash, row)


@pytest.mark.parametrize("remote", [False, True])
def test_answers_that_are_no_longer_in_memory_are_looked_up(monkeypatch: pytest.MonkeyPatch, remote: bool) -> None:
    rows: dict[str, StoredAnswer] = {}
    answers = Answers(find=lambda scope, key: rows.get(key), in_memory=2_100, remote=remote)
    now = time.time()
    for n in range(10):
        ticket = claimed(answers, f"{n}")
        rows[f"{n}"] = ticket.store(n, 200, {"seq": n}, now)
        ticket.complete(200, {"seq": n})
    assert len(answers._kept) == 4
    for n in range(10):
        assert answers.elsewhere("", f"{n}") == (n < 6)
        assert ask(answers, f"{n}") == Replay(200, {"seq": n, "replayed": True})
    with pytest.raises(KeyReused):
        ask(answers, "0", b"another")
    answers.take_completed()
    rows["1"] = rows["1"]._replace(complete=False)
    with pytest.raises(StillRunning):
        ask(answers, "1")
    rows["2"] = rows["2"]._replace(created_at=0.0)
    assert isinstance(ask(answers, "2"), Ticket)
    monkeypatch.setattr("app.write_path.idempotency.AT_START", 3)
    again = Answers(find=lambda scope, key: rows.get(key))
    again.load(list(rows.values())[-3:])
    assert ask(again, "0") == Replay(200, {"seq": 0, "replayed": True})


def test_what_was_not_answered_stays_in_memory() -> None:
    answers = Answers(in_memory=0)
    for key in ("a", "b", "c"):
        claimed(answers, key)
    for key in ("a", "b", "c"):
        with pytest.raises(StillRunning):
            answers.claim("", key, b"hash")


def test_answers_take_no_more_memory_than_is_counted() -> None:
    """Also when a request at the head still runs, and when all finish after the last one was claimed."""
    limit = 2 << 20
    answers = Answers(find=lambda scope, key: None, in_memory=limit)
    running = claimed(answers, "running")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tickets = [claimed(answers, f"{n}") for n in range(20)]
        for n, ticket in enumerate(tickets):
            answer = {"seq": n, "results": [{"id": f"a long name {i}", "score": i / 7} for i in range(20_000)]}
            ticket.store(n, 200, {"seq": n, "results": []}, time.time(), lacks=True)
            ticket.applied(answer, {})
            ticket.complete(200, answer)
            answers.take_completed()  # the next write
            text = len(json.dumps(answer))
            del answer
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 20 * text > 8 * limit
    assert held < limit + text
    running.abandon()


def test_an_answer_that_left_memory_before_it_was_stored_whole_is_replayed() -> None:
    rows: dict[str, StoredAnswer] = {}
    answers = Answers(find=lambda scope, key: rows.get(key), in_memory=0)
    ticket = claimed(answers, "a")
    rows["a"] = ticket.store(1, 200, {"seq": 1, "tile_count": 0}, time.time(), lacks=True)
    ticket.applied({"seq": 1, "tile_count": 0}, {"tile_count": 5})
    ticket.complete(200, {"seq": 1, "tile_count": 5})
    assert answers.bytes_to_complete == len(b'{"seq":1,"tile_count":5}')
    assert ask(answers, "a") == Replay(200, {"seq": 1, "tile_count": 5, "replayed": True})
    (completed,) = answers.take_completed()
    assert answers.bytes_to_complete == 0
    rows["a"] = rows["a"]._replace(answer=completed.answer, complete=True)
    assert ask(answers, "a") == Replay(200, {"seq": 1, "tile_count": 5, "replayed": True})
