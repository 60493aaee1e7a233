"""What a fresh clone takes: what processes cost, fresh clones, and the page, with small commands in place of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.process import Failed
from bench.report import Report
from bench.start import clone as clones
from bench.start.clone import Clone, EntryPoint, disk, entry_points, files
from bench.start.cost import Cost, run, running, tree_cpu
from bench.start.prototype import compile_all, specialisations
from bench.start.run import Measured, Prototype, show
from tests.support.patience import PATIENCE, wait_until

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN.format(seconds=0.4)!r}])"

SPENT = BURN.format(seconds=0.4) + "print('spent', flush=True)\ntime.sleep(1e6)"

# Says a line once its child has used its time; the child stays.
DEMO = f"""
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-uc", {SPENT!r}],
    stdout=subprocess.PIPE, text=True,
)
child.stdout.readline()
print("pid", child.pid, "first list after 12.5 s", flush=True)
child.wait()
"""


def test_a_command_costs_what_its_children_cost(tmp_path: Path) -> None:
    cost = run([sys.executable, "-c", PARENT], tmp_path, os.environ, tmp_path / "log", PATIENCE)
    assert cost.cpu > 0.3 and cost.wall > 0.3


def test_input_is_given_and_output_kept(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read().upper())"
    run([sys.executable, "-c", code], tmp_path, os.environ, tmp_path / "log", PATIENCE, "text")
    assert (tmp_path / "log").read_text() == "TEXT\n"


def test_a_command_that_fails_or_is_late_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"(?s)status 3.*no such thing"):
        run(["sh", "-c", "echo no such thing; exit 3"], tmp_path, os.environ, tmp_path / "log", PATIENCE)
    with pytest.raises(Failed, match="in time"):
        run(["sleep", "1000000"], tmp_path, os.environ, tmp_path / "log", 0.1)


def test_a_line_is_waited_for_and_the_whole_tree_counts_and_ends(tmp_path: Path) -> None:
    with running([sys.executable, "-c", DEMO], tmp_path, os.environ, tmp_path / "log") as demo:
        found, cost = demo.until(r"pid (\d+) first list after ([\d.]+) s", PATIENCE)
        child = int(found[1])
        assert found[2] == "12.5" and cost.cpu > 0.3
        assert tree_cpu(demo.process.pid) >= cost.cpu
    wait_until(lambda: not _runs(child))
    assert demo.process.returncode is not None


def test_a_process_that_ends_before_its_line_fails(tmp_path: Path) -> None:
    with (
        running(["sh", "-c", "echo port is taken; exit 1"], tmp_path, os.environ, tmp_path / "log") as demo,
        pytest.raises(Failed, match=r"(?s)status 1.*port is taken"),
    ):
        demo.until("first list", PATIENCE)


def test_a_line_that_does_not_come_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with (
        running(["sleep", "1000000"], tmp_path, os.environ, tmp_path / "log") as demo,
        pytest.raises(Failed, match="was not said"),
    ):
        demo.until("first list", 0.1)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two commits: one that compiles before it serves, and one with the target `install`."""
    root = tmp_path / "checkout"
    root.mkdir()
    monkeypatch.setattr(clones, "CHECKOUT", root)
    makefile = root / "Makefile"
    git(root, "init", "--quiet")
    makefile.write_text(".venv/.installed:\n\tmkdir -p .venv && echo all > $@\n")
    commit(root, "old")
    makefile.write_text('install:\n\t@mkdir -p .venv && echo "$(INSTALLER) $$UV_CACHE_DIR" > .venv/said\n')
    commit(root, "new")
    return root


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True)


def commit(root: Path, tag: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", tag)
    git(root, "tag", tag)


def test_a_clone_is_installed_as_its_commit_does_it(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    old = Clone("old", tmp_path / "a")
    assert old.compiles_first
    assert old.install("pip").wall > 0
    assert (old.venv / ".installed").read_text() == "all\n"

    (tmp_path / "b").mkdir()
    new = Clone("HEAD", tmp_path / "b")
    assert not new.compiles_first
    new.install("uv")
    assert (new.venv / "said").read_text() == f"uv {tmp_path / 'b' / 'uv'}\n"


def test_a_clone_sees_the_users_mirror_and_none_of_our_settings(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_INDEX_URL", "https_proxy", "PIP_CACHE_DIR", "PYTHONPATH", "RANKCAST_PORT", "NUMBA_CPU_NAME"):
        monkeypatch.setenv(name, "given")
    environment = Clone("new", tmp_path).environment("all")
    assert environment["PIP_INDEX_URL"] == environment["https_proxy"] == "given"
    assert environment["PIP_CACHE_DIR"] == str(tmp_path / "pip")
    assert environment["RANKCAST_CACHE"] == str(tmp_path / "kernels-all")
    assert not {"PYTHONPATH", "RANKCAST_PORT", "NUMBA_CPU_NAME"} & environment.keys()


def test_a_commit_that_is_not_there_is_named(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(Failed, match="no-such-commit could not be cloned"):
        Clone("no-such-commit", tmp_path)


def test_entry_points_come_the_dearest_first(tmp_path: Path) -> None:
    report = tmp_path / "report"
    assert entry_points(report) == []
    lines = [{"kernel": "a", "cpu": 1.5, "specialisations": 2}, {"kernel": "b", "cpu": 7, "specialisations": 1}]
    report.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert entry_points(report) == [EntryPoint("b", 1, 7.0), EntryPoint("a", 2, 1.5)]


def test_folders_are_measured_with_all_below_them(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one.nbc").write_bytes(bytes(100_000))
    (tmp_path / "one.nbi").write_bytes(b"1")
    assert files(tmp_path, ".nbc") == 1
    assert disk(tmp_path) >= 100_000


def measured(name: str, factor: float, points: list[EntryPoint]) -> Measured:
    install = {"uv": Cost(8, 4), "pip": Cost(26 * factor, 13)}
    starts = [Cost(1.5 * factor + 0.1 * number, 1.4) for number in range(5)]
    return Measured(
        name,
        install,
        int(540e6 * factor),
        Cost(20 * factor, 40 * factor),
        Cost(60, 110),
        Cost(80 * factor, 150 * factor),
        9_000_000,
        321,
        points,
        starts,
    )


def test_the_page_judges_what_is_now_and_shows_both() -> None:
    report = Report(lambda _: None)
    now, before = measured("abc", 1, [EntryPoint("board.paint", 3, 9.5)]), measured("def", 10, [])
    show(report, [("now", now), ("before", before)], Prototype(61, (Cost(45, 44.0), Cost(45, 46.0))))
    assert [(measured, met) for _, measured, met in report.verdicts] == [
        ("46.0 s", True),
        ("540 MB", True),
        ("40.0 s against 45.0 s, 0.89 times", True),
        ("150.0 s against 45.0 s, 3.33 times", True),
        ("`board.paint` 9.5 s", True),
        ("1.70 s", True),
    ]
    page = report.page()
    assert "| now (abc) | pip | 26.0 | 13.0 | 20.0 | 40.0 | 46.0 | 53.0 | 540 |" in page
    assert "| before (def) | 800.0 | 1500.0 | 60.0 | 110.0 | 321 | 9.0 |" in page
    assert "| `board.paint` | 3 | 9.5 |" in page


def test_what_is_missed_is_said_and_what_is_unknown_is_not_judged() -> None:
    report = Report(lambda _: None)
    show(report, [("now", measured("abc", 10, []))], None)
    assert [met for _, _, met in report.verdicts] == [False, False, False]
    assert "The prototype is not there" in report.page()


def test_the_prototype_is_called_as_its_tests_call_it() -> None:
    calls = []

    class Stand:
        """Notes what is called."""

        def __getattr__(self, name: str) -> object:
            return lambda *arguments: calls.append(name)

    compile_all(Stand())  # type: ignore[arg-type]
    assert {"paint_dense", "paint_sparse_hybrid", "unicast", "snap", "count"} <= set(calls)
    assert specialisations(time) == 0


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
