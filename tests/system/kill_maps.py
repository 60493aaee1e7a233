"""Writers of a map whose service is killed, and what each answer must be."""

from __future__ import annotations

from tests.oracles.map_service import MapModel
from tests.system.http.talk import NDJSON, Json
from tests.system.killing import Write, Writer

PATH = "/v1/maps/food"
CONFIG: Json = {
    "attributes": {"price": "low", "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 100, 100],
    "metric": "euclidean",
}
SCORE: Json = {"kind": "weighted_sum", "weights": {"price": 0.25, "rating": 0.25, "distance": 0.5}}
WRITERS = 4
FIRST = 3_000
"""Objects of the first request, which is checked all at once."""


class Mover(Writer):
    """Writes about objects and queries of its own, one request after the other, each until it is answered."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._ids: list[str] = []
        self._queries: list[str] = []

    def next(self, key: str) -> Write:
        draw, n = self.draw, self.made
        kinds = ["post", "patch", "delete", "query", "move", "move"] if len(self._ids) > 5 and self._queries else []
        kind = ("post", "query")[n] if n < 2 else draw.choice([*kinds, "post"])
        if kind == "post":
            made = [self._object(f"{key}-{i}") for i in range(FIRST if n == 0 else draw.randrange(1, 4))]
            self._ids += [one["id"] for one in made]
            return Write(key, "POST", "/objects", made, NDJSON)
        if kind == "query":
            id = f"q{key}"
            self._queries.append(id)
            body: Json = {"kind": "skyline", "location": self._place()}
            if draw.random() < 0.7:
                body = {"kind": "top", "location": self._place(), "k": 3, "m": 2, "score": SCORE}
            return Write(key, "PUT", f"/queries/{id}", body)
        if kind == "move":
            moves = [{"id": draw.choice(self._queries), "location": self._place()}]
            body = {"moves": moves}
            return Write(key, "POST", "/queries/moves", body)
        if kind == "delete":
            body = {"ids": [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]}
            return Write(key, "POST", "/objects/delete", body)
        body = {"values": {"price": n + 0.5}}
        return Write(key, "PATCH", f"/objects/{draw.choice(self._ids)}", body)

    def _place(self) -> list[float]:
        return [self.draw.uniform(0, 100), self.draw.uniform(0, 100)]

    def _object(self, id: str) -> Json:
        values = {"price": self.draw.randrange(1000), "rating": self.draw.choice([0, 2.5, 5])}
        return {"id": id, "location": self._place(), "values": values}


def follow(model: MapModel, queries: dict[str, Json], write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer = write.answer
    if write.path == "/objects":
        model.put(*write.body)
        assert answer["applied"] == len(write.body)
    elif write.path == "/objects/delete":
        model.delete(*write.body["ids"])
        assert answer["deleted"] == len(write.body["ids"])
    elif write.path == "/queries/moves":
        model.seq += 1
        for move, result in zip(write.body["moves"], answer["results"], strict=True):
            queries[move["id"]]["location"] = move["location"]
            assert result["id"] == move["id"] and isinstance(result["inside"], bool)
    elif write.method == "PUT":
        model.seq += 1
        queries[write.path.rpartition("/")[2]] = dict(write.body)
    else:
        id = write.path.rpartition("/")[2]
        model.put({"id": id, **write.body})
        assert {**answer, "replayed": True} == {"seq": model.seq, **model.objects[id].shown(), "replayed": True}
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"
