"""Maps on a live service: random histories with every answer beside brute force, and clients that move."""

from __future__ import annotations

from random import Random

import pytest

from tests.oracles.map_service import MapModel
from tests.system.http.following import WsFollower
from tests.system.http.talk import Json, Talk, fresh, problem
from tests.system.http.told import play

RANGED: Json = {"price": {"order": "low", "range": [0, 20]}, "rating": {"order": "high", "range": [0, 5]}}
SCORES: list[Json] = [
    {"kind": "weighted_sum", "weights": {"distance": 0.5, "price": 0.25, "rating": 0.25}},
    {"kind": "weighted_product", "weights": {"distance": 0.5, "price": 0.5}},
    {"kind": "weighted_distance", "weights": {"price": 0.5, "rating": 0.5}, "scale": 3},
    {"kind": "waspas", "weights": {"distance": 0.25, "rating": 1}},
    {"kind": "expression", "expression": "distance * (1 + price) + 5 - rating"},
]


class Player:
    """Plays a random history on a map of its own, and compares each answer with the model's."""

    def __init__(self, talk: Talk, seed: int, metric: str) -> None:
        self.talk = talk
        self.draw = Random(seed)
        self.path = f"/v1/maps/{fresh('map')}"
        config = {"attributes": RANGED, "bounds": [0, 0, 60, 60], "metric": metric}
        talk.good("PUT", self.path, config)
        self.world = MapModel(config)
        self.queries: dict[str, Json] = {}

    def place(self) -> list[float]:
        draw = self.draw
        return (
            [float(draw.randrange(60)), float(draw.randrange(60))]
            if draw.random() < 0.5
            else [
                draw.uniform(0, 60),
                draw.uniform(0, 60),
            ]
        )

    def thing(self, id: str) -> Json:
        return {
            "id": id,
            "location": self.place(),
            "values": {"price": self.draw.randrange(21), "rating": self.draw.randrange(6)},
        }

    def question(self) -> Json:
        if self.draw.random() < 0.3:
            return {"kind": "skyline"}
        draw = self.draw
        size = {"k": draw.choice([1, 3, 8]), "m": draw.choice([1, 2, 5]), "ordered": draw.random() < 0.2}
        return {"kind": "top", **size, "score": draw.choice(SCORES)}

    def step(self) -> None:
        draw, talk, world = self.draw, self.talk, self.world
        choice = draw.random()
        known = list(world.objects)
        if choice < 0.3 or not known:
            things = [self.thing(f"o{draw.randrange(40)}") for _ in range(draw.randrange(1, 6))]
            world.put(*things)
            assert talk.good("POST", f"{self.path}/objects", {"objects": things}) == {
                "seq": world.seq,
                "applied": len(things),
            }
        elif choice < 0.4:
            id, change = draw.choice(known), {"values": {"price": draw.randrange(21)}}
            world.put({"id": id, **change})
            found = talk.good("PATCH", f"{self.path}/objects/{id}", change)
            assert found == {"seq": world.seq, **world.objects[id].shown()}
        elif choice < 0.5:
            gone = draw.sample(known, min(len(known), 2))
            world.delete(*gone)
            answer = talk.good("POST", f"{self.path}/objects/delete", {"ids": gone})
            assert answer == {"seq": world.seq, "deleted": len(gone)}
        elif choice < 0.6:
            question, place = self.question(), self.place()
            kind = question["kind"]
            asked = {key: value for key, value in question.items() if key != "kind"}
            answer = talk.good("POST", f"{self.path}/{kind}", {**asked, "location": place})
            assert answer["seq"] == world.seq
            world.judge(question, answer, (place[0], place[1]), draw)
        elif choice < 0.75:
            id, body = f"q{draw.randrange(6)}", {**self.question(), "location": self.place()}
            same = self.queries.get(id) == body
            world.seq += not same
            self.queries[id] = body
            self.judge(talk.good("PUT", f"{self.path}/queries/{id}", body), id)
        elif self.queries:
            id = draw.choice(list(self.queries))
            place = self.place()
            if draw.random() < 0.7:
                here = self.queries[id]["location"]
                place = [here[0] + draw.uniform(-1, 1), here[1] + draw.uniform(-1, 1)]
            world.seq += 1
            self.queries[id]["location"] = place
            answer = talk.good("PATCH", f"{self.path}/queries/{id}", {"location": place})
            assert answer["seq"] == world.seq
            if answer["inside"]:
                assert answer.keys() == {"seq", "inside"}
                self.judge(talk.good("GET", f"{self.path}/queries/{id}"), id)
            else:
                world.judge(self.queries[id], answer, (place[0], place[1]), draw)

    def judge(self, answer: Json, id: str) -> None:
        """What a query shows where its client is; its zone may be about another place."""
        assert answer["seq"] == self.world.seq
        x, y = self.queries[id]["location"]
        self.world.judge(self.queries[id], answer, (x, y), self.draw, tries=4, held=True)

    def check(self) -> None:
        """Every query and object."""
        for id in self.queries:
            self.judge(self.talk.good("GET", f"{self.path}/queries/{id}"), id)
        shown = [thing.shown() for _, thing in sorted(self.world.objects.items())]
        assert self.talk.pages(f"{self.path}/objects", 1000) == shown


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "great-circle"])
def test_a_history_is_exact_after_every_step(talk: Talk, metric: str) -> None:
    player = Player(talk, 7, metric)
    play(player, 120)


def test_a_client_that_moves_on_a_socket_knows_the_right_answer(talk: Talk) -> None:
    """Whatever it was told last is right where it is: outside its zone a new result comes, inside nothing has to."""
    player = Player(talk, 11, "euclidean")
    things = [player.thing(f"o{i}") for i in range(40)]
    player.world.put(*things)
    talk.good("POST", f"{player.path}/objects", {"objects": things})
    question: Json = {"kind": "top", "k": 3, "m": 3, "score": SCORES[0], "location": [30.0, 30.0]}
    talk.good("PUT", f"{player.path}/queries/walker", question)
    resource = player.path.removeprefix("/v1/")
    socket = WsFollower(talk.url)
    told = 0
    try:
        stream = socket.follow(resource, "walker")
        stream.first()
        for n in range(1, 61):
            place = [30 + n / 3, 30 - n / 4]
            if n % 5 == 0:
                id, change = f"o{n % 40}", {"values": {"price": n % 21}}
                player.world.put({"id": id, **change})
                talk.good("PATCH", f"{player.path}/objects/{id}", change)
            socket.send(op="move", resource=resource, id="walker", location=place)
            moved = socket.answer("moved", n)
            # What came before a pong has been read.
            socket.send(op="ping")
            socket.answer("pong", n)
            results = [one for one in stream.said if one.event in ("snapshot", "result")]
            assert moved["inside"] or results[-1].data["seq"] == moved["seq"]
            told = len(results)
            mine = [entry["id"] for entry in results[-1].data["candidates"]]
            here = (place[0], place[1])
            best = [thing.id for thing in player.world.ranking(SCORES[0], here)[:3]]
            assert [thing.id for thing in player.world.ranking(SCORES[0], here, mine)[:3]] == best
    finally:
        socket.leave()
    assert 1 < told < 40, "some moves leave the zone, and most do not"


def test_what_is_refused_changes_nothing(talk: Talk) -> None:
    player = Player(talk, 3, "euclidean")
    player.world.put(thing := player.thing("o1"))
    talk.good("POST", f"{player.path}/objects", {"objects": [thing]})
    before = talk.good("GET", player.path), talk.pages(f"{player.path}/objects", 1000)
    for status, method, path, body, field in (
        (422, "POST", "/objects", {"objects": [{"id": "o1", "values": {"rating": 9}}]}, "objects[0].values.rating"),
        (404, "PATCH", "/objects/none", {"values": {"price": 1}}, "id"),
        (422, "POST", "/top", {"location": [0, 0], "k": 0, "score": SCORES[0]}, "k"),
        (422, "PUT", "/queries/q", {"kind": "top", "location": [0, 0], "k": 1}, "score"),
        (422, "POST", "/queries/moves", {"moves": [{"id": "q", "location": [0, 0]}]}, "moves[0].id"),
        (409, "PUT", "", {"attributes": {}, "bounds": [0, 0, 1, 1]}, "attributes"),
        (404, "GET", "/queries/q/stream", None, "id"),
    ):
        problem(talk.ask(method, player.path + path, body), status, *([] if status == 409 else [field]))
    assert (talk.good("GET", player.path), talk.pages(f"{player.path}/objects", 1000)) == before
