"""A matcher under load is killed at random moments.

What was answered is there exactly once, and every answer, winners and all, is what the model says at its seq.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.oracles.matcher_service import MatcherModel
from tests.support.live import StartService
from tests.system.faults import done
from tests.system.http.talk import Talk
from tests.system.kill_matchers import NAMES, PATH, WRITERS, Asker, follow
from tests.system.killing import killed


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    writers = [Asker(number) for number in range(WRITERS)]
    service, writes = killed(start_service, PATH, {"dimensions": NAMES, "mode": "relaxed"}, writers, Random(7))
    model = MatcherModel(NAMES, "relaxed")
    for write in writes:
        follow(model, write)
    talk = Talk(service.url)
    assert talk.good("GET", PATH)["seq"] == model.seq
    assert talk.pages(f"{PATH}/subscriptions", 1000) == [model.shown(id) for id in sorted(model.interests)]
    for age in range(0, 100, 20):
        event = {"values": {"age": age, "credit": 50}}
        (result,) = talk.good("POST", f"{PATH}/match", {"events": [event], "k": 10})["results"]
        assert result["winners"] == model.winners(event["values"], 10)
    assert done(talk, "verify", resources=["matchers/ads"])["differences"] == []
    talk.close()
