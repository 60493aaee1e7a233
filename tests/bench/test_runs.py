"""Small runs of each part of the benchmark: they end, and what they sent arrived. How fast is not asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.commands import bench
from bench.boards import kernels, service, streams
from bench.boards.prototype import VARIABLE
from bench.report import Report


@pytest.fixture
def report() -> Report:
    return Report(lambda _: None)


def test_kernels_run_without_the_prototype_and_say_so(
    report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    size = kernels.Size(n=(300, 500), m=2_000, dense=60, sparse=60, unicast=20, rounds=2)
    kernels.Bench(report, size, tmp_path).show()
    page = report.page()
    assert "The prototype is not there" in page
    assert page.count("| Paint-Dense |") == page.count("| Paint-Sparse |") == 2
    told = re.findall(r"^\| Unicast, exact, by .* \| ([0-9.,]+) \| [0-9.,]+ \| [0-9.,]+ \|$", page, re.MULTILINE)
    assert len(told) == 2 and told[0] == told[1]


def test_http_run_applies_everything_that_it_sends(report: Report) -> None:
    size = service.Size(n=200, m=3_000, rounds=1, batches=2, singles=64)
    service.Bench(report, size).show(frozenset({"register", "http"}))
    page = report.page()
    for row in ("| 3,000 |", "| service |", "| service, with the tiles |", "| one row, plain FastAPI |"):
        assert row in page


def test_streams_run_finds_no_error_and_every_change() -> None:
    found = streams.measure(streams.Size(lists=40, sockets=3, seconds=3, batch=5))
    assert found["first_errors"] == []
    assert found["changes"] == {"SSE": 60, "WebSocket": 60}


def test_page_begins_with_what_was_wanted_and_measured(report: Report) -> None:
    report.heading("Title", 1)
    report.text("Machine.")
    report.heading("Part")
    report.table(("name", "n", "why"), [("a", "1", "b")], text=("why",))
    report.verdict("more than 2", "1", False)
    assert report.page() == (
        "# Title\n\nMachine.\n\n"
        "| wanted | measured | |\n| --- | --- | --- |\n| more than 2 | 1 | **missed** |\n\n## Part\n\n"
        "| name | n | why |\n| --- | ---: | --- |\n| a | 1 | b |\n\n**Missed**: more than 2; measured 1.\n"
    )


def test_command_refuses_a_table_that_there_is_not() -> None:
    cli = typer.Typer()
    bench.register(cli)
    cli.command("other")(lambda: None)
    result = CliRunner().invoke(cli, ["bench", "boards", "--table", "2"])
    assert result.exit_code == 2
    assert "there is no table 2" in result.output
