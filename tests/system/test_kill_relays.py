"""A relay under load is killed at random moments.

What was answered is there exactly once, and every answer, decisions and deliveries and all, is what the model says at
its seq.
"""

from __future__ import annotations

import signal
import time
from random import Random
from typing import Any

import httpx
import pytest

from tests.oracles.relay_http import RelayModel, least
from tests.support.live import StartService
from tests.system.faults import begin, done, ended
from tests.system.http.talk import Talk
from tests.system.kill_relays import NAMES, PATH, WRITERS, Subscriber, follow, without
from tests.system.killing import killed


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    writers = [Subscriber(number) for number in range(WRITERS)]
    service, writes = killed(start_service, PATH, {"attributes": NAMES}, writers, Random(7))
    model = RelayModel(NAMES)
    for write in writes:
        follow(model, write)
    talk = Talk(service.url)
    shown = talk.good("GET", PATH)
    assert (shown["seq"], shown["forwarded"]) == (model.seq, model.forwarded)
    assert talk.pages(f"{PATH}/subscriptions", 1000) == [model.shown(id) for id in sorted(model.boxes)]
    assert done(talk, "verify", resources=["relays/market"])["differences"] == []
    talk.close()


@pytest.mark.timeout(900)
def test_what_a_rebuild_decided_stands_after_a_kill(start_service: StartService) -> None:
    """Killed while it runs, all of it has been decided or nothing; killed behind it, all."""
    draw, model = Random(11), RelayModel(NAMES)
    service = start_service()
    httpx.put(service.url + PATH, json={"attributes": NAMES})
    for number in range(4):
        talk = Talk(service.url)
        made: list[Any] = [
            {"id": f"s{number}-{i}", "box": {name: sorted(draw.sample(range(60), 2)) for name in NAMES}}
            for i in range(300)
        ]
        talk.good("POST", f"{PATH}/subscriptions", {"subscriptions": made})
        for one in made:
            model.subscribe(one["id"], one["box"])
        (router,) = model.routers.values()
        smallest = least(model.boxes)
        either = {(model.seq, model.forwarded), (model.seq + 1, len(smallest))}
        assert model.forwarded > len(smallest)
        job = begin(talk, "rebuilds", resources=["relays/market"])
        if number < 3:
            time.sleep(draw.random() * 0.1)
        else:
            rebuilt = ended(talk, job)
            assert rebuilt["state"] == "succeeded", rebuilt
            told = rebuilt["detail"]["rederived"]["relays/market"]
            assert told["unsubscribe"] == [id for id in model.boxes if id in router.forwarded - smallest]
            either = {(told["seq"], len(smallest))}
            assert told["seq"] == model.seq + 1
        talk.close()
        service.stop(signal.SIGKILL)
        service = start_service(service.data)
        talk = Talk(service.url)
        shown = talk.good("GET", PATH)
        assert (shown["seq"], shown["forwarded"]) in either
        if shown["seq"] > model.seq:
            model.seq, router.forwarded = shown["seq"], set(smallest)
        talk.close()
    talk = Talk(service.url)
    for id in draw.sample(list(model.boxes), 60):
        told, wanted = talk.good("DELETE", f"{PATH}/subscriptions/{id}"), model.unsubscribe(id)
        assert told == {"seq": model.seq, **without(wanted, "id")}, id
    assert done(talk, "verify")["differences"] == []
    talk.close()
