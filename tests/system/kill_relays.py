"""Writers of a relay whose service is killed, and what each answer must be."""

from __future__ import annotations

import httpx

from tests.oracles.relay_http import RelayModel
from tests.system.http.talk import NDJSON, Json, strict
from tests.system.killing import Write, Writer

PATH = "/v1/relays/market"
NAMES = ["price", "volume"]
WRITERS = 4


class Said(Write):
    """Lines of a conversation are answered line by line."""

    @property
    def seq(self) -> int:
        found: int = self._answers[-1]["seq"]
        return found

    @property
    def in_doubt(self) -> bool:
        return any(answer.get("replayed") for answer in self._answers)

    @property
    def _answers(self) -> list[Json]:
        return self.answer if isinstance(self.answer, list) else [self.answer] if self.answer else []

    def take(self, answer: httpx.Response) -> None:
        if self.path != "/commands":
            super().take(answer)
            return
        lines = [strict(line) for line in answer.content.splitlines()]
        if len(lines) == len(self.body):
            self.answer = lines
        else:
            assert "problem" in lines[-1] and lines[-1]["problem"]["status"] in (409, 503), lines[-1]


class Subscriber(Writer):
    """Writes about subscriptions of its own, one request after the other, each until it is answered."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._ids: list[str] = []
        self._made = 0

    def _new(self) -> Json:
        self._made += 1
        id = f"w{self.number}-{self._made}"
        self._ids.append(id)
        return {"id": id, "box": self._box()}

    def _box(self) -> Json:
        return {name: sorted(self.draw.sample(range(60), 2)) for name in NAMES}

    def next(self, key: str) -> Write:
        draw, n = self.draw, self.made
        kinds = ["post", "put", "delete", "commands", "commands", "notify"]
        kind = "post" if len(self._ids) < 20 else draw.choice(kinds)
        if kind == "post":
            made = [self._new() for _ in range(200 if n == 0 else draw.randrange(1, 5))]
            return Said(key, "POST", "/subscriptions", {"subscriptions": made})
        if kind == "put":
            return Said(key, "PUT", f"/subscriptions/{draw.choice(self._ids)}", {"box": self._box()})
        if kind == "delete":
            gone = [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]
            return Said(key, "POST", "/subscriptions/delete", {"ids": gone})
        if kind == "notify":
            events = [{"values": {name: draw.randrange(60) for name in NAMES}} for _ in range(draw.randrange(1, 4))]
            return Said(key, "POST", "/notifications", {"notifications": events})
        lines: list[Json] = []
        for _ in range(draw.randrange(2, 12)):
            if draw.random() < 0.5:
                lines.append({"op": "unsubscribe", "id": self._ids.pop(draw.randrange(len(self._ids)))})
            else:
                lines.append({"op": "subscribe", **self._new()})
        return Said(key, "POST", "/commands", lines, NDJSON)


def follow(model: RelayModel, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer, body = write.answer, write.body
    if write.path == "/commands":
        for line, one in zip(body, answer, strict=True):
            told = (
                model.subscribe(line["id"], line["box"])
                if line["op"] == "subscribe"
                else unsubscribe(model, line["id"])
            )
            assert one["seq"] == model.seq, f"{write.key} is there twice, or not at all"
            assert model.agrees(without(one, "seq", "replayed"), told), (write.key, one, told)
        return
    if write.path == "/subscriptions":
        expected = [model.subscribe(one["id"], one["box"]) for one in body["subscriptions"]]
        pairs = zip(answer["results"], expected, strict=True)
        assert all(model.agrees(one, told) for one, told in pairs), write.key
    elif write.path == "/subscriptions/delete":
        assert answer["results"] == [unsubscribe(model, id) for id in body["ids"]], write.key
    elif write.path == "/notifications":
        assert answer["results"] == [model.notify(event["values"]) for event in body["notifications"]], write.key
    else:
        id = write.path.rpartition("/")[2]
        told = model.put(id, body["box"]) or {}
        shown = model.shown(id)
        assert {key: answer[key] for key in shown} == shown, write.key
        assert model.agrees(without(answer, "seq", "replayed", *shown), told), (write.key, answer, told)
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"


def unsubscribe(model: RelayModel, id: str) -> Json:
    return {"id": id, **without(model.unsubscribe(id), "id")}


def without(answer: Json, *fields: str) -> Json:
    return {key: value for key, value in answer.items() if key not in fields}
