"""The page of all resources: how it is put together, what a failing table leaves, and tables at a tiny size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from app.cli import bench
from bench.commits import figures
from bench.process import CHECKOUT, Failed
from bench.prototypes import BOARDS, FEEDS, MAPS, MATCHERS, RELAYS
from bench.summary import before, boards, bytes, feeds, maps, matchers, memory, relays, run
from bench.summary.rows import HEAD, Row, times_faster
from bench.summary.tables import TABLES

TINY = {
    "painting": boards.Size(m=500, small=300, large=400, sparse=40, dense=40, unicast=10, rounds=1),
    "batches": boards.Size(m=500, large=300, batches=(20, 60), rounds=1),
    "intervals": matchers.Size(n=3_000, points=50, few=10, rounds=1),
    "relaxed": matchers.Size(n=500, points=20, few=10, rounds=1),
    "covering": relays.Size(commands=300, rounds=1),
    "notifications": relays.Size(boxes=500, notifications=5, rounds=1),
    "top": maps.Size(n=500, walks=2, seconds=60, rounds=1),
    "skylines": maps.Size(n=500, sky_walks=2, sky_seconds=20, zones=5, rounds=1),
    "feeds": feeds.Size(60, 100, 30, 5, 1, 100),
    "epochs": feeds.Size(60, 100, 64, 5, 1, 100),
    "large-feeds": feeds.Size(60, 100, 30, 5, 1, 100),
}
ROWS = {"painting": 3, "batches": 4, "intervals": 3, "relaxed": 2}
"""One row where nothing is said."""


@pytest.fixture(autouse=True)
def without_prototypes(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (BOARDS, FEEDS, MAPS, MATCHERS, RELAYS):
        monkeypatch.delenv(variable, raising=False)


def a_row(name: str, met: bool | None = True) -> Row:
    return Row(name, "n = 5", "2 times", "3 times", met, "says 1", "not there", "", "misses")


def pretended(name: str, quick: bool, before: Path | None) -> Iterator[Row]:
    """One table has two rows, the next fails after its first, another at once."""
    assert quick
    yield from {"painting": [a_row("one"), a_row("two", None)], "batches": [a_row("three", False)]}.get(name, [])
    if name != "painting":
        raise Failed(f"{name} is\nbroken | here")


def test_a_table_that_fails_is_on_the_page_with_the_rows_it_had_and_stops_no_other(tmp_path: Path) -> None:
    page, said = tmp_path / "summary.md", list[str]()
    run.run(("batches", "relaxed", "painting"), True, page, said.append, pretended)
    text = page.read_text()
    parts = re.split(r"^## ", text, flags=re.M)
    assert [part.splitlines()[0] for part in parts[1:]] == ["Painting", "Batches of events", "Relaxed matching"]
    painting, batches, relaxed = parts[1:]
    assert f"| {' | '.join(HEAD)} |" in painting and "Failed" not in painting
    assert "| one | n = 5 | 2 times | 3 times | met | says 1 | not there |  |  | misses |" in painting
    assert "| two | n = 5 | 2 times | 3 times |  | says 1 |" in painting
    assert "| three |" in batches and "| **missed** |" in batches
    assert "**Failed**: batches is broken \\| here" in batches and "**Failed**: relaxed is broken" in relaxed
    assert "1 of 2 targets are met; 1 rows are not judged" in parts[0]
    assert any("painting, 1 of 3" in line for line in said) and any("relaxed failed" in line for line in said)


def test_when_nothing_can_be_measured_the_command_fails_after_writing_the_page(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    with pytest.raises(Failed, match="no table"):
        run.run(("relaxed",), True, page, lambda _: None, pretended)
    assert "**Failed**: relaxed is broken" in page.read_text()


def test_a_run_that_is_ended_early_leaves_what_was_measured(tmp_path: Path) -> None:
    def interrupted(name: str, quick: bool, before: Path | None) -> Iterator[Row]:
        if name != "painting":
            raise KeyboardInterrupt
        yield a_row("one")

    page = tmp_path / "summary.md"
    with pytest.raises(KeyboardInterrupt):
        run.run(("painting", "batches", "relaxed"), True, page, lambda _: None, interrupted)
    text = page.read_text()
    assert "| one |" in text and "**Ended early**, without `batches`, `relaxed`." in text


def test_a_process_that_fails_or_is_late_fails_its_table_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failed, match="KeyError"):
        list(run.in_a_process("no such table", True))
    with pytest.raises(Failed, match=r"not done within 0.01 s"):
        list(run.in_a_process("painting", True, seconds=0.01))


def test_targets_are_judged_by_the_fastest_of_the_prototype() -> None:
    row = times_faster("a", "n", 3.0, 2.0, {"slow": 9.0, "fast": 5.0})
    assert row.met is False and row.ours == "2.50 times, 2.0 us"
    assert row.prototype == "fast 5.0 us (2.50 times ours), slow 9.0 us (4.50 times ours)"
    assert times_faster("a", "n", 2.5, 2.0, {"fast": 5.0}).met is True
    assert times_faster("a", "n", 2.5, 2.0, {}).met is None
    row = times_faster("a", "n", 2.5, np.float64(2.0), {"fast": np.float64(5.0)})
    assert Row(*json.loads(json.dumps(row.plain()))) == row


def test_every_table_that_needs_no_process_of_its_own_is_run() -> None:
    assert TABLES.keys() - TINY.keys() == {"bytes", "maps-http", "feeds-http", "start"}


@pytest.mark.parametrize("name", TINY)
def test_a_table_has_its_rows(name: str) -> None:
    rows = list(TABLES[name].rows(TINY[name]))
    assert len(rows) == ROWS.get(name, 1)
    for row in rows:
        assert row.limit and row.wanted and re.search(r"\d", row.ours) and re.search(r"\d", row.size)
        assert row.met is not None or row.prototype == "not there"
    if name == "epochs":
        assert re.fullmatch(r"[\d.]+ s", rows[0].ours)


def test_bytes_are_those_of_the_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes agree about, and every resource is measured."""
    found = memory.measure("matchers", 100_000)
    assert 30 < found.bytes < 1_000 and found.text == pytest.approx(5.9, abs=0.1)
    monkeypatch.setattr(bytes, "measure", lambda resource, m: memory.Measured(40.0, 6.0))
    rows = list(bytes.resident(bytes.Size()))
    assert [row.name.rpartition(" ")[2] for row in rows] == list(memory.MADE)
    assert all(row.met and row.ours == "40 bytes" for row in rows)
    boards, *others = (row.limit for row in rows)
    assert "7 of the id, which is front-coded" in boards and all("22 of the id" in limit for limit in others)


@pytest.mark.parametrize("resource", memory.MADE)
def test_engines_take_the_subscriptions_that_are_counted(resource: str) -> None:
    prepared = memory.MADE[resource](30)
    plan = prepared.engine.apply(prepared.command())
    assert plan is not None
    name = "query_count" if resource == "maps" else "subscription_count"
    assert getattr(prepared.engine, name) == 30


def test_the_command_refuses_a_table_that_there_is_not() -> None:
    cli = typer.Typer()
    bench.register(cli)
    cli.command("other")(lambda: None)
    result = CliRunner().invoke(cli, ["bench", "all", "--only", "nothing"])
    assert result.exit_code == 2 and "there is no table 'nothing'" in result.output.replace("\n", " ")


TINY_BEFORE: dict[str, dict[str, Any]] = {
    "intervals": {"n": 3_000, "points": 20, "changed": 300, "compiling": 3_000},
    "relaxed": {"n": 500, "few": 10, "dimensions": [2]},
    "covering": {"commands": 300, "dimensions": 16, "share": 0.15},
    "notifications": {"boxes": 500, "notifications": 5, "attributes": 4},
    "epochs": {"subscriptions": 60, "window": 100, "vocabulary": 100},
    "large-feeds": {"large": 60, "window": 100, "posts": 30, "vocabulary": 100, "rounds": 2},
}


@pytest.mark.parametrize("table", figures.TABLES)
def test_two_checkouts_say_their_figures_by_their_own_benchmarks(table: str) -> None:
    found = before.beside(CHECKOUT, table, 2, **TINY_BEFORE[table])
    assert found and all(one.before > 0 and one.times > 0 for one in found.values())
    assert before.beside(None, table) == {}


def test_a_checkout_that_cannot_be_measured_fails_its_table(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="relaxed of the commit before: there is no checkout in"):
        before.beside(tmp_path, "relaxed", **TINY_BEFORE["relaxed"])
    with pytest.raises(Failed, match=r"figures.py ended with status 1"):
        before.beside(CHECKOUT, "relaxed")


def test_two_checkouts_take_turns_and_the_median_of_their_rounds_counts() -> None:
    turns = list[str]()
    theirs, ours = iter((8.0, 9.0, 30.0)), iter((2.0, 3.0, 6.0))

    def turn(name: str, times: Iterator[float]) -> float:
        turns.append(name)
        return next(times)

    found = before.alternated(lambda: turn("theirs", theirs), lambda: turn("ours", ours))
    assert found == (9.0, 4.0)
    assert turns == ["theirs", "ours", "ours", "theirs", "theirs", "ours"]


def test_a_target_is_met_by_itself_or_beside_the_commit_before() -> None:
    seconds, rate = before.Target(1.5, 3.0, "1.5 s"), before.Target(5_000, 1_250, "5,000/s", rate=True)

    def beside(times: float) -> before.Beside:
        return before.Beside(1.0, times)

    assert seconds.met(1.5, None) and seconds.met(1.6, beside(2.0))
    assert not seconds.met(1.6, None) and not seconds.met(1.6, beside(1.9))
    assert rate.met(5_000, None) and rate.met(4_000, beside(4.0)) and not rate.met(4_000, beside(3.9))
    assert rate.said() == "5,000/s, or 4.00 times the commit before"


def test_the_page_says_what_the_machine_does_and_which_commit_was_before(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    run.run(("painting",), True, page, lambda _: None, pretended, CHECKOUT)
    text = page.read_text()
    assert re.search(r"took \d+ ns for a read of 8 bytes anywhere in 268 MB and \d+ ns for an empty step", text)
    assert re.search(r"The commit before is [0-9a-f]{12}", text)
