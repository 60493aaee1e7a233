"""A random history of a matcher over HTTP, each answer beside the model's."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from tests.oracles.matcher_service import MatcherModel
from tests.system.http.talk import ARROW, NDJSON, Json, Talk, arrow, fresh, ndjson, problem

ENDS: list[Any] = [None, *range(-3, 12), -0.5, 2.5, 1e300, -1e300]
WEIGHTS = [0, 0.1, 0.2, 0.25, 0.3, 0.7, 1, 1.5, 2, 3]
"""Few values, so that there are many ties, and sums that depend on their order."""


class MatcherPlayer:
    """Does something to a matcher at each `step`, and checks the answer and what is there."""

    def __init__(self, talk: Talk, seed: int, d: int, mode: str, combine: str, index: str) -> None:
        self.talk = talk
        self.draw = Random(seed)
        self.names = ["age", "credit", "pay", "days"][:d]
        self.model = MatcherModel(self.names, mode, combine)
        self.path = f"/v1/matchers/{fresh('m')}"
        self.number = 0
        config: Json = {"dimensions": self.names, "mode": mode, "index": index}
        if mode == "relaxed":
            config["combine"] = combine
        assert talk.good("PUT", self.path, config)["seq"] == 0

    def step(self) -> None:
        """One request, and a match."""
        draw = self.draw
        kind = draw.choices(
            [self._post, self._put, self._patch, self._delete, self._delete_many, self._refused, self._notify],
            [3, 3, 3, 1, 1, 2, 2],
        )[0]
        kind()
        self._match()

    def check(self) -> None:
        """What is there is what should be."""
        items = self.talk.pages(f"{self.path}/subscriptions", self.draw.randrange(1, 20))
        assert items == [self.model.shown(id) for id in sorted(self.model.interests)]
        shown = self.talk.good("GET", self.path)
        assert (shown["seq"], shown["subscriptions"]) == (self.model.seq, len(items))

    def _body(self) -> Json:
        draw, names = self.draw, [name for name in self.names if self.draw.random() < 0.7]
        body: Json = {"intervals": {name: self._ends() for name in names}}
        if self.model.mode == "exact":
            body["score"] = draw.choice(WEIGHTS) - 1
        else:
            body["weights"] = {name: draw.choice(WEIGHTS) for name in names}
        return body

    def _ends(self) -> list[Any]:
        lo, hi = self.draw.choice(ENDS), self.draw.choice(ENDS)
        return [hi, lo] if lo is not None and hi is not None and lo > hi else [lo, hi]

    def _some(self) -> str:
        there = list(self.model.interests)
        return self.draw.choice(there) if there else "nobody"

    def _post(self) -> None:
        bodies = []
        for _ in range(self.draw.randrange(1, 6)):
            self.number += 1
            bodies.append({"id": f"s{self.number}", **self._body()})
        how = self.draw.randrange(3)
        path = f"{self.path}/subscriptions"
        if how == 0:
            answer = self.talk.good("POST", path, {"subscriptions": bodies})
        elif how == 1:
            answer = self.talk.good("POST", path, ndjson(bodies), headers={"Content-Type": NDJSON})
        else:
            answer = self.talk.good("POST", path, arrow(self._table(bodies)), headers={"Content-Type": ARROW})
        for body in bodies:
            self.model.put(body["id"], body)
        assert answer == {"seq": self.model.seq, "subscriptions": [self.model.shown(body["id"]) for body in bodies]}

    def _table(self, bodies: list[Json]) -> pa.Table:
        columns = {"id": pa.array([body["id"] for body in bodies])}
        for name in self.names:
            pairs = [body["intervals"].get(name, [None, None]) for body in bodies]
            columns[f"{name}_min"] = pa.array([pair[0] for pair in pairs], pa.float64())
            columns[f"{name}_max"] = pa.array([pair[1] for pair in pairs], pa.float64())
            if self.model.mode == "relaxed":
                columns[f"{name}_weight"] = pa.array([body["weights"].get(name) for body in bodies], pa.float64())
        if self.model.mode == "exact":
            columns["score"] = pa.array([body["score"] for body in bodies], pa.float64())
        return pa.table(columns)

    def _put(self) -> None:
        id = self._some() if self.draw.random() < 0.7 else f"p{self.draw.randrange(5)}"
        body = self._body()
        answer = self.talk.ask("PUT", f"{self.path}/subscriptions/{id}", body)
        made = self.model.put(id, body)
        assert answer.status_code == (201 if made else 200)
        assert answer.json() == {"seq": self.model.seq, **self.model.shown(id)}

    def _patch(self) -> None:
        id = self._some()
        if id not in self.model.interests:
            return
        whole = self._body()
        body: Json = {"intervals": {}, "weights": {}}
        for name, pair in whole["intervals"].items():
            gone = self.draw.random() < 0.3
            body["intervals"][name] = None if gone else pair
            if self.model.mode == "relaxed" and not gone:
                body["weights"][name] = whole["weights"][name]
        if self.model.mode == "exact":
            del body["weights"]
            if self.draw.random() < 0.5:
                body["score"] = whole["score"]
        answer = self.talk.good("PATCH", f"{self.path}/subscriptions/{id}", body)
        self.model.patch(id, body)
        assert answer == {"seq": self.model.seq, **self.model.shown(id)}

    def _delete(self) -> None:
        id = self._some()
        answer = self.talk.ask("DELETE", f"{self.path}/subscriptions/{id}")
        if self.model.delete(id):
            assert (answer.status_code, answer.json()) == (200, {"seq": self.model.seq})
        else:
            problem(answer, 404, "id")

    def _delete_many(self) -> None:
        ids = [self._some() for _ in range(3)]
        answer = self.talk.good("POST", f"{self.path}/subscriptions/delete", {"ids": ids})
        deleted = sum([self.model.delete(id) for id in ids])
        assert answer == {"seq": self.model.seq, "deleted": deleted}

    def _refused(self) -> None:
        """The rest of the request is good, and nothing of it is done."""
        bad: Any
        bad, field = self.draw.choice(
            [
                ({"intervals": {self.names[-1]: [2, 1]}}, f"intervals.{self.names[-1]}"),
                ({"intervals": {"nothing": [1, 2]}}, "intervals.nothing"),
                ({"ttl": -1}, "ttl"),
            ]
        )
        whole = self._body()
        body: dict[str, Any] = {**whole, **bad}
        if "weights" in body and "intervals" in bad:
            body["weights"] = dict.fromkeys([self.names[-1]] if field.endswith(self.names[-1]) else [], 1)
        path = f"{self.path}/subscriptions"
        problem(self.talk.ask("POST", path, {"subscriptions": [whole, body]}), 422, f"subscriptions[1].{field}")
        problem(self.talk.ask("PUT", f"{path}/bad", body), 422, field)

    def _event(self) -> Json:
        values: Json = {}
        for name in self.names:
            draw = self.draw.random()
            if draw < 0.6:
                values[name] = self.draw.choice(ENDS[1:])
            elif draw < 0.8:
                values[name] = self._ends()
            elif draw < 0.9:
                values[name] = None
        return {"values": values}

    def _asked(self) -> tuple[list[Json], int, bool]:
        events = [self._event() for _ in range(self.draw.randrange(1, 5))]
        return events, self.draw.choice([1, 2, 3, 20, 1000]), self.draw.random() < 0.3

    def _match(self) -> None:
        events, k, explain = self._asked()
        body = {"events": events, "k": k, "explain": explain}
        self._compare(self.talk.good("POST", f"{self.path}/match", body), events, k, explain)

    def _notify(self) -> None:
        events, k, explain = self._asked()
        params = {"k": k, "explain": str(explain).lower(), "notify": "true"}
        answer = self.talk.good(
            "POST", f"{self.path}/match", ndjson(events), headers={"Content-Type": NDJSON}, params=params
        )
        self.model.seq += len(events)
        self._compare(answer, events, k, explain)

    def _compare(self, answer: Json, events: list[Json], k: int, explain: bool) -> None:
        assert answer["seq"] == self.model.seq
        for event, result in zip(events, answer["results"], strict=True):
            assert ("looked_at" in result) == explain
            assert result["winners"] == self.model.winners(event["values"], k, explain), event
