"""The Python client makes of the vectors what every client must; `client-js/test/vectors.test.js` too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rankcast_client.feed_models import FeedFollower
from rankcast_client.followers import ListFollower
from rankcast_client.models import BoardInfo, Entry, Subscription
from rankcast_client.sse import Parser
from rankcast_client.zones import Circle, zone_of
from tests.vectors import make

FOLDER = Path(make.__file__).parent


def cases(name: str) -> list[Any]:
    return list(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(make.FILES))
def test_the_files_are_what_brute_force_gives(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == make.text(make.FILES[name]())


@pytest.mark.parametrize("case", cases("lists"), ids=lambda case: case["name"])
def test_a_list_is_right_after_each_message(case: Any) -> None:
    follower: Any = FeedFollower() if case["resource"] == "feeds" else ListFollower(case["form"])
    for step in case["steps"]:
        if case["form"] == "tiles" and step["event"] in ("snapshot", "reset"):
            board = {"range_attributes": [], "ks": [], **case["board"]}
            follower.learn(
                Subscription.from_json({"id": "mine", **case["subscription"]}), BoardInfo.from_json("b", board)
            )
        follower.take(step["event"], step["data"])
        if case["resource"] == "feeds":
            assert [(one.id, one.score) for one in follower.posts] == [
                (one["id"], one["score"]) for one in step["list"]
            ]
        else:
            first = case["subscription"].get("offset", 0) + 1
            assert list(follower.entries) == [Entry.from_json(one) for one in step["list"]]
            assert [one["rank"] for one in step["list"]] == list(range(first, first + len(step["list"])))


def test_a_place_is_inside_by_the_margin() -> None:
    for case in cases("zones"):
        zone = case["zone"]
        if zone is not None and "center" in zone:
            zone = Circle(tuple(zone["center"]), zone["radius"])
        tested = zone_of(zone, case["metric"], tuple(case["bounds"]))
        for x, y, inside in case["places"]:
            assert tested.holds(x, y) is inside, (case["metric"], case["zone"], x, y)


@pytest.mark.parametrize("case", cases("sse"), ids=lambda case: repr(case["text"]))
def test_blocks_do_not_depend_on_how_bytes_come(case: Any) -> None:
    data, chance = case["text"].encode(), random.Random(1)
    expected = [(block["event"], block["data"], block["id"]) for block in case["blocks"]]
    for pieces in (1, 2, 3, len(data)):
        cuts = sorted(chance.sample(range(1, len(data)), pieces - 1))
        parser = Parser()
        found = [
            tuple(block)
            for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)
            for block in parser.feed(data[a:b])
        ]
        assert found == expected
