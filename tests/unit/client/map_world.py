"""A stand-in for the maps of a service, by brute force: it answers, holds standing queries, and says what changes.

Its zones are smaller than the service's and as safe: a circle by how fast scores grow with distance, and for skylines a
square within which no two distances change places. What it has to say can be held back, as a slow network does.
"""

from __future__ import annotations

import asyncio
import copy
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import httpx

from rankcast_client import AsyncRankcast, MapAnswer, TopAnswer
from rankcast_client.transport import Retry
from tests.oracles.map_service import MapModel, Thing

Json = dict[str, Any]

CONFIG = {
    "attributes": {"price": {"order": "low", "range": [0, 4]}, "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 100, 100],
    "metric": "euclidean",
}
SUM = {"kind": "weighted_sum", "weights": {"distance": 0.5, "price": 2, "rating": 1}}


class Body(httpx.AsyncByteStream):
    """What comes over one connection, until it is broken."""

    def __init__(self) -> None:
        self.blocks: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            block = await self.blocks.get()
            if block is None:
                self.blocks.task_done()
                raise httpx.ReadError("connection reset")
            yield block
            self.blocks.task_done()


class MapWorld(httpx.AsyncBaseTransport):
    """The map `food`. `recent` are its states since all was heard of."""

    def __init__(self) -> None:
        self.model = MapModel(CONFIG)
        self.queries: dict[str, Json] = {}
        self.bodies: dict[str, list[Body]] = {}
        self.asked: list[tuple[str, str]] = []
        self.holding = False
        self.waiting: list[tuple[str, Json]] = []
        self.recent = [copy.deepcopy(self.model)]

    def client(self) -> AsyncRankcast:
        return AsyncRankcast("http://rankcast.test", retry=Retry(4, 0.001, 0.002), transport=self)

    # --- objects ------------------------------------------------------------------------------------------------------

    def put(self, id: str, x: float, y: float, price: float, rating: float) -> None:
        self.model.put({"id": id, "location": [x, y], "values": {"price": price, "rating": rating}})
        self._changed()

    def delete(self, id: str) -> None:
        self.model.delete(id)
        self._changed()

    def _changed(self) -> None:
        self.recent.append(copy.deepcopy(self.model))
        for id, query in self.queries.items():
            answer = self.answer(query["question"], query["location"])
            if answer != query["answer"]:
                query["answer"] = answer
                self._tell(id, "result")

    # --- what is said -------------------------------------------------------------------------------------------------

    def _tell(self, id: str, event: str) -> None:
        self.waiting.append((id, self._shown(id) | {"event": event}))
        if not self.holding:
            self._release()

    def _release(self) -> None:
        for id, data in self.waiting:
            for body in self.bodies.get(id, []):
                body.blocks.put_nowait(block(data))
        self.waiting.clear()

    async def heard(self) -> None:
        """All that there is to say was said and heard."""
        self.holding = False
        self._release()
        for bodies in self.bodies.values():
            for body in bodies:
                await body.blocks.join()
        self.recent = [copy.deepcopy(self.model)]

    def lose(self) -> None:
        """Every connection breaks; what was held back is lost with it."""
        for bodies in self.bodies.values():
            for body in bodies:
                body.blocks.put_nowait(None)
            bodies.clear()
        self.waiting.clear()

    def _shown(self, id: str) -> Json:
        """A query's answer as it is where its client is."""
        query = self.queries[id]
        return {"seq": self.model.seq, "location": query["location"], **self._from(query)}

    def _from(self, query: Json) -> Json:
        answer, place = query["answer"], tuple(query["location"])
        if "skyline" in answer:
            known = {one["id"] for one in answer["skyline"]}
            return self.skyline(query["location"], known) | {"zone": answer["zone"]}
        ids = [one["id"] for one in answer["candidates"]]
        things = self.model.ranking(query["question"]["score"], place, ids)
        return self._listed(query["question"], place, things) | {"zone": answer["zone"]}

    # --- answers ------------------------------------------------------------------------------------------------------

    def answer(self, question: Json, location: list[float]) -> Json:
        return (self.skyline if question["kind"] == "skyline" else self.top)(*_of(question, location))

    def top(self, question: Json, location: list[float]) -> Json:
        place = location[0], location[1]
        k, m, score = question["k"], question.get("m", 1), question["score"]
        ranking = self.model.ranking(score, place)
        radius: float | None = None
        if len(ranking) >= k + m:
            worst, next = (self.model.score(score, place, ranking[at]) for at in (k - 1, k + m - 1))
            radius = max(0.0, (next - worst) / (2 * score["weights"]["distance"]) * (1 - 1e-9))
        listed = self._listed(question, place, ranking[: k + m - 1])
        return listed | {"zone": {"center": location, "radius": radius}}

    def _listed(self, question: Json, place: Any, things: list[Thing]) -> Json:
        shown = [{**self._near(one, place), "score": self.model.score(question["score"], place, one)} for one in things]
        ranked = [{"rank": rank, **one} for rank, one in enumerate(shown[: question["k"]], 1)]
        return {"list": ranked, "candidates": shown}

    def _near(self, thing: Thing, place: Any) -> Json:
        return {**thing.shown(), "distance": self.model.distance(place, thing)}

    def skyline(self, location: list[float], ids: set[str] | None = None) -> Json:
        place = location[0], location[1]
        members = self.model.skyline(place) if ids is None else ids
        things = sorted(
            (self.model.objects[id] for id in members), key=lambda one: (self.model.distance(place, one), one.created)
        )
        return {"skyline": [self._near(one, place) for one in things], "zone": self._square(place)}

    def _square(self, place: tuple[float, float]) -> Json | None:
        members = self.model.skyline(place)
        rows = [
            (one.id in members, self.model.distance(place, one), one.values["price"], -one.values["rating"])
            for one in self.model.objects.values()
        ]
        far = 30.0
        for me in rows:
            better = [other for other in rows if other is not me and other[2] <= me[2] and other[3] <= me[3]]
            gaps = [other[1] - me[1] for other in better]
            # A member stays as long as nothing better comes nearer than it, another one out while one is nearer.
            if gaps:
                far = min(far, min(map(abs, gaps)) if me[0] else max(-gap for gap in gaps))
        far /= 2
        x, y = place
        corners = [[x + far, y], [x, y + far], [x - far, y], [x, y - far], [x + far, y]]
        return {"type": "Polygon", "coordinates": [corners]} if far > 0 else None

    # --- requests -----------------------------------------------------------------------------------------------------

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        body = json.loads(request.content) if request.content else {}
        path = request.url.path.removeprefix("/v1/maps/food")
        self.asked.append((request.method, path))
        if path == "":
            return httpx.Response(200, json={**CONFIG, "seq": self.model.seq, "name": "food"})
        if path in ("/top", "/skyline"):
            question = {**body, "kind": path[1:]}
            return self._said(self.answer(question, question["location"]))
        _, _, id, *more = path.split("/")
        if more:
            return self._stream(id, request.headers.get("last-event-id"))
        if request.method == "PUT":
            location = body.pop("location")
            self.queries[id] = {"question": body, "location": location, "answer": self.answer(body, location)}
        elif id not in self.queries:
            return httpx.Response(404, json={"type": "/problems/not-found", "title": "Not found", "status": 404})
        elif request.method == "DELETE":
            del self.queries[id]
            return self._said({})
        elif request.method == "PATCH":
            return self._moved(id, body["location"])
        query = self.queries[id]
        return self._said({"id": id, **query["question"], **self._shown(id)})

    def _moved(self, id: str, location: list[float]) -> httpx.Response:
        self.model.seq += 1
        query = self.queries[id]
        zone, inside = query["answer"]["zone"], False
        if zone is not None and "center" in zone:
            inside = zone["radius"] is None or math.dist(zone["center"], location) < zone["radius"]
        elif zone is not None:
            (x1, y0), (x0, y1) = zone["coordinates"][0][0], zone["coordinates"][0][1]
            inside = abs(location[0] - x0) + abs(location[1] - y0) < x1 - x0 == y1 - y0
        query["location"] = location
        if inside:
            return self._said({"inside": True})
        query["answer"] = self.answer(query["question"], location)
        self._tell(id, "result")
        return self._said({"inside": False, **query["answer"]})

    def _stream(self, id: str, after: str | None) -> httpx.Response:
        if id not in self.queries:
            return httpx.Response(404, json={"type": "/problems/not-found", "title": "Not found", "status": 404})
        body = Body()
        self.bodies.setdefault(id, []).append(body)
        body.blocks.put_nowait(block(self._shown(id) | {"event": "reset" if after else "snapshot"}))
        body.blocks.put_nowait(block({"seq": self.model.seq, "event": "ready"}))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=body)

    def _said(self, data: Json) -> httpx.Response:
        return httpx.Response(200, json={"seq": self.model.seq, **data})

    # --- what is right ------------------------------------------------------------------------------------------------

    def right(self, question: Json, answer: MapAnswer, place: tuple[float, float]) -> bool:
        """Whether an answer is right at a place in one of the states since all was heard of, up to equal scores."""
        return any(self._right(model, question, answer, place) for model in self.recent)

    def _right(self, model: MapModel, question: Json, answer: MapAnswer, place: tuple[float, float]) -> bool:
        if not isinstance(answer, TopAnswer):
            return model.skyline(place) == {one.id for one in answer.skyline}
        score = question["score"]
        if any(one.id not in model.objects for one in answer.list):
            return False
        mine = [model.score(score, place, model.objects[one.id]) for one in answer.list]
        best = [model.score(score, place, one) for one in model.ranking(score, place)[: question["k"]]]
        shown = [one.score for one in answer.list]
        return shown == mine and len(mine) == len(best) and all(map(math.isclose, mine, best))


def _of(question: Json, location: list[float]) -> Any:
    return (location,) if question["kind"] == "skyline" else (question, location)


def block(data: Json) -> bytes:
    """A message of a stream."""
    event = data.pop("event")
    return f"id: e:{data['seq']}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()
