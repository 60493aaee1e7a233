"""Single writes to all resources beside a plain route: what is sent, measured and judged. How fast is not asked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench.process import Failed
from bench.report import Report
from bench.service import run
from bench.service.writes import RESOURCES, Size, Write

TINY = Size(1, 40, 5, 40, 50, 100, 50, 60, 60, 10, 40, 30, 2)


def rounds(seconds: float, p99: float = 1.0) -> list[dict[str, Any]]:
    """A round of a thousand requests that took so long."""
    return [{"requests": 1_000, "elapsed": seconds, "server_cpu": seconds, "ms": {"p50": 0.5, "p99": p99}}]


def test_a_run_sends_every_kind_of_write_and_all_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)
    page = run.run(quick=True, say=lambda _: None).page()
    (named,) = re.findall(r"A notification names (\d+) of the relay's (\d+) subscriptions on average\.", page)
    assert 0 < int(named[0]) < int(named[1])
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 9 * 5 + 2 + 2
    assert len({row.split("|")[1] for row in rows if " one socket" in row}) == 9


@pytest.mark.parametrize(
    ("service", "plain", "p99", "wanted"),
    [
        ((0.5, 1.0, 0.2), (1.0, 1.0), 1.0, [True, True, True]),
        ((0.6, 1.1, 0.3), (1.0, 1.0), 1.0, [False, False, False]),
        ((0.4, 0.9, 0.1), (1.0, 1.0), 1.5, [False, True, True]),
    ],
)
def test_each_target_is_judged_by_its_own_ratio(
    service: tuple[float, float, float], plain: tuple[float, float], p99: float, wanted: list[bool]
) -> None:
    report = Report(lambda _: None)
    found = dict(zip(run.WAYS, map(rounds, service), strict=True))
    found["many"] = rounds(service[0], p99)
    found["plain many"], found["plain one"] = map(rounds, plain)
    run.judge(report, "a write", found)
    assert [met for _, _, met in report.verdicts] == wanted


def test_a_refusal_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def boards(server: Any, size: Size) -> list[Write]:
        write, *_ = RESOURCES[0](server, size)
        return [write._replace(requests=(("PUT", path, "[]") for _, path, _ in write.requests))]

    monkeypatch.setattr(run, "RESOURCES", (boards,))
    monkeypatch.setattr(run, "QUICK", TINY)
    with pytest.raises(Failed, match=r"boards: `PUT` of an object, with its tiles: many is answered \{'422': 40\}"):
        run.run(quick=True, say=lambda _: None)
