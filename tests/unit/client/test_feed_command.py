"""`rankcast feed`: what it makes of options and rows, what it sends, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from app.cli import feed
from app.cli.documents import rows
from app.cli.inputs import Unreadable
from app.cli.main import cli
from rankcast_client import FeedChange, FeedPost, FeedReset, FeedSnapshot, Ready
from rankcast_client.feed_models import ChangedPost

POST = FeedPost("a", (1, 2), ("x",), {"n": 1}, 0.5)
SHOWN = {"id": "a", "score": 0.5, "location": (1, 2), "keywords": ("x",), "payload": {"n": 1}}


def test_keywords_have_weights_where_one_has() -> None:
    assert feed.Words(["a", "b", "a"], None).read() == ["a", "b", "a"]
    assert feed.Words(["a=2", "b", "a"], None).read() == {"a": 3, "b": 1}
    assert feed.Words(None, "some text").read() is None
    for given, text in ((None, None), (["a"], "b"), (["a=x"], None)):
        with pytest.raises(typer.BadParameter):
            feed.Words(given, text).read()
    assert feed._place("1,-2.5") == (1, -2.5)
    for bad in ("1", "1,2,3", "a,b"):
        with pytest.raises(typer.BadParameter, match="write 2 numbers"):
            feed._place(bad)


def test_a_line_says_what_an_event_of_a_stream_says() -> None:
    listed = [{"rank": 1, **SHOWN}]
    assert feed._line(FeedSnapshot(3, (POST,))) == {"event": "snapshot", "seq": 3, "list": listed}
    assert feed._line(FeedReset(4, ())) == {"event": "reset", "seq": 4, "list": []}
    change = FeedChange(5, (ChangedPost("b", 1, None, None), ChangedPost("a", None, 1, POST)))
    gone, entered = {"id": "b", "old_rank": 1, "new_rank": None}, {"old_rank": None, "new_rank": 1, **SHOWN}
    assert feed._line(change) == {"event": "change", "seq": 5, "changes": [gone, entered]}
    assert feed._line(Ready(5)) is None


def test_rows_of_parquet_are_those_of_lines(tmp_path: Path) -> None:
    wanted = [
        {"id": "a", "keywords": {"x": 3.0, "y": 1.0}, "location": [1.0, 2.0], "payload": {"n": 1}},
        {"id": "b", "text": "x y", "location": [0.0, 0.5]},
    ]
    lines, table = tmp_path / "rows.ndjson", tmp_path / "rows.parquet"
    lines.write_text("\n\n".join(map(json.dumps, wanted)))
    columns = {
        "id": ["a", "b"],
        "keywords": [["x", "y", "x"], None],
        "weights": [[1.0, 1.0, 2.0], None],
        "text": [None, "x y"],
        "x": [1.0, 0.0],
        "y": [2.0, 0.5],
        "payload": ['{"n": 1}', None],
    }
    pq.write_table(pa.table(columns), table)
    assert list(rows(lines, None)) == list(rows(table, None)) == wanted
    pq.write_table(pa.table({"keywords": [["x"]], "weights": [[1.0, 2.0]]}), table)
    with pytest.raises(Unreadable, match="row 1: there are 1 keywords and 2 weights"):
        list(rows(table, None))
    pq.write_table(pa.table({"payload": ["{"]}), table)
    with pytest.raises(Unreadable, match="row 1: payload is not JSON text"):
        list(rows(table, None))
    with pytest.raises(Unreadable):
        list(rows(lines, "parquet"))


Answer = Callable[[httpx.Request], httpx.Response]


def said(monkeypatch: pytest.MonkeyPatch, answer: Answer, *arguments: str, stdin: str = "") -> Result:
    real = httpx.Client

    def client(**options: Any) -> httpx.Client:
        return real(**{**options, "transport": httpx.MockTransport(answer)})

    monkeypatch.setattr(httpx, "Client", client)
    return CliRunner().invoke(cli, ["feed", *arguments], input=stdin)


def test_what_was_loaded_before_a_bad_row_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "AT_ONCE", 2)
    bodies: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if len(bodies) == 2:
            return httpx.Response(409, json={"title": "taken", "status": 409})
        results = [{"id": one["id"], "reached": 7} for one in bodies[-1]["posts"]]
        return httpx.Response(201, json={"seq": 2, "results": results})

    lines = "".join(f'{{"id": "p{i}", "keywords": ["x"], "location": [0, 0]}}\n' for i in range(4))
    done = said(monkeypatch, answer, "load", "city", stdin=lines)
    assert done.exit_code == 1
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": "p0", "reached": 7},
        {"id": "p1", "reached": 7},
    ]
    assert "409 taken; 2 rows before are posted" in done.output
    assert [[one["id"] for one in body["posts"]] for body in bodies] == [["p0", "p1"], ["p2", "p3"]]


@pytest.mark.parametrize(("command", "verb"), [("load", "posted"), ("subscribe", "subscribed")])
def test_what_was_loaded_before_ctrl_c_is_said(monkeypatch: pytest.MonkeyPatch, command: str, verb: str) -> None:
    monkeypatch.setattr(feed, "AT_ONCE", 2)
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return httpx.Response(201, json={"seq": 2, "results": [], "subscriptions": []})

    lines = "".join(f'{{"id": "p{i}", "keywords": ["x"], "location": [0, 0]}}\n' for i in range(4))
    done = said(monkeypatch, answer, command, "city", stdin=lines)
    assert done.exit_code == 130
    assert f"interrupted; the first 2 rows of - are {verb}; the next may be, too" in done.stderr


def test_a_row_that_is_passed_over_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = {"index": 0, "field": "subscriptions[0].k", "reason": "is too much"}
    told = {"seq": 1, "subscriptions": [], "errors": [error]}
    line = '{"keywords": ["x"], "location": [0, 0], "k": 5000}\n'
    done = said(
        monkeypatch, lambda _: httpx.Response(201, json=told), "subscribe", "city", "--on-error", "skip", stdin=line
    )
    assert (done.exit_code, "row 1: subscriptions[0].k: is too much" in done.output) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "city", "--bounds", "0,0,1,1"),
        ("put", "city", "--bounds", "0,0,1,1", "--window", "1", "--seconds", "1"),
        ("put", "city", "--bounds", "0,0,1", "--window", "1"),
        ("post", "city", "--at", "0,0"),
        ("post", "city", "--at", "0,0", "-w", "x", "--payload", "{"),
        ("watch", "city"),
        ("watch", "city", "--id", "u1", "-k", "3"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(cli, ["feed", *arguments]).exit_code == 2
