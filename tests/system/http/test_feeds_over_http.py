"""Feeds on a live service.

Random histories with every list and stream beside brute force, windows of time, and what is refused.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.oracles.feed_service import FeedService, Subscribed
from tests.oracles.feeds import FeedOracle
from tests.system.http.following import Follower, Said, SseFollower, WsFollower
from tests.system.http.talk import NDJSON, Json, Talk, fresh, ndjson, problem
from tests.system.http.told import play

BOUNDS = [0, 0, 4, 3]
Held = list[tuple[str, float]]


class Player:
    """Plays a random history on a feed of its own.

    `history[id][seq]` is the list of a subscription right after that seq.
    """

    def __init__(self, talk: Talk, seed: int, window: int = 80, **more: Any) -> None:
        self.talk = talk
        self.draw = Random(seed)
        self.path = f"/v1/feeds/{fresh('feed')}"
        talk.good("PUT", self.path, {"window": window, "bounds": BOUNDS, **more})
        tfidf = more.get("weighting") != "given"
        self.model = FeedService(FeedOracle((0.0, 0.0, 4.0, 3.0), posts=window, tfidf=tfidf))
        self.history: dict[str, dict[int, Held]] = defaultdict(dict)
        self._count = 0

    def remember(self) -> None:
        for id, found in self.model.lists().items():
            self.history[id][self.model.seq] = [(post.id, score) for post, score in found]

    def words(self) -> Any:
        chosen = self.draw.choices("abcdefgh", k=self.draw.randrange(1, 5))
        return chosen if self.draw.random() < 0.7 else {word: self.draw.choice([1.0, 2.5]) for word in chosen}

    def place(self) -> tuple[float, float]:
        return self.draw.uniform(-1, 5), self.draw.uniform(-1, 4)

    def set(self, id: str) -> None:
        one = Subscribed(self.words(), self.place(), self.draw.randrange(1, 6), self.draw.choice([0.0, 0.4, 1.0]), None)
        self.model.set(id, one)
        self.remember()
        body = {"keywords": one.keywords, "location": one.place, "k": one.k, "alpha": one.alpha}
        self.judge(self.talk.good("PUT", f"{self.path}/subscriptions/{id}", body), id)

    def judge(self, answer: Json, id: str) -> None:
        assert answer["seq"] == self.model.seq
        assert [(entry["id"], entry["score"]) for entry in answer["list"]] == self.history[id][self.model.seq]
        assert [entry["rank"] for entry in answer["list"]] == list(range(1, len(answer["list"]) + 1))

    def post(self, count: int, kind: str = "application/json") -> None:
        posts = []
        expected = []
        for _ in range(count):
            self._count += 1
            id, words, place = f"p{self._count}", self.words(), self.place()
            payload = {"n": self._count} if self.draw.random() < 0.3 else None
            posts.append({"id": id, "keywords": words, "location": place, "payload": payload})
            reached = self.model.post(id, words, place, 0, None)
            expected.append({"id": id, "reached": reached})
            self.remember()
        content = ndjson(posts) if kind == NDJSON else json.dumps({"posts": posts}).encode()
        answer = self.talk.good("POST", f"{self.path}/posts", content, headers={"Content-Type": kind})
        assert answer == {"seq": self.model.seq, "results": expected}

    def withdraw(self) -> None:
        id = self.draw.choice(sorted(self.model.posts))
        self.model.withdraw(id)
        self.remember()
        assert self.talk.good("DELETE", f"{self.path}/posts/{id}") == {"seq": self.model.seq}

    def step(self) -> None:
        choice = self.draw.random()
        if choice < 0.2:
            self.set(f"s{self.draw.randrange(5)}")
        elif choice < 0.3 and self.model.posts:
            self.withdraw()
        else:
            self.post(self.draw.randrange(1, 9), self.draw.choice(["application/json", NDJSON]))

    def check(self) -> None:
        for id in self.model.subscriptions:
            self.judge(self.talk.good("GET", f"{self.path}/subscriptions/{id}"), id)
        items = self.talk.pages(f"{self.path}/posts", 7)
        assert [item["id"] for item in items] == sorted(self.model.posts)


def heard(said: list[Said], history: dict[int, Held], held: Held | None = None, at: int = -1) -> tuple[Held, int]:
    """What a reader holds who was told this, and up to where; every change of the list must have been told."""
    for one in said:
        if one.event in ("snapshot", "reset"):
            held = [(entry["id"], entry["score"]) for entry in one.data["list"]]
        else:
            assert one.event == "change" and held is not None
            for seq in range(at + 1, one.seq):
                assert history[seq] == history[seq - 1], f"nothing was heard of seq {seq}"
            changes = one.data["changes"]
            held = [entry for entry in held if entry[0] not in {change["id"] for change in changes}]
            entering = [change for change in changes if change["new_rank"] is not None]
            for change in sorted(entering, key=lambda change: change["new_rank"]):
                held.insert(change["new_rank"] - 1, (change["id"], change["score"]))
        assert held == history[one.seq], (one.event, one.seq)
        at = one.seq
    assert held is not None
    return held, at


def told(stream: Follower, history: dict[int, Held]) -> Callable[[], bool]:
    """Whether a reader has been told of the last change."""
    last = max(seq for seq in history if seq == min(history) or history[seq] != history[seq - 1])
    return lambda: bool(stream.said) and stream.said[-1].seq >= last


@pytest.mark.parametrize(
    ("window", "more"),
    [(80, {}), (10, {"weighting": "given"}), (150, {"buffer": "kmax"}), (64, {"buffer": "kscore"})],
)
def test_a_history_is_exact_after_every_step(talk: Talk, window: int, more: Json) -> None:
    player = Player(talk, window, window, **more)
    play(player, 50)


def test_readers_of_both_transports_hear_every_change_once(talk: Talk) -> None:
    """Also one who goes and comes back to its position, in a history in which epochs begin."""
    player = Player(talk, 9)
    player.set("s0")
    player.set("s1")
    player.post(20)
    resource = player.path.removeprefix("/v1/")
    where = f"{player.path}/subscriptions/s0/stream"
    sse, socket = SseFollower(talk.url, where), WsFollower(talk.url)
    try:
        streams = [socket.follow(resource, id) for id in ("s0", "s1")]
        for follower in (sse, *streams):
            assert follower.first().event == "snapshot"
        for _ in range(25):
            player.step()
        assert player.model.oracle.came > 64, "an epoch has begun"
        sse.wait(told(sse, player.history["s0"]))
        held, at = heard(sse.said, player.history["s0"])
        sse.leave()
        for _ in range(10):
            player.step()
        back = SseFollower(talk.url, where, last=sse.position)
        for _ in range(5):
            player.step()
        player.set("s0")
        back.wait(told(back, player.history["s0"]))
        assert {one.event for one in back.said} == {"change"}, "it goes on where it was"
        heard(back.said, player.history["s0"], held, at)
        back.leave()
        for id, stream in zip(("s0", "s1"), streams, strict=True):
            stream.wait(told(stream, player.history[id]))
            heard(stream.said, player.history[id])
        lost = SseFollower(talk.url, where, last="nowhere:5")
        assert lost.first().event == "reset"
        talk.good("DELETE", f"{player.path}/subscriptions/s0")
        lost.wait(lambda: lost.said[-1].event == "gone")
        assert lost.wait_end() == "clean"
        talk.good("DELETE", player.path)
        streams[1].wait(lambda: streams[1].said[-1].event == "gone")
    finally:
        socket.leave()


def test_a_window_of_time_empties_itself_and_streams_hear_of_it(talk: Talk) -> None:
    path = f"/v1/feeds/{fresh('feed')}"
    talk.good("PUT", path, {"window": {"seconds": 0.4}, "bounds": BOUNDS})
    talk.good("PUT", f"{path}/subscriptions/s", {"keywords": ["a"], "location": [0, 0]})
    stream = SseFollower(talk.url, f"{path}/subscriptions/s/stream")
    assert stream.first().event == "snapshot"
    talk.good("POST", f"{path}/posts", {"posts": [{"id": "p", "keywords": ["a"], "location": [0, 0]}]})
    stream.wait(lambda: len(stream.said) == 3)
    came, went = (one.data["changes"][0] for one in stream.said[1:])
    assert (came["id"], came["new_rank"]) == ("p", 1)
    assert went == {"id": "p", "old_rank": 1, "new_rank": None}
    assert [one.seq for one in stream.said] == [1, 2, 3], "a tick takes a seq"
    stream.leave()
    shown = talk.good("GET", path)
    assert (shown["seq"], shown["posts"]) == (3, 0)
    talk.good("POST", f"{path}/posts", {"posts": [{"id": "p", "keywords": ["a"], "location": [0, 0]}]})


def test_what_is_refused_changes_nothing(talk: Talk) -> None:
    player = Player(talk, 3)
    player.set("s0")
    player.post(3)
    good: Json = {"keywords": ["a"], "location": [1, 1]}
    before = talk.good("GET", player.path), talk.pages(f"{player.path}/posts", 1000)
    for status, method, path, body, field in (
        (409, "POST", "/posts", {"posts": [good, {**good, "id": "p1"}]}, "posts[1].id"),
        (409, "POST", "/posts", {"posts": [{**good, "id": "x"}, {**good, "id": "x"}]}, "posts[1].id"),
        (422, "POST", "/posts", {"posts": [{**good, "id": "p1"}, {**good, "location": [1]}]}, "posts[1].location"),
        (422, "POST", "/posts", {"posts": [{**good, "k": 1}]}, "posts[0].k"),
        (409, "POST", "/subscriptions", {"subscriptions": [good, {**good, "id": "s0"}]}, "subscriptions[1].id"),
        (422, "POST", "/subscriptions", {"subscriptions": [{**good, "alpha": 2}]}, "subscriptions[0].alpha"),
        (422, "PUT", "/subscriptions/s0", {"location": [0, 0]}, "keywords"),
        (404, "PATCH", "/subscriptions/none", {"k": 1}, "id"),
        (404, "DELETE", "/posts/none", None, "id"),
        (404, "GET", "/subscriptions/none/stream", None, "id"),
        (409, "PUT", "", {"window": {"seconds": 80}, "bounds": BOUNDS}, None),
    ):
        problem(talk.ask(method, player.path + path, body), status, *([] if field is None else [field]))
    assert (talk.good("GET", player.path), talk.pages(f"{player.path}/posts", 1000)) == before
    socket = WsFollower(talk.url)
    socket.send(op="subscribe", resource=player.path.removeprefix("/v1/"), id="s0", form="tiles")
    assert socket.answer("error")["problem"]["errors"][0]["field"] == "form"
    socket.leave()
