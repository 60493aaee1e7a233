"""A feed under load is killed at random moments.

What was answered is there exactly once, with the same `reached` also where the first answer never came, and afterwards
every post, subscription and list is what brute force says.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.oracles.feed_service import FeedService, Subscribed
from tests.oracles.feeds import FeedOracle
from tests.support.live import StartService
from tests.system.faults import done
from tests.system.http.talk import NDJSON, Json, Talk
from tests.system.killing import Write, Writer, killed

PATH = "/v1/feeds/city"
WINDOW = 100
CONFIG: Json = {"window": WINDOW, "bounds": [0, 0, 4, 3]}
WRITERS = 4


class Said(Write):
    """Of writes it is posts whose answers may have been in doubt: `reached` is worked out again."""

    @property
    def in_doubt(self) -> bool:
        return self.method == "POST" and super().in_doubt


class Poster(Writer):
    """Posts, and sets subscriptions of its own, one request after the other, each until it is answered."""

    def next(self, key: str) -> Write:
        draw, n = self.draw, self.made
        if n < 2 or draw.random() < 0.1:
            body = {**self._words(), "k": draw.randrange(1, 5), "alpha": draw.choice([0.0, 0.5, 1.0])}
            path = f"/subscriptions/s{self.number}-{n % 3}"
            return Said(key, "PUT", path, body)
        posts = [{"id": f"{key}-{i}", **self._words()} for i in range(draw.randrange(1, 4))]
        return Said(key, "POST", "/posts", posts, NDJSON)

    def _words(self) -> Json:
        draw = self.draw
        place = [draw.uniform(0, 4), draw.uniform(0, 3)]
        return {"keywords": draw.choices("abcdefghij", k=draw.randrange(1, 4)), "location": place}


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


def follow(model: FeedService, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer = write.answer
    if write.method == "PUT":
        body, id = write.body, write.path.rpartition("/")[2]
        x, y = body["location"]
        one = Subscribed(body["keywords"], (x, y), body["k"], body["alpha"], None)
        model.set(id, one)
        assert (answer["id"], answer["k"]) == (id, one.k)
    else:
        expected = []
        for post in write.body:
            x, y = post["location"]
            expected.append({"id": post["id"], "reached": model.post(post["id"], post["keywords"], (x, y), 0, None)})
        assert answer["results"] == expected
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"
