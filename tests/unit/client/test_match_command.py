"""`rankcast match`: what it makes of rows, and what it shows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from app.cli import match
from app.cli.inputs import Unreadable
from app.cli.main import cli
from rankcast_client import MatcherInfo
from rankcast_client.matches import MatchResult, Winner

INFO = MatcherInfo("ads", ("age", "credit"), "relaxed", "sum", "auto", 2)


def lines(*texts: str) -> list[Any]:
    return list(match._of_lines(texts))


def table(text: str) -> list[Any]:
    return list(match._of_csv(io.StringIO(text), INFO))


def test_a_line_is_an_event_or_its_values() -> None:
    assert lines(
        '{"age": 28, "credit": [400, null]}\n', "\n", '{"values": {"age": null}, "payload": {"page": 1}}', "{}"
    ) == [
        {"values": {"age": 28, "credit": (400, None)}},
        {"values": {"age": None}, "payload": {"page": 1}},
        {"values": {}},
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "row 2 is not JSON"),
        ("[1]", "row 2 is no JSON object"),
        ('{"age": "x"}', "row 2: age is x, which is no number"),
        ('{"age": true}', "row 2: age is true, which is no number"),
        ('{"age": [1]}', "row 2: age is \\[1\\], and a range has two ends"),
    ],
)
def test_a_line_that_is_no_event_is_named(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        lines("{}", text)


def test_a_table_has_a_column_for_each_dimension() -> None:
    assert table("age,credit,page\n28,441.5,/\n20:30,,/a\n:5,-1e3:,\n") == [
        {"values": {"age": 28, "credit": 441.5}, "payload": {"page": "/"}},
        {"values": {"age": (20, 30)}, "payload": {"page": "/a"}},
        {"values": {"age": (None, 5), "credit": (-1000.0, None)}, "payload": {"page": ""}},
    ]
    assert table("credit\n1\n") == [{"values": {"credit": 1}}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("speed\n1\n", "there is no column for any dimension of ads: age, credit"),
        ("age\nold\n", "row 1: age is 'old', which is no number"),
        ("age\n1\n2,3\n", "row 2 has more cells than there are columns"),
        ("age\nnan\n", "row 1: age is 'nan', which is no number"),
    ],
)
def test_a_table_that_is_none_is_named(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        table(text)


RESULTS = (MatchResult(0, (Winner("a1", 1.0, {"age": 0.7, "credit": None}),), 9), MatchResult(1, (), 0))
EVENTS: list[Any] = [{"values": {"age": 28}, "payload": {"n": 1}}, {"values": {}}]


def test_lines_have_the_values_and_the_winners(capsys: pytest.CaptureFixture[str]) -> None:
    match._lines(EVENTS, RESULTS, INFO)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {
            "values": {"age": 28},
            "payload": {"n": 1},
            "winners": [{"id": "a1", "score": 1.0, "matched": {"age": 0.7, "credit": None}}],
            "looked_at": 9,
        },
        {"values": {}, "winners": [], "looked_at": 0},
    ]


def test_tables_show_what_was_added(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda: Console(file=out, width=80))
    match._tables(EVENTS, RESULTS, INFO)
    text = out.getvalue()
    for part in ("ads: age 28", "a1", "0.7", "yes", "9 index entries looked at"):
        assert part in text


def test_a_file_that_is_not_there_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("rankcast_client.Matcher.info", lambda self: INFO)
    done = CliRunner().invoke(cli, ["match", str(tmp_path / "none.csv"), "-m", "ads"])
    assert done.exit_code == 1
    assert "No such file" in done.output
    assert CliRunner().invoke(cli, ["match"]).exit_code == 2
