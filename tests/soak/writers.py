"""Writers of the five checked resources, of steady size: what they send is followed by models in plain Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.oracles.feed_service import FeedService
from tests.oracles.feeds import FeedOracle
from tests.oracles.map_service import MapModel
from tests.oracles.matcher_service import MatcherModel
from tests.oracles.relay_http import RelayModel
from tests.oracles.service import BoardModel, Question
from tests.system import kill_feeds as feeds
from tests.system import kill_maps as maps
from tests.system import kill_matchers as matchers
from tests.system import kill_relays as relays
from tests.system.http.talk import Json
from tests.system.killing import Write, Writer

MOST = 150
"""Things of its own that a writer has at a time."""


class Steady(Writer):
    """A writer that begins no request while it is `held`, and rests before each."""

    pace = 0.3
    """Seconds between its requests, on the average."""

    def hold(self) -> None:
        """Let it begin nothing; `idle` is set once its last request is answered."""
        self.idle.clear()
        self.held.set()
        self.open.clear()

    def let_go(self) -> None:
        self.held.clear()
        self.open.set()

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.idle, self.held, self.open = threading.Event(), threading.Event(), threading.Event()

    def rest(self) -> None:
        time.sleep(self.draw.expovariate(1 / self.pace) if self.pace else 0.0)
        while self.held.is_set() and not self.done:
            self.idle.set()
            self.open.wait(1.0)


class BoardWriter(Steady):
    """Objects that come, change and go, and subscriptions that move."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._ids: list[str] = []

    def next(self, key: str) -> Write:
        draw = self.draw
        if draw.random() < 0.1:
            l = draw.randrange(40)
            # No two requests ask the same: the second would change nothing and take no seq.
            body = {"range": {"x": [l, l + 5.0 + self.made / 1e6 + self.number / 1e9]}, "k": draw.choice([1, 5])}
            return Write(key, "PUT", f"/subscriptions/s{self.number}-{draw.randrange(20)}", body)
        events = [self._event(f"{key}-{i}") for i in range(draw.choice([1, 1, 1, 5, 20]))]
        return Write(key, "POST", "/events", {"events": events, "messages": "count"})

    def _event(self, id: str) -> Json:
        draw = self.draw
        values = {"x": draw.randrange(40), "y": draw.randrange(1000)}
        if len(self._ids) > MOST or (self._ids and draw.random() < 0.1):
            return {"op": "delete", "id": self._ids.pop(draw.randrange(len(self._ids)))}
        if not self._ids or draw.random() < 0.3:
            self._ids.append(id)
            return {"op": "upsert", "id": id, "values": values, "payload": {"n": self.made}}
        return {"op": "update", "id": draw.choice(self._ids), "values": values}


class MatcherWriter(Steady, matchers.Asker):
    """See `tests.system.kill_matchers.Asker`."""

    def next(self, key: str) -> Write:
        if len(self._ids) > MOST:
            gone = [self._ids.pop(0) for _ in range(len(self._ids) // 2)]
            return Write(key, "POST", "/subscriptions/delete", {"ids": gone})
        return super().next(key)


class RelayWriter(Steady, relays.Subscriber):
    """See `tests.system.kill_relays.Subscriber`."""

    def next(self, key: str) -> Write:
        if len(self._ids) > MOST // 2:
            gone = [self._ids.pop(0) for _ in range(len(self._ids) // 2)]
            return relays.Said(key, "POST", "/subscriptions/delete", {"ids": gone})
        return super().next(key)


class MapWriter(Steady, maps.Mover):
    """See `tests.system.kill_maps.Mover`."""

    def next(self, key: str) -> Write:
        if len(self._ids) > MOST:
            gone = [self._ids.pop(0) for _ in range(len(self._ids) // 2)]
            return Write(key, "POST", "/objects/delete", {"ids": gone})
        if len(self._queries) > MOST // 10:
            return Write(key, "DELETE", f"/queries/{self._queries.pop(0)}", None)
        return super().next(key)


class FeedWriter(Steady, feeds.Poster):
    """See `tests.system.kill_feeds.Poster`."""


def follow_board(model: BoardModel, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    if write.method == "PUT":
        l, r = write.body["range"]["x"]
        model.set_question(write.path.rpartition("/")[2], Question(float(l), r, write.body["k"]))
    else:
        done = model.events(write.body["events"])
        assert not done.refused and write.answer["applied"] == len(write.body["events"]), write.key
    assert write.answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"


def follow_map(model: MapModel, queries: dict[str, Json], write: Write) -> None:
    """As `tests.system.kill_maps.follow`, where queries end as well."""
    if write.method != "DELETE":
        maps.follow(model, queries, write)
        return
    model.seq += 1
    del queries[write.path.rpartition("/")[2]]
    assert write.answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"


class Checked(NamedTuple):
    """A resource with its writers and its model; `follow` does to the model what a write did."""

    path: str
    config: Json
    writers: list[Steady]
    model: Any
    follow: Callable[[Write], None]
    queries: dict[str, Json]


def checked(stretch: int, writers: int = 2) -> list[Checked]:
    """The five, under names of this stretch."""
    numbers = range(writers)
    end = f"-{stretch}"
    board, matcher = BoardModel("x", "y", "desc", [1, 5]), MatcherModel(matchers.NAMES, "relaxed")
    relay, map = RelayModel(relays.NAMES), MapModel(maps.CONFIG)
    feed = FeedService(FeedOracle((0.0, 0.0, 4.0, 3.0), posts=feeds.WINDOW))
    standing: dict[str, Json] = {}
    dimensions: Json = {"dimensions": matchers.NAMES, "mode": "relaxed"}
    return [
        Checked(f"/v1/boards/soak{end}", board.shown_config(), [BoardWriter(n) for n in numbers], board,
                lambda write: follow_board(board, write), {}),
        Checked(f"/v1/matchers/soak{end}", dimensions, [MatcherWriter(n) for n in numbers], matcher,
                lambda write: matchers.follow(matcher, write), {}),
        Checked(f"/v1/relays/soak{end}", {"attributes": relays.NAMES}, [RelayWriter(n) for n in numbers], relay,
                lambda write: relays.follow(relay, write), {}),
        Checked(f"/v1/maps/soak{end}", maps.CONFIG, [MapWriter(n) for n in numbers], map,
                lambda write: follow_map(map, standing, write), standing),
        Checked(f"/v1/feeds/soak{end}", feeds.CONFIG, [FeedWriter(n) for n in numbers], feed,
                lambda write: feeds.follow(feed, write), {}),
    ]  # fmt: skip
