"""A random history of a map over HTTP, each answer beside the model's."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa

from tests.oracles.map_service import MapModel
from tests.system.http.talk import ARROW, NDJSON, Json, Talk, arrow, fresh, ndjson, problem

ATTRIBUTES: Json = {"price": "low", "rating": {"order": "high", "range": [0, 5]}}
BOUNDS = [0, 0, 8, 8]
SCORES: list[Json] = [
    {"kind": "weighted_sum", "weights": {"distance": 1}},
    {"kind": "weighted_sum", "weights": {"price": 0.25, "rating": 0.25, "distance": 0.5}, "scale": 3},
    {"kind": "weighted_product", "weights": {"rating": 1, "distance": 0.5}, "shift": 0.5},
    {"kind": "weighted_distance", "weights": {"rating": 2}},
    {"kind": "waspas", "weights": {"rating": 1, "distance": 0.25}, "lambda": 0.25},
    {"kind": "expression", "expression": "distance + price / 3"},
]


class MapPlayer:
    """Does something to a map at each `step`, and checks the answer, what is there, and every standing query."""

    def __init__(self, talk: Talk, seed: int, metric: str) -> None:
        self.talk = talk
        self.draw = Random(seed)
        config: Json = {"attributes": ATTRIBUTES, "bounds": BOUNDS, "metric": metric}
        self.model = MapModel(config)
        self.queries: dict[str, Json] = {}
        self.path = f"/v1/maps/{fresh('m')}"
        self.number = 0
        assert talk.good("PUT", self.path, config)["seq"] == 0

    def step(self) -> None:
        """One request, and a question."""
        kinds = [self._post, self._put, self._patch, self._delete, self._delete_many, self._refused]
        about = [self._put_query, self._post_queries, self._patch_query, self._move, self._delete_query]
        self.draw.choices([*kinds, *about], [3, 3, 3, 1, 1, 1, 2, 1, 1, 3, 1])[0]()
        self._ask()
        if self.queries:
            self._judge(self.draw.choice(list(self.queries)))

    def check(self) -> None:
        """What is there is what should be."""
        items = self.talk.pages(f"{self.path}/objects", self.draw.randrange(1, 20))
        assert items == [self.model.objects[id].shown() for id in sorted(self.model.objects)]
        listed = self.talk.pages(f"{self.path}/queries", self.draw.randrange(1, 20))
        assert [one["id"] for one in listed] == sorted(self.queries)
        for id in self.queries:
            self._judge(id)
        shown = self.talk.good("GET", self.path)
        assert (shown["seq"], shown["objects"], shown["queries"]) == (self.model.seq, len(items), len(self.queries))

    # --- objects ------------------------------------------------------------------------------------------------------

    def _place(self) -> list[float]:
        draw = self.draw
        return (
            [draw.randrange(9), draw.randrange(9)] if draw.random() < 0.6 else [draw.uniform(0, 8), draw.uniform(0, 8)]
        )

    def _body(self, whole: bool = True) -> Json:
        draw = self.draw
        values: Json = {"price": draw.randrange(6), "rating": draw.choice([0, 1, 2.5, 5])}
        body: Json = {"location": self._place(), "values": values}
        if not whole:
            for name in [name for name in values if draw.random() < 0.5]:
                del values[name]
            if draw.random() < 0.5:
                del body["location"]
        if draw.random() < 0.3:
            body["payload"] = draw.choice([None, 1, {"a": [True]}])
        return body

    def _some(self) -> str:
        there = list(self.model.objects)
        return self.draw.choice(there) if there else "nobody"

    def _post(self) -> None:
        bodies = []
        for _ in range(self.draw.randrange(1, 8)):
            self.number += 1
            known = self._some()
            if known != "nobody" and self.draw.random() < 0.4:
                bodies.append({"id": known, **self._body(whole=False)})
            else:
                bodies.append({"id": f"o{self.number}", **self._body()})
        how, path = self.draw.randrange(3), f"{self.path}/objects"
        if how == 0:
            answer = self.talk.good("POST", path, {"objects": bodies})
        elif how == 1:
            answer = self.talk.good("POST", path, ndjson(bodies), headers={"Content-Type": NDJSON})
        else:
            for body in bodies:
                # A payload of null is one that is not given.
                if body.get("payload", 0) is None:
                    del body["payload"]
            answer = self.talk.good("POST", path, arrow(self._table(bodies)), headers={"Content-Type": ARROW})
        self.model.put(*bodies)
        assert answer == {"seq": self.model.seq, "applied": len(bodies)}

    def _table(self, bodies: list[Json]) -> pa.Table:
        columns = {"id": pa.array([body["id"] for body in bodies])}
        for j, name in enumerate(("x", "y")):
            given = [body["location"][j] if "location" in body else None for body in bodies]
            columns[name] = pa.array([None if v is None else float(v) for v in given], pa.float64())
        for name in ATTRIBUTES:
            given = [body["values"].get(name) for body in bodies]
            columns[name] = pa.array([None if v is None else float(v) for v in given], pa.float64())
        payloads = [json.dumps(body["payload"]) if "payload" in body else None for body in bodies]
        columns["payload"] = pa.array(payloads, pa.string())
        return pa.table(columns)

    def _put(self) -> None:
        id = self._some() if self.draw.random() < 0.6 else f"p{self.draw.randrange(5)}"
        there = id in self.model.objects
        body = self._body(whole=not there)
        answer = self.talk.ask("PUT", f"{self.path}/objects/{id}", body)
        self.model.put({"id": id, **body})
        assert answer.status_code == (200 if there else 201)
        assert answer.json() == {"seq": self.model.seq, **self.model.objects[id].shown()}

    def _patch(self) -> None:
        id, body = self._some(), self._body(whole=False)
        answer = self.talk.ask("PATCH", f"{self.path}/objects/{id}", body)
        if id not in self.model.objects:
            problem(answer, 404, "id")
            return
        self.model.put({"id": id, **body})
        assert answer.json() == {"seq": self.model.seq, **self.model.objects[id].shown()}

    def _delete(self) -> None:
        id = self._some()
        answer = self.talk.ask("DELETE", f"{self.path}/objects/{id}")
        if id not in self.model.objects:
            problem(answer, 404, "id")
            return
        self.model.delete(id)
        assert (answer.status_code, answer.json()) == (200, {"seq": self.model.seq})

    def _delete_many(self) -> None:
        ids = [self._some() for _ in range(3)]
        answer = self.talk.good("POST", f"{self.path}/objects/delete", {"ids": ids})
        gone = [id for id in dict.fromkeys(ids) if id in self.model.objects]
        self.model.delete(*gone)
        assert answer == {"seq": self.model.seq, "deleted": len(gone)}

    def _refused(self) -> None:
        """The rest of the request is good, and nothing of it is done."""
        whole = {"id": "bad", **self._body()}
        bad, field = self.draw.choice(
            [
                ({**whole, "values": {**whole["values"], "rating": 6}}, "values.rating"),
                ({**whole, "location": [1, "2"]}, "location[1]"),
                ({"id": "new", "values": whole["values"]}, "location"),
            ]
        )
        answer = self.talk.ask("POST", f"{self.path}/objects", {"objects": [whole, bad]})
        problem(answer, 422, f"objects[1].{field}")

    # --- questions ----------------------------------------------------------------------------------------------------

    def _question(self) -> Json:
        draw = self.draw
        if draw.random() < 0.4:
            return {"kind": "skyline"}
        asked: Json = {"k": draw.randrange(1, 5), "m": draw.randrange(1, 4), "ordered": draw.random() < 0.5}
        return {"kind": "top", **asked, "score": draw.choice(SCORES)}

    def _ask(self) -> None:
        question = self._question()
        body = {name: value for name, value in question.items() if name != "kind"}
        places = [self._place() for _ in range(self.draw.randrange(1, 4))]
        answer = self.talk.good("POST", f"{self.path}/{question['kind']}", {**body, "locations": places})
        assert answer["seq"] == self.model.seq
        for (x, y), result in zip(places, answer["results"], strict=True):
            self.model.judge(question, result, (x, y), self.draw, 2)

    def _judge(self, id: str) -> None:
        """What a standing query is answered is right where its client is, and in its zone."""
        shown = self.talk.good("GET", f"{self.path}/queries/{id}")
        self._judge_shown(id, shown)

    def _judge_shown(self, id: str, shown: Json) -> None:
        query = self.queries[id]
        score = query.get("score", {})
        rest = {name: value for name, value in query.items() if name != "score"}
        assert {name: shown[name] for name in rest} == rest
        assert {name: shown["score"][name] for name in score} == score
        x, y = query["location"]
        self.model.judge(query, shown, (x, y), self.draw, 2, held=True)

    # --- standing queries ---------------------------------------------------------------------------------------------

    def _standing(self) -> Json:
        return {**self._question(), "location": self._place()}

    def _put_query(self) -> None:
        id, body = f"q{self.draw.randrange(6)}", self._standing()
        answer = self.talk.ask("PUT", f"{self.path}/queries/{id}", body)
        made = id not in self.queries
        if self.queries.get(id) != body:
            self.model.seq += 1
        self.queries[id] = body
        assert answer.status_code == (201 if made else 200)
        assert answer.json()["seq"] == self.model.seq
        self._judge_shown(id, answer.json())

    def _post_queries(self) -> None:
        bodies = []
        for _ in range(self.draw.randrange(1, 3)):
            self.number += 1
            bodies.append({"id": f"n{self.number}", **self._standing()})
        answer = self.talk.good("POST", f"{self.path}/queries", {"queries": bodies})
        for body in bodies:
            self.queries[body["id"]] = {name: value for name, value in body.items() if name != "id"}
        self.model.seq += len(bodies)
        assert answer["seq"] == self.model.seq
        for shown in answer["queries"]:
            self._judge_shown(shown["id"], shown)

    def _patch_query(self) -> None:
        if not self.queries:
            problem(self.talk.ask("PATCH", f"{self.path}/queries/nobody", {"location": [1, 1]}), 404, "id")
            return
        id = self.draw.choice(list(self.queries))
        query = self.queries[id]
        if query["kind"] == "skyline":
            problem(self.talk.ask("PATCH", f"{self.path}/queries/{id}", {"k": 2}), 422, "k")
            return
        k = self.draw.randrange(1, 5)
        answer = self.talk.good("PATCH", f"{self.path}/queries/{id}", {"k": k})
        if query["k"] != k:
            self.model.seq += 1
        self.queries[id] = {**query, "k": k}
        assert answer["seq"] == self.model.seq
        self._judge_shown(id, answer)

    def _move(self) -> None:
        if not self.queries:
            return
        ids = self.draw.sample(list(self.queries), self.draw.randrange(1, min(4, len(self.queries)) + 1))
        moves: list[Json] = [{"id": id, "location": self._near(self.queries[id]["location"])} for id in ids]
        answer = self.talk.good("POST", f"{self.path}/queries/moves", {"moves": moves})
        self.model.seq += len(moves)
        assert answer["seq"] == self.model.seq
        for move, result in zip(moves, answer["results"], strict=True):
            query = self.queries[move["id"]]
            query["location"] = move["location"]
            assert result["id"] == move["id"]
            if not result["inside"]:
                x, y = move["location"]
                self.model.judge(query, result, (x, y), self.draw, 2)

    def _near(self, location: list[float]) -> list[float]:
        if self.draw.random() < 0.4:
            return self._place()
        return [min(8.0, max(0.0, v + self.draw.gauss(0, 0.1))) for v in location]

    def _delete_query(self) -> None:
        id = self.draw.choice([*self.queries, "nobody"])
        answer = self.talk.ask("DELETE", f"{self.path}/queries/{id}")
        if self.queries.pop(id, None) is None:
            problem(answer, 404, "id")
            return
        self.model.seq += 1
        assert (answer.status_code, answer.json()) == (200, {"seq": self.model.seq})
