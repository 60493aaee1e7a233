"""Every command block of the README and of the pages in `docs`, run in order, as printed, in an empty folder.

The README is read while the demo runs, as it says; the other pages on an empty service, or on the one that they start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, partial
from typing import Any

import httpx
import pytest

from app.resource_names import RESOURCES
from tests.oracles.service import apply_changes
from tests.spark.runtime import need_java
from tests.support.brokers import server
from tests.support.live import LiveService, StartService
from tests.support.node import node
from tests.support.pages import PAGES, ROOT, RUN, Block, blocks, blocks_of
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port
from tests.system.tour import SERVICE, Tour, shows

README, SPARK, CONNECTORS = "README.md", "docs/spark.md", "docs/connectors.md"
TOURS = {
    name: found
    for name, found in ((page.relative_to(ROOT).as_posix(), blocks_of(page)) for page in PAGES)
    if any(block.language in RUN and not block.not_run for block in found)
}
DEMO = Block(README, 0, "sh", "", terminal=SERVICE)
"""Where `make run` goes on, in the reader's first terminal."""

Take = Callable[[str], Tour]


@pytest.fixture(scope="module")
def shared(start_service: StartService) -> Callable[[], LiveService]:
    """The service that pages are read on which start none; it is started for the first one."""
    return cache(partial(start_service, until="module"))


@pytest.fixture(scope="module")
def take(shared: Callable[[], LiveService], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Take]:
    """Takes a tour of a page, once: `take("docs/maps.md")`. Fails where the page does not hold."""
    begun: dict[str, Tour] = {}
    taken: set[str] = set()

    def take(page: str) -> Tour:
        if page in begun:
            assert page in taken, f"{page} does not hold"
            return begun[page]
        if page == SPARK:
            need_java()
        found = TOURS[page]
        if page == CONNECTORS:
            server("redis")
        if any(block.language == "javascript" for block in found):
            node()
        own = page == README or any(block.terminal == SERVICE for block in found)
        port = free_port() if own else _emptied(shared())
        tour = begun[page] = Tour(tmp_path_factory.mktemp("tour") / "empty", port)
        if page == README:
            tour.start(DEMO, f".venv/bin/rankcast demo --port {port}")
            wait_until(lambda: _flights(tour) >= 5, pause=0.05)
        tour.run(found)
        tour.end()
        taken.add(page)
        return tour

    yield take
    for tour in begun.values():
        tour.kill()


def _emptied(service: LiveService) -> int:
    """Delete every resource of a service; returns its port."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
        for resource in RESOURCES:
            for one in http.get(f"/v1/{resource}").json()["items"]:
                assert http.delete(f"/v1/{resource}/{one['name']}").status_code == 200
    return int(service.url.rpartition(":")[2])


def _flights(tour: Tour) -> int:
    """How many flights of the README's range have landed, five at the most."""
    answer = httpx.get(f"{tour.url}/v1/boards/delays/top?l=500&r=1000&k=5", timeout=PATIENCE)
    return len(answer.json()["list"]) if answer.status_code == 200 else 0


@pytest.mark.parametrize("page", TOURS)
def test_every_block_of_the_page_does_what_it_says(take: Take, page: str) -> None:
    tour = take(page)
    run = [block for block in TOURS[page] if block.language in RUN and not block.not_run]
    done = {outcome.block for outcome in tour.outcomes} | {running.block for running in tour.ended}
    assert done - {DEMO} == set(run)


@pytest.mark.parametrize("page", [page for page in TOURS if page != README])
def test_pages_leave_the_board_of_the_demo_alone(page: str) -> None:
    for block in TOURS[page]:
        assert block.not_run or not re.search(r"\bdelays\b", block.text), block.place


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _data_in_the_text(page: str, events: list[tuple[str, Any]]) -> None:
    """The page's description of a stream has these events, to the letter."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for event, data in events:
        assert re.search(rf"event: {event}\s+data: {re.escape(json.dumps(data))}$", text, re.M), (event, data)


def test_the_readme_tells_the_truth_about_its_list(take: Take) -> None:
    tour = take(README)
    (first, snapshot), *changes, last = tour.events("teens")
    lists = [snapshot["list"]]
    for event, data in changes:
        assert event == "change"
        lists.append(apply_changes(lists[-1], data["changes"]))
    assert (first, last[0]) == ("snapshot", "gone")
    assert [[entry["id"] for entry in shown] for shown in lists] == [
        ["ada", "alan", "grace"],
        ["grace", "ada", "alan"],
        ["edsger", "grace", "ada"],
        ["ada", "alan"],
        ["ada", "alan", "joan"],
        ["alan", "ada", "joan"],
        ["alan", "joan"],
    ]
    (example,) = tour.printed("python")
    assert example.endswith("[('ada', 9100), ('grace', 9000), ('alan', 8800)]\n")


def test_the_readme_may_be_read_again(
    shared: Callable[[], LiveService], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The demo keeps its data, so the second reading finds whatever the first one has left."""
    port = _emptied(shared())
    by_hand = [block for block in TOURS[README] if block.language == "bash" and "boards/arcade" in block.text]
    told = []
    for _ in range(2):
        tour = Tour(tmp_path_factory.mktemp("tour") / "empty", port)
        tour.run(by_hand)
        tour.wait_for("teens")  # The board is deleted, which its stream says last.
        tour.end()
        told.append([(event, data.get("changes")) for event, data in tour.events("teens")])
    assert told[0] == told[1]
    assert len(told[0]) > 5


def test_the_page_about_boards_tells_the_truth(take: Take) -> None:
    tour = take("docs/boards.md")
    followed, explained, shapes = tour.printed("python")
    assert followed.endswith("[('UA1545', 45), ('DL95', 33)]\n")
    assert explained.startswith("worse 2 ")
    assert shapes.count("\n") > 1
    assert [entry["id"] for entry in json.loads(tour.said("where.to=IAH&l=500"))["list"]] == ["UA1545"]


def test_the_page_about_streams_tells_the_truth(take: Take) -> None:
    tour = take("docs/streams.md")
    assert [event for event, _ in tour.events("ready")][:2] == ["snapshot", "ready"]


def test_the_page_about_the_client_tells_the_truth(take: Take) -> None:
    first, second, socket, many, begun, _, won, moving, asked, job = take("docs/client.md").printed("python")
    assert first.endswith("[('grace', 9500), ('ada', 9100), ('alan', 9100)]\n")
    assert [line.split()[1] for line in second.splitlines()] == ["grace", "ada", "alan"]
    assert socket == "arcade-py teens ['grace', 'ada', 'alan']\n"
    assert int(many.split()[1]) >= 500 and begun == "200\n"
    assert won == "mortgage 1 1\n"
    assert "saved" in moving
    assert asked.startswith("worse 1 ")
    assert "100% succeeded\n" in job


def test_the_page_about_feeds_tells_the_truth(take: Take) -> None:
    tour = take("docs/feeds.md")
    assert json.loads(tour.said("feeds/city/subscriptions -H"))["subscriptions"][0]["list"] == []
    assert tour.events("stream")[0][1]["list"] == []
    assert tour.printed("python") == ["['p4', 'p1']\n"]
    assert tour.said("feed subscribe town") == "mine\n"
    assert _lines(tour.said("feed load town")) == [{"id": "a", "reached": 1}, {"id": "b", "reached": 0}]
    (top,) = _lines(tour.said("feed top town"))
    assert (top["rank"], top["id"], top["keywords"]) == (1, "a", ["ramen", "go"])
    (watched,) = _lines(tour.said("feed watch town"))
    assert (watched["event"], [one["id"] for one in watched["list"]]) == ("snapshot", ["b", "a"])


def test_the_page_about_maps_tells_the_truth(take: Take) -> None:
    tour = take("docs/maps.md")
    top, made = json.loads(tour.said("food/top")), json.loads(tour.said("-X PUT localhost:8000/v1/maps/food/queries"))
    skyline = json.loads(tour.said("food/skyline"))["skyline"]
    assert [entry["id"] for entry in skyline] == ["trattoria", "kiosk", "bistro"]
    assert (made["seq"], made["list"], made["zone"]) == (5, top["list"], top["zone"])
    inside, moved = json.loads(tour.said("[10, 10.5]")), json.loads(tour.said("[90, 90]"))
    assert inside == {"seq": 6, "inside": True}
    assert json.dumps(inside) in (ROOT / "docs/maps.md").read_text(encoding="utf-8")
    assert (moved["seq"], moved["inside"]) == (8, False)
    (_, snapshot), (_, cheaper), (_, away), *_ = told = tour.events("stream")
    assert [event for event, _ in told[:3]] == ["snapshot", "result", "result"]
    assert [data["seq"] for _, data in told[:3]] == [5, 7, 8]
    assert (snapshot["list"], away["list"]) == (made["list"], moved["list"])
    assert cheaper["list"][0]["id"] == "trattoria"


def test_the_page_about_matchers_tells_the_truth(take: Take) -> None:
    tour = take("docs/matchers.md")
    notified, patched = json.loads(tour.said('"page": "/homes"')), json.loads(tour.said('{"weights": {"age": 2}}'))
    assert (notified["seq"], patched["seq"]) == (4, 5)
    (explained,) = json.loads(tour.said('"explain": true'))["results"]
    assert explained["winners"] == [{"id": "anyone", "score": 2, "matched": {"age": 2}}]
    _data_in_the_text("docs/matchers.md", tour.events("stream")[:2])
    assert tour.printed("python") == ["bike 3\nanyone 2\nscooter 1\n", "2 1.25 {'age': 40, 'credit': 720} None\n"]
    (line,) = _lines(tour.said("match --matcher ads -k 5"))
    assert [won["id"] for won in line["winners"]] == ["bike", "anyone", "scooter"]
    assert len(_lines(tour.said("match visits.csv"))) == 3


def test_the_page_about_relays_tells_the_truth(take: Take) -> None:
    tour = take("docs/relays.md")
    assert [line["seq"] for line in _lines(tour.said("/commands"))] == [6, 7]
    _data_in_the_text("docs/relays.md", tour.events("stream")[:2])
    first, second = tour.printed("python")
    assert first == "8 tiny\n9 tiny\n('any',)\n"
    assert second == "{'price': 5, 'volume': 500} {'lot': 8}\n"
    assert tour.said("rebuild relays/market").endswith("\nrelays/market: unsubscribe 1: bargain\n")
    told, _ = [said for said in tour.printed("sh") if said.startswith('{"subscriptions"')]
    assert json.loads(told) == {"subscriptions": ["bargain", "any"], "links": []}


def test_the_page_about_operations_tells_the_truth(take: Take) -> None:
    tour = take("docs/operations.md")
    assert len(tour.said("keys list").splitlines()) == 2
    assert [line.split("\t")[1] for line in tour.said("top flights").splitlines()] == ["DL95", "UA1545"]


def test_the_page_about_spark_tells_the_truth(take: Take) -> None:
    tour = take(SPARK)
    given = json.loads(tour.said("boards/city-lists/subscriptions/lunch"))
    assert [entry["payload"]["id"] for entry in given["list"]] == ["p2", "p1"]
    for job in ("spark_jobs.rebuild.boards", "history.match", "trajectories"):
        *_, done = _lines(tour.said(f"{job} "))
        assert "error" not in done and done["seconds"] > 0


def made_up(*parts: str, terminal: str = "") -> list[Block]:
    """The blocks of a page: shell, or JSON where a part begins with a brace."""
    text = "\n\n".join(
        f"```json\n{part}\n```" if part.startswith("{") else f"{terminal}\n```sh\n{part}\n```" for part in parts
    )
    return blocks("page.md", text)


MISSING = "curl -s http://127.0.0.1:8000/v1/boards/none"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (["true\nfalse"], "exit 1"),
        (["false | cat"], "exit 1"),
        (["no-such-command"], "exit 127"),
        ([MISSING], "404"),
        ([f"{MISSING} > /dev/null"], "404"),
        ([f"# Refused with 422: wrong.\n{MISSING}"], "404"),
        (["# Refused with 404: right.\ntrue"], "exit 0"),
        (["# Refused with 422: wrong.\n.venv/bin/rankcast board show none"], "404"),
        (["curl -s http://127.0.0.1:1/v1/boards"], "exit 7"),
        (["curl -sN http://127.0.0.1:8000/v1/boards\ntrue"], "give what does not end a terminal"),
        ([".venv/bin/rankcast watch none"], "give what does not end a terminal"),
        (["curl -s http://127.0.0.1:8000/healthz", '{"status": "bad"}'], "no command above prints"),
    ],
)
def test_a_page_that_does_not_hold_is_found_out(
    shared: Callable[[], LiveService], parts: list[str], reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tour = Tour(tmp_path_factory.mktemp("tour") / "empty", int(shared().url.rpartition(":")[2]))
    with pytest.raises(AssertionError, match=reason):
        tour.run(made_up(*parts))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (f"{MISSING}/subscriptions/x/stream -N", "404"),
        (".venv/bin/rankcast watch none", "404"),
        ("curl -sN http://127.0.0.1:8000/v1/boards\ntrue", "nothing can be typed after"),
    ],
)
def test_a_stream_that_fails_is_found_out(
    shared: Callable[[], LiveService], command: str, reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tour = Tour(tmp_path_factory.mktemp("tour") / "empty", int(shared().url.rpartition(":")[2]))

    def read() -> None:
        tour.run(made_up(command, terminal="<!-- terminal: stream -->"))
        tour.end()

    with pytest.raises(AssertionError, match=reason):
        read()


def test_commands_share_a_folder_and_variables(tmp_path_factory: pytest.TempPathFactory) -> None:
    tour = Tour(tmp_path_factory.mktemp("tour") / "empty", free_port())
    tour.run(
        made_up("pwd > here\nname='a b'\nexport NAME=$name", 'test "$(cat here)" = "$PWD"\nenv | grep "^NAME=$name$"')
    )
    assert tour.said("env |") == "NAME=a b\n"


def test_a_sample_may_round_and_nothing_else() -> None:
    answer = {"seq": 4, "radius": Decimal("9.2849"), "list": [1, None]}
    assert shows({"seq": 4, "radius": Decimal("9.28"), "list": [1, None]}, answer)
    assert not shows({"seq": 4, "radius": Decimal("9.29"), "list": [1, None]}, answer)
    assert not shows({"seq": 4, "radius": Decimal("9.28"), "list": [1]}, answer)
    assert not shows({"seq": 4, "list": [1, None]}, answer)
    assert not shows({"seq": True, "radius": Decimal("9.28"), "list": [1, None]}, {**answer, "seq": 1})
