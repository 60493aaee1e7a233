"""A random history of a relay over HTTP, each answer beside the model's."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa

from tests.oracles.relay_http import RelayModel
from tests.system.http.talk import ARROW, NDJSON, Json, Talk, arrow, fresh, ndjson, problem, strict

ENDS: list[Any] = [None, *range(-2, 9), -0.5, 2.5, 1e300, -1e300]
"""Few values, so that many boxes cover each other, and some are equal."""


class RelayPlayer:
    """Does something to a relay at each `step`, and checks the answer and what is there."""

    def __init__(self, talk: Talk, seed: int, d: int, graph: str, k: int, index: str, links: int = 0) -> None:
        self.talk = talk
        self.draw = Random(seed)
        self.names = ["price", "volume", "age"][:d]
        self.path = f"/v1/relays/{fresh('r')}"
        self.number = 0
        # Nobody is there: what is forwarded waits.
        made = {f"l{n}": {"url": "http://127.0.0.1:9", "relay": "there", "link": "here"} for n in range(links)}
        self.model = RelayModel(self.names, graph, k, sorted(made))
        body: Json = {"attributes": self.names, "graph": {"kind": graph}, "index": index, "links": made}
        if graph == "G":
            body["graph"]["k"] = k
        self.offset = talk.good("PUT", self.path, body)["seq"]
        assert self.offset == 0
        self.begun = 0

    def step(self) -> None:
        """One request."""
        draw = self.draw
        kind = draw.choices(
            [
                self._post,
                self._put,
                self._patch,
                self._delete,
                self._delete_many,
                self._commands,
                self._refused,
                self._notify,
            ],
            [3, 3, 2, 2, 1, 4, 2, 2],
        )[0]
        kind()

    def check(self) -> None:
        """What is there is what should be."""
        items = self.talk.pages(f"{self.path}/subscriptions", self.draw.randrange(1, 20))
        assert items == [self.model.shown(id) for id in sorted(self.model.boxes)]
        shown = self.talk.good("GET", self.path)
        assert (shown["subscriptions"], shown["forwarded"]) == (len(items), self.model.forwarded)
        self._at(shown["seq"])

    def _at(self, seq: int) -> None:
        """An answer's seq. Each link begins an epoch once, by itself, which takes one."""
        self.begun = seq - self.model.seq
        assert 0 <= self.begun <= len(self.model.links)

    def _body(self) -> Json:
        draw = self.draw
        body: Json = {"box": {name: self._ends() for name in self.names if draw.random() < 0.8}}
        if self.model.links and draw.random() < 0.4:
            body["link"] = draw.choice(self.model.links)
        return body

    def _ends(self) -> list[Any]:
        lo, hi = self.draw.choice(ENDS), self.draw.choice(ENDS)
        return [hi, lo] if lo is not None and hi is not None and lo > hi else [lo, hi]

    def _some(self) -> str:
        there = list(self.model.boxes)
        return self.draw.choice(there) if there else "nobody"

    def _new(self) -> Json:
        self.number += 1
        return {"id": f"s{self.number}", **self._body()}

    def _post(self) -> None:
        bodies = [self._new() for _ in range(self.draw.randrange(1, 6))]
        how, path = self.draw.randrange(3), f"{self.path}/subscriptions"
        if how == 0:
            answer = self.talk.good("POST", path, {"subscriptions": bodies})
        elif how == 1:
            answer = self.talk.good("POST", path, ndjson(bodies), headers={"Content-Type": NDJSON})
        else:
            answer = self.talk.good("POST", path, arrow(self._table(bodies)), headers={"Content-Type": ARROW})
        expected = [self.model.subscribe(body["id"], body["box"], body.get("link")) for body in bodies]
        assert len(answer["results"]) == len(expected)
        for one, wanted in zip(answer["results"], expected, strict=True):
            assert self.model.agrees(one, wanted), (one, wanted)
        self._at(answer["seq"])

    def _table(self, bodies: list[Json]) -> pa.Table:
        columns = {"id": pa.array([body["id"] for body in bodies])}
        columns["link"] = pa.array([body.get("link") for body in bodies], pa.string())
        for name in self.names:
            pairs = [body["box"].get(name, [None, None]) for body in bodies]
            columns[f"{name}_min"] = pa.array([pair[0] for pair in pairs], pa.float64())
            columns[f"{name}_max"] = pa.array([pair[1] for pair in pairs], pa.float64())
        return pa.table(columns)

    def _put(self) -> None:
        id = self._some() if self.draw.random() < 0.7 else f"p{self.draw.randrange(5)}"
        body, made = self._body(), id not in self.model.boxes
        answer = self.talk.ask("PUT", f"{self.path}/subscriptions/{id}", body)
        told = self.model.put(id, body["box"], body.get("link"))
        assert answer.status_code == (201 if made else 200)
        self._set(answer.json(), id, told)

    def _patch(self) -> None:
        id = self._some()
        box = {name: None if self.draw.random() < 0.3 else ends for name, ends in self._body()["box"].items()}
        answer = self.talk.ask("PATCH", f"{self.path}/subscriptions/{id}", {"box": box})
        if id not in self.model.boxes:
            problem(answer, 404, "id")
            return
        assert answer.status_code == 200
        self._set(answer.json(), id, self.model.patch(id, box))

    def _set(self, answer: Json, id: str, told: Json | None) -> None:
        self._at(answer.pop("seq"))
        decided = {key: value for key, value in answer.items() if key.startswith(("forward", "covered"))}
        assert {key: value for key, value in answer.items() if key not in decided} == self.model.shown(id)
        assert self.model.agrees(decided, told or {}), (decided, told)

    def _delete(self) -> None:
        id = self._some()
        answer = self.talk.ask("DELETE", f"{self.path}/subscriptions/{id}")
        if id not in self.model.boxes:
            problem(answer, 404, "id")
            return
        found = answer.json()
        assert found == {"seq": found["seq"], **self.model.unsubscribe(id)}
        self._at(found["seq"])

    def _delete_many(self) -> None:
        ids = [self._some() for _ in range(3)]
        answer = self.talk.good("POST", f"{self.path}/subscriptions/delete", {"ids": ids})
        there = [id for id in dict.fromkeys(ids) if id in self.model.boxes]
        assert answer["deleted"] == len(there)
        assert answer["results"] == [{"id": id, **self.model.unsubscribe(id)} for id in there]
        self._at(answer["seq"])

    def _commands(self) -> None:
        """A conversation: what is unsubscribed in it may have begun in it."""
        lines: list[Json] = []
        there = list(self.model.boxes)
        for _ in range(self.draw.randrange(1, 12)):
            if there and self.draw.random() < 0.5:
                lines.append({"op": "unsubscribe", "id": there.pop(self.draw.randrange(len(there)))})
            else:
                lines.append({"op": "subscribe", **self._new()})
                there.append(lines[-1]["id"])
        for line, answer in zip(lines, self._talk(lines), strict=True):
            if line["op"] == "subscribe":
                wanted = self.model.subscribe(line["id"], line["box"], line.get("link"))
            else:
                wanted = {"id": line["id"], **self.model.unsubscribe(line["id"])}
            self._at(answer.pop("seq"))
            assert self.model.agrees(answer, wanted), (answer, wanted)

    def _talk(self, lines: list[Json], **params: str) -> list[Json]:
        path, headers = f"{self.path}/commands", {"Content-Type": NDJSON}
        answer = self.talk.ask("POST", path, ndjson(lines), headers=headers, params=params)
        assert answer.status_code == 200, answer.text
        return [strict(line) for line in answer.content.splitlines()]

    def _refused(self) -> None:
        """The rest of the request is good, and nothing of it is done, unless it says to pass it over."""
        bad: Any
        bad, field = self.draw.choice(
            [
                ({"box": {self.names[-1]: [2, 1]}}, f"box.{self.names[-1]}"),
                ({"box": {"nothing": [1, 2]}}, "box.nothing"),
                ({"box": {self.names[0]: [1]}}, f"box.{self.names[0]}"),
                ({"ttl": -1}, "ttl"),
                ({"link": "nowhere"}, "link"),
            ]
        )
        good = self._new()
        body = {**self._new(), **bad}
        path = f"{self.path}/subscriptions"
        problem(self.talk.ask("POST", path, {"subscriptions": [good, body]}), 422, f"subscriptions[1].{field}")
        problem(self.talk.ask("PUT", f"{path}/bad", {key: body[key] for key in bad}), 422, field)
        lines = [{"op": "subscribe", **good}, {"op": "subscribe", **body}]
        answer = self.talk.ask("POST", f"{self.path}/commands", ndjson(lines), headers={"Content-Type": NDJSON})
        problem(answer, 422, f"commands[1].{field}")
        first, second = self._talk(lines, on_error="skip")
        wanted = {"index": 0, **self.model.subscribe(good["id"], good["box"], good.get("link"))}
        self._at(first.pop("seq"))
        assert self.model.agrees(first, wanted), (first, wanted)
        assert (second["index"], second["errors"][0]["field"]) == (1, f"commands[1].{field}")

    def _notify(self) -> None:
        events = []
        for _ in range(self.draw.randrange(1, 5)):
            event: Json = {"values": {name: self.draw.choice(ENDS[1:]) for name in self.names}}
            if self.draw.random() < 0.5:
                event["payload"] = {"n": self.draw.randrange(9)}
            if self.model.links and self.draw.random() < 0.5:
                event["from"] = self.draw.choice(self.model.links)
            events.append(event)
        path = f"{self.path}/notifications"
        if self.draw.random() < 0.5:
            answer = self.talk.good("POST", path, {"notifications": events})
        else:
            columns = {name: pa.array([float(event["values"][name]) for event in events]) for name in self.names}
            payloads = [json.dumps(event["payload"]) if "payload" in event else None for event in events]
            columns["payload"] = pa.array(payloads, pa.string())
            columns["from"] = pa.array([event.get("from") for event in events], pa.string())
            answer = self.talk.good("POST", path, arrow(pa.table(columns)), headers={"Content-Type": ARROW})
        assert answer["results"] == [self.model.notify(event["values"], event.get("from")) for event in events]
        self._at(answer["seq"])
