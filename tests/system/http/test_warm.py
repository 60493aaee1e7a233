"""Once all kernels are on disk, no request waits for one to be compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.main import create_app
from app.runtime.kernels import Kernels
from app.settings import Settings
from tests.support.app_client import AppClient
from tests.support.compiling import compiled
from tests.system.http.history import Player
from tests.system.http.talk import ARROW, Talk, arrow, event_table, subscription_table


@contextmanager
def served(settings: Settings) -> Iterator[tuple[Talk, list[str]]]:
    """A service whose kernels are all on disk, and those that it compiles all the same."""
    app = create_app(settings)
    with AppClient(app, base_url="http://127.0.0.1") as client:
        kernels: Kernels = app.state.lifecycle.kernels
        kernels.wait()
        assert kernels.ready and not kernels.failures
        with compiled() as names:
            yield Talk("http://127.0.0.1", http=client), names


def test_no_kernel_of_boards_is_compiled_in_a_request(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    for start in range(2):
        with served(settings) as (talk, kernels):
            for algorithm in ("sparse", "dense"):
                for index in ("range-tree", "kd-tree"):
                    player = Player(talk, 5 + start, "desc", algorithm, index)
                    for _ in range(40):
                        player.step()
                    bulk(player)
            several_attributes(talk, f"/v1/boards/flats{start}")
            assert not kernels


def several_attributes(talk: Talk, board: str) -> None:
    """Requests of every kind to a board with two range attributes."""
    config = {"range_attributes": ["a", "b"], "rank": {"attribute": "y"}, "ks": [2, 5]}
    talk.good("PUT", board, config)
    shapes: list[dict[str, Any]] = [
        {"range": {"a": [1, 40], "b": [None, 9]}},
        {"disc": {"center": [3, 3], "radius": 9}},
        {"half_plane": {"a": [1, -1], "b": 2}},
        {"simplex": {"points": [[0, 0], [50, 0], [0, 16]]}},
    ]
    asked = [{"id": f"s{i}", "k": 2, **shapes[i % 4]} for i in range(400)]
    talk.good("POST", f"{board}/subscriptions", {"subscriptions": asked, "lists": True})
    for batch in ("each", "batch"):
        events = [
            {"op": "upsert", "id": f"e{n}", "values": {"a": n % 99, "b": n % 17, "y": n * 7 % 101}}
            for n in range(3_000)
        ]
        events += [{"op": "update", "id": "e1", "values": {"b": 3}}, {"op": "delete", "id": "e2"}]
        body = arrow(event_table(events, ["a", "b", "y"]), 1_500)
        talk.good("POST", f"{board}/events", body, headers={"Content-Type": ARROW}, params={"mode": batch})
    table = subscription_table([{"id": f"t{n}", "k": 5, "range": {"a": [n % 50, 60]}} for n in range(6_000)], "a")
    talk.good("POST", f"{board}/subscriptions", arrow(table, 2_500), headers={"Content-Type": ARROW})
    talk.good("POST", f"{board}/subscriptions/delete", {"ids": [f"t{n}" for n in range(0, 6_000, 2)]})
    talk.good("PATCH", f"{board}/subscriptions/s1", {"disc": {"radius": 2}})
    talk.good("PATCH", board, {"ks": [2, 5, 7]})
    talk.good("PUT", f"{board}/objects/e1", {"values": {"y": -1}})
    talk.good("GET", f"{board}/top", params={"l.a": 3, "k": 9})


def bulk(player: Player) -> None:
    """Arrow bodies long enough for every path that only long ones take."""
    names = [f"{n:05}" for n in range(6_000)]
    for order in (names, names[::-1]):
        events = [
            {"op": "upsert", "id": f"e{n}", "values": {player.x: int(n) % 99, player.y: int(n) % 17}} for n in order
        ]
        deleted = [{"op": "delete", "id": event["id"]} for event in events[:100]]
        body = arrow(event_table(events + deleted, [player.x, player.y]), 2_500)
        player.talk.good("POST", f"{player.path}/events", body, headers={"Content-Type": ARROW})
        # Batches that change little of their board, and those that change most of it.
        for some in (events[:2], events[100:]):
            body = arrow(event_table(some, [player.x, player.y]), 2_500)
            how = {"mode": "batch"}
            player.talk.good("POST", f"{player.path}/events", body, headers={"Content-Type": ARROW}, params=how)
        prefix = "a" if order is names else "b"
        k = player.model.ks[0]
        asked = [{"id": prefix + n, "k": k, "range": {player.x: [int(n) % 50, 60]}} for n in order]
        body = arrow(subscription_table(asked, player.x), 2_500)
        player.talk.good("POST", f"{player.path}/subscriptions", body, headers={"Content-Type": ARROW})
        player.talk.good("POST", f"{player.path}/subscriptions/delete", {"ids": [one["id"] for one in asked[::2]]})


def test_no_kernel_of_feeds_is_compiled_in_a_request(tmp_path: Path) -> None:
    with served(Settings(data=tmp_path / "data")) as (talk, kernels):
        windows: list[Any] = [70, {"seconds": 1000}]
        for number, buffer in enumerate(("cost", "kscore", "fixed", "kmax")):
            path, weighting = f"/v1/feeds/f{number}", ("tfidf", "given")[number % 2]
            config = {"window": windows[number // 2], "bounds": [0, 0, 9, 9], "weighting": weighting, "buffer": buffer}
            talk.good("PUT", path, config)
            posts = [{"id": f"p{n}", "keywords": [f"w{n % 7}", "w"], "location": [n % 9, n % 5]} for n in range(200)]
            talk.good("POST", f"{path}/posts", {"posts": posts[:100]})
            asked = [
                {
                    "id": f"s{n}",
                    "keywords": {f"w{n % 7}": 2},
                    "location": [1, n % 9],
                    "k": 1 + n % 40,
                    "alpha": n % 3 / 2,
                }
                for n in range(5_000 if number == 0 else 50)
            ]
            talk.good("POST", f"{path}/subscriptions", {"subscriptions": asked})
            talk.good("POST", f"{path}/posts", {"posts": posts[100:]})
            talk.good("DELETE", f"{path}/posts/p199")
            talk.good("PUT", f"{path}/subscriptions/s1", {"text": "w w1", "location": [50, 50], "k": 1000, "alpha": 0})
            talk.good("PATCH", f"{path}/subscriptions/s2", {"alpha": 1})
            talk.good("DELETE", f"{path}/subscriptions/s3")
            assert talk.good("GET", f"{path}/subscriptions/s1")["list"]
        assert not kernels
