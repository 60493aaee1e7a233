"""``rankcast kernels`` and ``rankcast warm``, without compiling anything."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from app.cli import kernels as commands
from app.cli.main import cli
from indexes.compiled import cache, targets, warming


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The targets that were compiled for, in place of compiling."""
    made: list[str | None] = []
    monkeypatch.setattr(commands, "_warm", lambda target, report=None: made.append(target))
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, arguments)


def test_kernels_go_from_one_cache_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warmed: list[str | None]
) -> None:
    path = tmp_path / "k.entry-1.kernel"
    path.write_bytes(b"code")
    monkeypatch.setattr(warming, "files", lambda: [path])
    monkeypatch.setattr(cache, "folder", lambda: Path(targets.native()))
    file, other = tmp_path / "kernels.tar", tmp_path / "other"
    done = run("kernels", "export", str(file))
    assert done.exit_code == 0 and warmed == [None]
    assert done.stdout.startswith(f"1 files of kernels for {targets.native()}, ")
    monkeypatch.setenv(cache.VARIABLE, str(other))
    done = run("kernels", "import", str(file))
    assert done.exit_code == 0 and done.stdout == f"1 files of kernels for {targets.native()} imported\n"
    (taken,) = other.rglob("*.kernel")
    assert taken.read_bytes() == b"code" and taken.name == path.name


def test_what_cannot_be_written_is_said_before_anything_is_compiled(tmp_path: Path, warmed: list[str | None]) -> None:
    done = run("kernels", "export", str(tmp_path / "missing" / "kernels.tar"))
    assert done.exit_code == 1 and "there is no folder" in done.stderr
    assert warmed == []


@pytest.mark.parametrize(("data", "reason"), [(b"text", "no archive of kernels"), (None, "cannot be read")])
def test_what_cannot_be_imported_is_refused_with_the_reason(tmp_path: Path, data: bytes | None, reason: str) -> None:
    file = tmp_path / "kernels.tar"
    if data is not None:
        file.write_bytes(data)
    done = run("kernels", "import", str(file))
    assert done.exit_code == 1
    assert str(file) in done.stderr and reason in done.stderr


def test_portable_kernels_are_compiled_in_a_process_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warmed: list[str | None]
) -> None:
    asked: list[str] = []

    def compile_for(command: list[str], **_: Any) -> Any:
        target = command[command.index("--target") + 1]
        asked.append(target)
        Path(command[command.index("--report") + 1]).write_text(json.dumps({"kernel": target}) + "\n")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", compile_for)
    report = tmp_path / "report"
    assert run("warm", "--target", "portable", "--report", str(report)).exit_code == 0
    assert tuple(asked) == targets.portable() and warmed == []
    assert [json.loads(line)["kernel"] for line in report.read_text().splitlines()] == asked
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_target_that_cannot_be_compiled_for_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 3))
    assert run("warm", "--target", "portable").exit_code == 3


def test_without_a_target_the_environment_has_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []

    def stop(*_: Any, **__: Any) -> Any:
        raise typer.Exit(7)

    monkeypatch.setattr(targets, "choose", chosen.append)
    monkeypatch.setattr("app.runtime.kernels.Kernels", stop)
    assert run("warm").exit_code == 7 and chosen == []
    assert run("warm", "--target", "generic").exit_code == 7 and chosen == ["generic"]
