"""Two checkouts in alternation: both answer the same cases, and what is slower is judged by two numbers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench.commits import cases, requests, run
from bench.commits.run import Case
from bench.process import CHECKOUT, OURS, Checkout, Failed, Worker, cpu_seconds


@pytest.mark.parametrize(
    ("base", "ours", "slower"),
    [
        ([10.0, 10.0, 10.0], [10.2, 10.2, 10.2], False),
        ([10.0, 10.0, 10.0], [10.5, 10.5, 10.5], True),
        ([10.0, 10.0, 10.0], [15.0, 15.0, 10.0], False),  # the least is as fast: the machine was busy
        ([10.0, 20.0, 20.0], [11.0, 20.0, 20.0], False),  # only the least differs
        ([10.0, 30.0, 10.0], [9.0, 27.0, 9.0], False),
    ],
)
def test_a_case_is_slower_if_both_the_median_of_ratios_and_the_least_say_so(
    base: list[float], ours: list[float], slower: bool
) -> None:
    assert Case("one", base, ours).slower == slower


def test_a_checkout_is_run_by_the_interpreter_of_its_own_environment(tmp_path: Path) -> None:
    assert Checkout.at(tmp_path).python == sys.executable
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert Checkout.at(tmp_path).python == str(python)
    assert Checkout.at(tmp_path).environment()["PYTHONPATH"] == str(tmp_path)


def test_a_worker_that_ends_fails_the_run() -> None:
    worker = Worker([sys.executable, "-c", "print(1)"], OURS.environment())
    assert worker.read() == 1
    with pytest.raises(Failed, match="ended with status 0"):
        worker.read()


def test_what_a_checkout_does_not_have_is_left_out_and_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A base that has the indexes of boards alone."""
    for name in ("indexes", "app"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    (tmp_path / "bench" / "boards").mkdir(parents=True)
    for file in [*(CHECKOUT / "bench").glob("*.py"), *(CHECKOUT / "bench" / "boards").glob("*.py")]:
        (tmp_path / file.relative_to(CHECKOUT)).symlink_to(file)
    worker = Worker(
        [sys.executable, "-P", cases.__file__, "boards", "matchers"], Checkout(tmp_path).environment(), tmp_path
    )
    try:
        assert {name.split(":")[0] for name in worker.read()} == {"boards"}
    finally:
        worker.end()
    assert "matchers: ModuleNotFoundError" in capfd.readouterr().err


def test_processor_time_is_that_of_the_process() -> None:
    before, spent = cpu_seconds(os.getpid()), 0
    while cpu_seconds(os.getpid()) - before < 0.01:
        spent += 1
    assert spent > 0


def test_a_checkout_compared_with_itself_has_a_row_for_each_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "QUICK", requests.QUICK._replace(rounds=1))
    page = tmp_path / "compare.md"
    run.run(CHECKOUT, quick=True, out=page, say=lambda _: None)
    text = page.read_text()
    for resource in ("boards", "matchers", "relays", "maps", "feeds"):
        rows = [line for line in text.splitlines() if line.startswith(f"| {resource}: ")]
        assert len(rows) >= 2
        assert any(line.endswith("|  |") for line in rows) and any(not line.endswith("|  |") for line in rows)
    assert "Not at the base" not in text and "Base: commit " in text
