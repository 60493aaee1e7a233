"""Writers of a matcher whose service is killed, and what each answer must be."""

from __future__ import annotations

from tests.oracles.matcher_service import MatcherModel
from tests.system.http.talk import NDJSON, Json
from tests.system.killing import Write, Writer

PATH = "/v1/matchers/ads"
NAMES = ["age", "credit"]
WRITERS = 4
FIRST = 1_500
"""Subscriptions of the first request: more than the tail of an index takes."""


class Asker(Writer):
    """Writes about subscriptions of its own, one request after the other, each until it is answered."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._ids: list[str] = []

    def next(self, key: str) -> Write:
        draw, n = self.draw, self.made
        many = n == 0 or draw.random() < 0.05
        kind = "post" if many or len(self._ids) < 5 else draw.choice(["post", "patch", "delete", "match", "match"])
        if kind == "post":
            made = [self._interest(f"{key}-{i}") for i in range(FIRST if many else draw.randrange(1, 4))]
            self._ids += [one["id"] for one in made]
            return Write(key, "POST", "/subscriptions", made, NDJSON)
        if kind == "match":
            events = [{"values": {name: draw.randrange(100) for name in NAMES}} for _ in range(draw.randrange(1, 4))]
            body = {"events": events, "k": 5, "notify": True}
            return Write(key, "POST", "/match", body)
        if kind == "delete":
            gone = [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]
            body = {"ids": gone}
            return Write(key, "POST", "/subscriptions/delete", body)
        body = {"weights": {"age": n + 0.5}}
        return Write(key, "PATCH", f"/subscriptions/{draw.choice(self._ids)}", body)

    def _interest(self, id: str) -> Json:
        ends = [sorted(self.draw.sample(range(100), 2)) for _ in NAMES]
        weights = {name: self.draw.choice([0.1, 0.2, 0.3, 0.7]) for name in NAMES}
        return {"id": id, "intervals": dict(zip(NAMES, ends, strict=True)), "weights": weights}


def follow(model: MatcherModel, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer = write.answer
    if write.path == "/match":
        model.seq += len(write.body["events"])
        for event, result in zip(write.body["events"], answer["results"], strict=True):
            assert result["winners"] == model.winners(event["values"], 5), write.key
    elif write.path == "/subscriptions":
        for body in write.body:
            model.put(body["id"], body)
        shown = [model.shown(body["id"]) for body in write.body]
        assert answer.get("subscriptions", shown) == shown
    elif write.path == "/subscriptions/delete":
        assert answer["deleted"] == sum([model.delete(id) for id in write.body["ids"]])
    else:
        id = write.path.rpartition("/")[2]
        model.patch(id, write.body)
        assert {**answer, "replayed": True} == {"seq": model.seq, **model.shown(id), "replayed": True}
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"
