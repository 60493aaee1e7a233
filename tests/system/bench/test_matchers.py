"""Small runs of each part of the matchers' benchmark: they end, and what is raced answers the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from app.cli import bench
from bench.baselines.unscored import UNSCORED
from bench.matchers import kernels, paper, peers, plan, run, service
from bench.matchers.scored import INDEXES
from bench.matchers.workload import make_world
from bench.peers import question
from bench.process import Failed
from bench.process import service as start_service
from bench.prototypes import MATCHERS
from bench.report import Report
from indexes.matchers.kernels.table import points
from tests.oracles.matchers import top_stabbed
from tests.unit.matchers.worlds import numbers, scored_intervals

PAPER = paper.Size((300,), 60, 60, 20, 5, 2, (1, 20), (1, 2, 4), (0.0, 2.0))


@pytest.fixture(autouse=True)
def few_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "INTERVALS", PAPER.table)


@pytest.fixture
def report() -> Report:
    return Report(lambda _: None)


@pytest.mark.parametrize("name", UNSCORED)
@given(intervals=st.lists(scored_intervals, max_size=20), q=numbers, k=st.integers(1, 6))
def test_an_unscored_index_finds_the_best(
    name: str, intervals: list[tuple[float, float, float]], q: float, k: int
) -> None:
    lo, hi, score = np.array(intervals, float).reshape(-1, 3).T
    index: Any = UNSCORED[name](lo, hi, score)
    rows, count = index.top_many(points(q), k)
    assert rows[0, : count[0]].tolist() == top_stabbed(dict(enumerate(intervals)), q, k)


def test_the_papers_table_and_figures_are_printed_with_ratios_and_drawn(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    paper.Paper(report, PAPER, tmp_path / "page.md").show(paper.TABLES, paper.FIGURES)
    page = report.page()
    assert "| megabytes | intervals | paper | ours | ratio | why it differs |" in page
    assert page.count("| the paper says | paper | ours | ratio | why it differs |") == 5
    assert sorted(file.name for file in (tmp_path / paper.FOLDER).iterdir()) == [
        f"figure-{number:02d}.svg" for number in paper.FIGURES
    ]


def test_kernels_run_without_the_prototype_and_say_so(
    report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(MATCHERS, raising=False)
    kernels.Bench(report, kernels.Size(n=400, points=30, few=10, rounds=2), tmp_path).show()
    page = report.page()
    assert "The prototype is not there" in page
    for row in (*INDEXES, *UNSCORED, kernels.SCAN, "auto", "0%", "30%"):
        assert f"| {row} |" in page
    assert len(report.verdicts) == 7


def test_all_ways_to_match_exactly_answer_the_same_and_their_costs_are_fitted(report: Report) -> None:
    plan.show(report, plan.Size((60, 300), (2,), (1.0, 0.001), 6, 1))
    page = report.page()
    for row in ("| 300 | 2 | 1,000 |", "| blocks: the first look |", "| along one dimension: a row |"):
        assert row in page


def test_peers_that_are_not_there_are_passed_over_with_the_reason(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "POSTGRES", "postgresql://nobody@127.0.0.1:1/nothing")
    for package in ("ncls", "duckdb"):
        monkeypatch.setitem(sys.modules, package, None)
    peers.show(report, peers.Size(n=200, events=10, few=5, rounds=1))
    page = report.page()
    assert "| SOPT-R-tree |" in page
    for reason in ("ncls: needs the package ncls", "DuckDB: needs the package duckdb", "PostgreSQL: no server at"):
        assert reason in page


@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_answers_what_ours_answers(name: str, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", {name: peers.PEERS[name]})
    peers.show(report, peers.Size(n=200, events=20, few=20, rounds=1))
    if "Not there" in report.page():
        pytest.skip(f"a peer is missing: {name}")
    assert f"| {name} |" in report.page()


def test_a_peer_with_a_wrong_answer_fails_the_run(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", {"liar": lambda data, stack: lambda q: [0]})
    with pytest.raises(Failed, match="liar answers"):
        peers.show(report, peers.Size(n=200, events=5, few=5, rounds=1))


def test_the_page_is_written_by_the_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "QUICK", PAPER)
    page = tmp_path / "results" / "page.md"
    run.run(["paper"], (), (6,), quick=True, out=page, say=lambda _: None)
    assert "Written by `rankcast bench matchers --quick`" in page.read_text()
    assert f"({paper.FOLDER}/figure-06.svg)" in page.read_text()


@pytest.mark.parametrize("kind", ["table", "figure"])
def test_command_refuses_a_table_or_figure_that_there_is_not(kind: str) -> None:
    cli = typer.Typer()
    bench.register(cli)
    cli.command("other")(lambda: None)
    result = CliRunner().invoke(cli, ["bench", "matchers", f"--{kind}", "99"])
    assert result.exit_code == 2
    assert f"there is no {kind} 99" in result.output


def test_the_service_answers_every_event_that_is_sent(report: Report) -> None:
    service.show(report, service.Size(n=500, rounds=1, batches=2))
    page = report.page()
    assert "50 answers were compared with a scan" in page
    assert len(report.verdicts) == 1


def test_a_wrong_winner_over_http_is_noticed(tmp_path: Path) -> None:
    world = make_world(200, points=60)
    with start_service(tmp_path) as server:
        service.register(server, world)
        with pytest.raises(Failed, match="not those of a scan"):
            service._compare(server, world._replace(weight=np.roll(world.weight, 1, 0)))
