"""Boards under load, killed and replayed."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from random import Random

from tests.support.live import StartService, serve_command
from tests.support.patience import wait_until
from tests.system.http.talk import Json, Talk
from tests.system.load import Load

CONFIG: Json = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2, 5]}


KINDS = ["single", "single", "single", "batch", "batch", "ndjson", "subscriptions"]


ROUNDS = 10


def start_half(data: Path, *options: str) -> subprocess.Popen[bytes]:
    """Starts a service and does not wait for it."""
    command = serve_command("--data", data, *options)
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_under_load(start_service: StartService, draw: Random, *options: str) -> None:
    """In the middle of a load, at random moments.

    Unanswered writes are wholly there or not at all, and their retries are answered as if nothing had happened.
    """
    service = start_service(None, *options)
    load = Load(service.url, [*KINDS, "bulk"])
    load.start()
    in_doubt = there = 0
    for number in range(ROUNDS):
        before = load.answered
        wait_until(lambda before=before: load.answered >= before + draw.randrange(20, 200))
        time.sleep(draw.random() * 0.05)
        load.pause()
        service.stop(signal.SIGKILL)
        load.wait_held()
        pending = [writer.writes[-1] for writer in load.writers if writer.writes[-1].answer is None]
        if number % 4 == 1:
            half = start_half(service.data, *options)
            time.sleep(draw.random())
            half.kill()
            half.wait()
        service = start_service(service.data, *options)
        load.url = service.url
        talk = Talk(service.url)
        seen = load.read(talk)
        load.gate.set()
        wait_until(lambda pending=pending: all(write.answer is not None for write in pending))
        load.hold()
        for write in pending:
            assert write.answer is not None
            was_there = write.answer["seq"] <= seen[0]
            assert bool(write.answer.get("replayed")) == was_there or write.tried > 2, (
                write.key,
                write.answer,
                seen[0],
            )
            if write.events:
                assert write.answer["applied"] == len(write.events)
                assert "tile_count" in write.answer or "messages=none" in write.path
            there += was_there
        in_doubt += len(pending)
        load.check(talk, [seen, load.read(talk)])
        talk.close()
        load.gate.set()
    load.stop()
    talk = Talk(service.url)
    writes = load.check(talk, [load.read(talk)])
    assert writes > 10 * 20 and in_doubt > 0
    replay_everything(load, talk)
    print(f"{writes} writes, {in_doubt} unanswered at a kill, {there} of them were there")
    assert service.stop() == 0
    service = start_service(service.data, *options)
    load.compare(*load.read(Talk(service.url)))
    assert service.stop() == 0


def replay_everything(load: Load, talk: Talk) -> None:
    """Every answered write, sent again under its key, is answered as before and changes nothing."""
    before = talk.good("GET", load.path)
    for writer in load.writers:
        for write in writer.writes[-40:]:
            first = write.answer
            assert write.send(talk.http) in (200, 201)
            again = write.answer
            assert first is not None and again is not None and again["replayed"] is True
            assert (again["seq"], again.get("tile_count")) == (first["seq"], first.get("tile_count")), (first, again)
    assert talk.good("GET", load.path) == before
