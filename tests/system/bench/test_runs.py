"""Small runs of each part of the benchmark: they end, and what they sent arrived. How fast is not asked."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from app.cli import bench
from bench.boards import change_costs, kernels, service, space, streams
from bench.prototypes import BOARDS
from bench.report import Report
from indexes.boards.space.kernels.shapes import SHAPES


@pytest.fixture
def report() -> Report:
    return Report(lambda _: None)


def test_kernels_run_without_the_prototype_and_say_so(
    report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(BOARDS, raising=False)
    size = kernels.Size(n=(300, 500), m=2_000, dense=60, sparse=60, unicast=20, rounds=2)
    kernels.Bench(report, size, tmp_path).show()
    page = report.page()
    assert "The prototype is not there" in page
    assert page.count("| Paint-Dense |") == page.count("| Paint-Sparse |") == 2
    told = re.findall(r"^\| Unicast, exact, by .* \| ([0-9.,]+) \| [0-9.,]+ \| [0-9.,]+ \|$", page, re.MULTILINE)
    assert len(told) == 2 and told[0] == told[1]


def test_space_run_judges_boxes_and_reports_all_shapes(report: Report) -> None:
    space.show(report, space.Size(n=300, m=500, events=20, baseline=5, rounds=1))
    page = report.page()
    for d, shape in space.CASES:
        assert f"| {shape}, d = {d} |" in page
    assert len(report.verdicts) == 3


@pytest.mark.parametrize(("d", "shape"), space.CASES)
def test_the_baseline_of_several_attributes_evaluates_the_right_lists(d: int, shape: str) -> None:
    world = space.make_world(d, shape, space.Size(n=500, m=40, events=1))
    x, y, regions = space.columns(world.x), space.columns(world.y[:, None]), space.columns(world.params)
    objects = space.make_painter(d, shape, world).objects
    best_y, best = np.empty(space.K), np.empty(space.K, np.int64)
    code = SHAPES.index(shape)
    for i, params in enumerate(world.params):
        found = space.evaluate(code, d, x, y, 500, regions, 40, i, world.x, space.K, best_y, best)
        assert best[:found].tolist() == objects.top(shape, params, space.K).tolist()


def test_http_run_applies_everything_that_it_sends(report: Report) -> None:
    size = service.Size(n=200, m=3_000, rounds=1, batches=2, singles=64)
    service.Bench(report, size).show(frozenset({"register", "http"}))
    page = report.page()
    for row in ("| 3,000 |", "| service |", "| service, with the tiles |", "| one row, plain FastAPI |"):
        assert row in page


def test_streams_run_finds_no_error_and_every_change() -> None:
    found = streams.measure(streams.Load(20, 4, follow=5, seconds=3, batch=5, spread=True))
    assert found["first_errors"] == []
    assert found["changes"] == {"SSE": 60, "WebSocket": 60}
    assert found["nbytes"] > 120 * 100
    assert 0 < found["pause_ms"] < 3_000
    assert 0 < found["commit_ms"] < 60_000


def test_a_change_is_judged_beside_a_plain_request(report: Report) -> None:
    loads = {name: streams.Load(5, 1, follow=5, seconds=1, batch=5) for name in change_costs.WANTED}
    change_costs.compare(report, loads, rounds=1, plain=32)
    found = [line.strip("| ").split(" | ") for line in report.page().splitlines()]
    rows = [row for row in found if row[0] in loads]
    assert [row[0] for row in rows] == list(loads)
    assert all(float(row[2]) > 0 and float(row[3]) > 0 and row[-1] == "0" for row in rows)
    assert [wanted.split(":")[0] for wanted, *_ in report.verdicts] == list(loads)


def test_a_change_costs_a_share_of_a_request() -> None:
    assert change_costs.Cost(us=6.0, plain=120.0, nbytes=200.0, generator=1.0, errors=0).share == 0.05


def test_no_more_streams_are_opened_than_a_process_may_have_files(monkeypatch: pytest.MonkeyPatch) -> None:
    load = streams.Load(10_000, 100, batch=200)
    for hard, sse in ((resource.RLIM_INFINITY, 10_000), (20_000, 10_000), (4_096, 2_800), (1_000, 0)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, hard=hard: (1_024, hard))
        found = streams.within_files(load)
        assert (found.sse, found.sockets, found.lists % found.batch) == (sse, 100, 0)


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


@pytest.mark.parametrize("kind", ["table", "figure"])
def test_command_refuses_a_table_or_figure_that_there_is_not(kind: str) -> None:
    cli = typer.Typer()
    bench.register(cli)
    cli.command("other")(lambda: None)
    result = CliRunner().invoke(cli, ["bench", "boards", f"--{kind}", "99"])
    assert result.exit_code == 2
    assert f"there is no {kind} 99" in result.output
