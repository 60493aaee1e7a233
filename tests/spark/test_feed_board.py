"""Lists of a feed on Spark on a board of a real service: those of brute force, whatever is done again."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from indexes.feeds.config import FeedConfig
from spark_jobs.feeds.board import KS, Board
from spark_jobs.feeds.sending import Refused, Sender, Undelivered
from spark_jobs.feeds.sinks import BEFORE
from tests.spark.feeds import Local, World
from tests.support.app_client import AppClient
from tests.support.service_fixtures import URL, MakeClient, _kernels_when_needed, make_client

__all__ = ["_kernels_when_needed", "make_client"]

PATH = "/v1/boards/lists"
CONFIG = FeedConfig((0.0, 0.0, 4.0, 3.0), posts=100)


class Direct(Sender):
    """Sends to a service in this process; after so many requests an answer is lost."""

    def __init__(self, client: AppClient) -> None:
        super().__init__()
        self.client = client
        self.left = -1

    def send(self, method: str, url: str, body: object = None, once: str | None = None) -> Any:
        answer = self.client.request(method, url, json=body)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.text)
        self.left -= 1
        if self.left == 0:
            raise Undelivered("lost")
        return answer.json()


def shown(client: AppClient) -> dict[str, tuple[list[str], list[float]]]:
    """All lists of the board."""
    found = {}
    for one in client.get(f"{PATH}/subscriptions", params={"limit": 1000}).json()["items"]:
        answer = client.get(f"{PATH}/subscriptions/{one['id']}").json()
        payloads = [entry["payload"] for entry in answer["list"]]
        assert [entry["rank"] for entry in answer["list"]] == [entry["values"]["place"] for entry in answer["list"]]
        found[one["id"]] = ([payload["id"] for payload in payloads], [payload["score"] for payload in payloads])
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_a_board_has_the_lists_after_every_batch(make_client: MakeClient, seed: int) -> None:
    client = make_client()
    sender, world, local = Direct(client), World(seed, CONFIG), Local(CONFIG, "location", 2)
    board, lost = Board(f"{URL}{PATH}/", sender), 0
    rows = local.batch([world.posts(10), world.subscribe(30)])
    for batch in range(BEFORE, 11):
        gone = local.front.gone
        for attempt in count(1):
            sender.left = attempt if batch % 4 == 1 else -1
            try:
                board.write(batch, 5, rows, gone)
            except Undelivered:
                # The job ends, and the next one does the batch again.
                board, lost = Board(f"{URL}{PATH}", sender), lost + 1
                continue
            break
        assert shown(client) == world.lists(), batch
        objects = client.get(PATH).json()["objects"]
        assert objects == sum(len(posts) for posts, _ in world.lists().values())
        rows = local.batch(world.batch(), renew=batch % 3 == 1)
    assert lost > 5


def test_what_follows_a_list_hears_of_a_batch_as_one_change(make_client: MakeClient) -> None:
    client = make_client()
    world, local = World(4, CONFIG), Local(CONFIG, "hashing", 1)
    board = Board(f"{URL}{PATH}", Direct(client))
    board.write(BEFORE, 1, local.batch([world.subscribe(20)]), [])
    before = client.get(PATH).json()["seq"]
    rows = local.batch([world.posts(50)])
    board.write(0, 2, rows, [])
    assert client.get(PATH).json()["seq"] == before + sum(len(row.posts) for row in rows)
    assert shown(client) == world.lists() and any(posts for posts, _ in world.lists().values())


def test_a_board_of_something_else_stays_as_it_is(make_client: MakeClient) -> None:
    client = make_client()
    client.put(PATH, json={"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [5]})
    client.put(f"{PATH}/objects/a", json={"values": {"x": 1, "y": 2}})
    with pytest.raises(Undelivered, match="something else"):
        Board(f"{URL}{PATH}", Direct(client)).write(BEFORE, 1, [], [])
    assert client.get(PATH).json()["objects"] == 1
    with pytest.raises(ValueError, match="not the URL of a board"):
        Board(f"{URL}/v1/feeds/lists", Direct(client))


def test_a_stream_that_begins_anew_makes_its_board_anew(make_client: MakeClient) -> None:
    client = make_client()
    for seed in (5, 6):
        world, local = World(seed, CONFIG), Local(CONFIG, "hashing", 1)
        board = Board(f"{URL}{PATH}", Direct(client))
        board.write(BEFORE, 1, local.batch([world.posts(30), world.subscribe(10 * seed)]), [])
        assert shown(client) == world.lists()
    asked = client.get(f"{PATH}/subscriptions/s0").json()
    assert asked["k"] in KS and asked["range"]["subscription"] == [0, 0]
