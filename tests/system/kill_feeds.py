"""Writers of a feed whose service is killed, and what each answer must be."""

from __future__ import annotations

from tests.oracles.feed_service import FeedService, Subscribed
from tests.system.http.talk import NDJSON, Json
from tests.system.killing import Write, Writer

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
