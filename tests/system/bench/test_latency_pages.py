"""What the pages about pauses and steps say of made-up times."""

from __future__ import annotations

import pytest

from bench.boards import marked, steps
from bench.durability import pauses
from bench.process import Failed
from bench.report import Report


def said(show: object, *found: object, judging: bool = True) -> tuple[str, Report]:
    report = Report(lambda piece: None, judging)
    assert callable(show)
    show(report, *found)
    return "\n".join(report._pieces), report


def test_one_answer_that_is_late_misses_the_target_of_its_job() -> None:
    quiet = [pauses.Span(6.0, [0.002] * 99 + [0.060])]
    spans = {
        "no job": quiet,
        "snapshot": [pauses.Span(1.0, [0.002, 0.049]), pauses.Span(1.0, [0.002, 0.030])],
        "rebuild and swap": [pauses.Span(3.0, [0.002] * 50 + [0.051])],
    }
    text, report = said(pauses.show, spans)
    assert [met for _, _, met in report.verdicts] == [True, False]
    assert "| no job | 6.000 | 100 |" in text and "49.0 ms the longest of 2 rounds, 39.5 ms in the median" in text


def test_steps_and_the_rest_are_the_whole() -> None:
    one = [1e-6 * n for n in range(1, len(marked.STEPS) + 1)]
    text, report = said(steps.show, steps.Found([one] * 20, [500e-6] * 20, [440e-6] * 20, [600e-6] * 20))
    assert f"| the rest: loop, kernel, client | {500 - round(1e6 * sum(one))} |" in text
    assert [met for _, _, met in report.verdicts] == [True, False]
    assert all(measured == "440 us against 600, 0.73 times as long" for _, measured, _ in report.verdicts)
    with pytest.raises(Failed, match="no request went through"):
        said(steps.show, steps.Found([], [1.0], [1.0], [1.0]))


def test_only_requests_that_went_through_all_steps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [*marked.STEPS, marked.LAST]
    marks = [(name, float(at)) for at, name in enumerate([*whole, "received", "taken", *whole])]
    monkeypatch.setattr(marked, "_marks", [("turn", -1.0), *marks])
    assert marked._requests() == [[1.0] * len(marked.STEPS)] * 2
