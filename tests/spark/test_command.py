"""The commands of the jobs up to the point where Spark would start."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.state import state_of
from spark_jobs.audit.boards import audit
from spark_jobs.common import command, session
from spark_jobs.common.java import NoJava
from spark_jobs.common.progress import Progress
from spark_jobs.rebuild.boards import build
from tests.spark import boards
from tests.spark.snapshots import make
from tests.support.patience import PATIENCE
from tests.unit.boards.helpers import captured

Run = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """`run(*arguments, job=audit)`: the exit code and the lines on stdout."""
    handler = signal.getsignal(signal.SIGTERM)

    def start(*arguments: str, job: command.Job = audit) -> tuple[int, list[dict[str, Any]]]:
        out = io.StringIO()
        monkeypatch.setattr(command, "own_stdout", lambda: out)
        with pytest.raises(SystemExit) as end:
            command.main("audit", "about", job, arguments)
        assert isinstance(end.value.code, int)
        return end.value.code, [json.loads(line) for line in out.getvalue().splitlines()]

    yield start
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def world(tmp_path: Path) -> tuple[str, ...]:
    """The arguments for a board that is as it should be."""
    make().write(tmp_path)
    return ("--storage", str(tmp_path), "--lsn", "12", "--resource", "boards/delays")


def last(answer: tuple[int, list[dict[str, Any]]]) -> str:
    """The error of a run that failed: one sentence on the last line."""
    code, lines = answer
    assert code == 1 and list(lines[-1]) == ["error"]
    assert "\n" not in lines[-1]["error"]
    return str(lines[-1]["error"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--resource", "delays"], "boards/NAME"),
        (["--resource", "boards/.."], "boards/NAME"),
        (["--resource", "boards/a/b"], "boards/NAME"),
        (["--lsn", "-1"], "negative"),
        (["--lsn", "x"], "invalid int value"),
        (["--nice", "20"], "from 0 to 19"),
        (["--conf", "spark.x"], "KEY=VALUE"),
        (["--conf", "x=1"], "KEY=VALUE"),
        (["--temp", "/none/such"], "no folder"),
        (["--storage", "nowhere://x"], "cannot be used as storage"),
        (["--colour", "red"], "unrecognized arguments"),
    ],
)
def test_misuse_fails_with_a_sentence(run: Run, world: tuple[str, ...], changed: list[str], message: str) -> None:
    assert message in last(run(*world, *changed))


def build_some(order: command.Order, progress: Progress) -> tuple[dict[str, Any], int]:
    return build(replace(order, numbers={"cell": 1_000}), progress)


@pytest.mark.parametrize("job", [audit, build_some])
def test_boards_that_are_not_packed_are_refused(run: Run, tmp_path: Path, job: command.Job) -> None:
    several = BoardEngine(BoardConfig(("x", "y"), "rent"))
    filtered = BoardEngine(BoardConfig(("x",), "rent", index="kd-tree", indexed=("to",)))
    boards.snapshot(
        tmp_path, {name: state_of(captured(board)) for name, board in (("flats", several), ("homes", filtered))}
    )
    for name, what in (("flats", "several range attributes"), ("homes", "indexed fields")):
        arguments = "--storage", str(tmp_path), "--lsn", "12", "--resource", f"boards/{name}"
        assert f"boards/{name} has {what}" in last(run(*arguments, job=job))


def test_what_is_missing_is_named(run: Run, world: tuple[str, ...], tmp_path: Path) -> None:
    assert "there is no snapshot in" in last(run(*world, "--lsn", "13"))
    assert "has no boards/other/objects.parquet" in last(run(*world, "--resource", "boards/other"))
    (tmp_path / "audits/12/manifest.json").unlink()
    assert "there is no audit in" in last(run(*world))


@pytest.mark.parametrize(
    "name",
    [
        "snapshots/12/boards/delays/objects.parquet",
        "snapshots/12/boards/delays/subscriptions.parquet",
        "audits/12/boards/delays/lists.parquet",
    ],
)
def test_a_damaged_file_is_named(run: Run, world: tuple[str, ...], tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    assert f"{name} is damaged: its SHA-256 differs" in last(run(*world))
    path.write_bytes(whole[:-1])
    assert f"{name} has {len(whole) - 1} bytes in place of {len(whole)}" in last(run(*world))
    path.unlink()
    assert f"{name} is missing" in last(run(*world))


@pytest.mark.parametrize("name", ["snapshots/12/manifest.json", "audits/12/manifest.json"])
def test_a_damaged_manifest_is_named(run: Run, world: tuple[str, ...], tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(path.read_text().replace("delays", "delaxs", 1))
    assert f"{name} is damaged" in last(run(*world))


def test_a_folder_of_another_lsn_is_refused(run: Run, world: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "snapshots/12").rename(tmp_path / "snapshots/14")
    assert "holds the snapshot 12, not the snapshot 14" in last(run(*world, "--lsn", "14"))


def test_without_java_it_says_what_to_do(run: Run, world: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise NoJava("Spark needs Java 17 or newer: no Java was found; `make setup` installs one or says how")

    monkeypatch.setattr(session, "find", none)
    error = last(run(*world))
    assert error.startswith("Spark needs Java 17 or newer") and "make setup" in error


def test_without_pyspark_it_says_what_to_do(
    run: Run, world: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "_environment", lambda *_: None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "Spark needs the package pyspark" in last(run(*world, "--temp", str(tmp_path)))
    assert not list(tmp_path.glob("rankcast-*"))


def test_a_job_ends_with_its_result_and_its_code(run: Run, world: tuple[str, ...]) -> None:
    def job(order: command.Order, progress: Progress) -> tuple[dict[str, Any], int]:
        progress.step(0.5, "half")
        progress.step(0.4, "half")  # never back
        progress.step(0.4, "more")
        return {"rows": order.lsn}, 2

    said = [{"progress": 0.5, "step": "half"}, {"progress": 0.5, "step": "more"}, {"rows": 12}]
    assert run(*world, job=job) == (2, said)


def test_an_unforeseen_failure_is_a_sentence_too(run: Run, world: tuple[str, ...]) -> None:
    def job(order: command.Order, progress: Progress) -> tuple[dict[str, Any], int]:
        raise ZeroDivisionError("so it is")

    assert last(run(*world, job=job)) == "ZeroDivisionError: so it is"


def test_paths_are_for_spark_what_they_are_for_us(tmp_path: Path) -> None:
    options = session.Options()
    local = command.Order(f"file://{tmp_path}/a%20b", 3, "boards/x", options)
    assert local.spark_path(local.folder("audits"), "n") == f"file://{tmp_path}/a b/audits/3/n"
    local = command.Order(f"{tmp_path}/a [b]", 3, "boards/x", options)
    assert local.spark_path(local.folder("audits") / "y", "n") == f"file://{tmp_path}/a [b]/audits/3/y/n"
    cloud = command.Order("s3://bucket/some/root/?region=eu-west-1", 3, "boards/x", options)
    assert cloud.spark_path(cloud.folder("audits"), "n") == "s3a://bucket/some/root/audits/3/n"


def test_help_shows_examples() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.audit.boards", "--help"], capture_output=True, text=True, check=True
    )
    assert "examples:" in done.stdout and "--lsn 1200" in done.stdout


def test_stdout_is_for_json_alone() -> None:
    """What the process and its children print goes to stderr."""
    script = (
        "import os, sys\n"
        "from spark_jobs.common.command import main\n"
        "def job(order, progress):\n"
        "    print('noise')\n"
        "    os.system('echo more noise')\n"
        "    return {'rows': 1}, 0\n"
        "main('x', '', job, ['--storage', '.', '--lsn', '1', '--resource', 'boards/x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == '{"rows": 1}\n'
    assert "noise" in done.stderr and "more noise" in done.stderr


WAITING = (
    "import sys, time\n"
    "from spark_jobs.common.command import main\n"
    "def job(order, progress):\n"
    "    try:\n"
    "        progress.step(0.1, 'waiting')\n"
    "        time.sleep(600)\n"
    "    finally:\n"
    "        progress.step(0.2, 'tidying up')\n"
    "main('x', '', job, ['--storage', '.', '--lsn', '1', '--resource', 'boards/x', *sys.argv[1:]])\n"
)


def test_a_job_ends_with_whoever_holds_its_standard_input() -> None:
    """As the service does that began it, which may be killed."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, "--until-stdin-ends"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        process.stdin.close()
        assert "tidying up" in process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM


def test_sigterm_ends_a_job_that_waits() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGTERM)
        assert "tidying up" in process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM


def test_sigterm_in_a_finalizer_ends_a_job_too() -> None:
    """As in those of py4j, where an exception is dropped."""
    script = (
        "import os, signal, time\n"
        "from spark_jobs.common.command import main\n"
        "class Held:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(0)\n"
        "def job(order, progress):\n"
        "    Held()\n"
        "    time.sleep(600)\n"
        "main('x', '', job, ['--storage', '.', '--lsn', '1', '--resource', 'boards/x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "")
