"""A feed under load is killed at random moments.

What was answered is there exactly once, with the same `reached` also where the first answer never came, and afterwards
every post, subscription and list is what brute force says.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.oracles.feed_service import FeedService
from tests.oracles.feeds import FeedOracle
from tests.support.live import StartService
from tests.system.faults import done
from tests.system.http.talk import Talk
from tests.system.kill_feeds import CONFIG, PATH, WINDOW, WRITERS, Poster, follow
from tests.system.killing import killed


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    writers = [Poster(number) for number in range(WRITERS)]
    service, writes = killed(start_service, PATH, CONFIG, writers, Random(7))
    model = FeedService(FeedOracle((0.0, 0.0, 4.0, 3.0), posts=WINDOW))
    for write in writes:
        follow(model, write)
    assert model.oracle.came > WINDOW, "the window has moved on"
    talk = Talk(service.url)
    assert talk.good("GET", PATH)["seq"] == model.seq
    assert [one["id"] for one in talk.pages(f"{PATH}/posts", 1000)] == sorted(model.posts)
    assert [one["id"] for one in talk.pages(f"{PATH}/subscriptions", 1000)] == sorted(model.subscriptions)
    for id, expected in model.lists().items():
        found = talk.good("GET", f"{PATH}/subscriptions/{id}")["list"]
        assert [(entry["id"], entry["score"]) for entry in found] == [(post.id, score) for post, score in expected]
    assert done(talk, "verify", resources=["feeds/city"])["differences"] == []
    talk.close()
