import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner, Result

from app.cli import cli
from app.settings import Settings
from app.storage import open_stores


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers = root.handlers[:]
    yield
    root.handlers[:] = handlers
    structlog.reset_defaults()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env={"COLUMNS": "250", "TERM": "dumb"})


def test_every_setting_is_in_the_help() -> None:
    text = run("serve", "--help").output
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in text
        assert f"RANKCAST_{name.upper()}" in text


def test_the_key_alone_is_on_stdout(tmp_path: Path) -> None:
    done = run("keys", "create", "--name", "ops", "--scope", "admin", "--data", str(tmp_path))
    assert done.exit_code == 0
    assert done.stdout.startswith("rk_")
    assert done.stdout.count("\n") == 1
    listed = run("keys", "list", "--data", str(tmp_path))
    assert "ops\tadmin" in listed.stdout
    assert done.stdout.strip() not in listed.stdout


@pytest.mark.parametrize("scopes", [["boards:read"], ["nonsense"]])
def test_a_first_key_without_admin_is_refused(tmp_path: Path, scopes: list[str]) -> None:
    options = [part for scope in scopes for part in ("--scope", scope)]
    done = run("keys", "create", "--name", "ops", *options, "--data", str(tmp_path))
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("rankcast: ")


def test_a_directory_in_use_is_named(tmp_path: Path) -> None:
    stores = open_stores(tmp_path)
    for command in (["keys", "create", "--name", "a", "--scope", "admin"], ["serve", "--port", "0"]):
        done = run(*command, "--data", str(tmp_path))
        assert done.exit_code == 1
        assert f"{tmp_path} is in use by another process" in done.stderr
    stores.close()


def test_the_last_admin_stays(tmp_path: Path) -> None:
    run("keys", "create", "--name", "ops", "--scope", "admin", "--data", str(tmp_path))
    key_id = run("keys", "list", "--data", str(tmp_path)).stdout.split("\t")[0]
    assert run("keys", "delete", key_id, "--data", str(tmp_path)).exit_code == 1
    assert run("keys", "delete", "nobody", "--data", str(tmp_path)).exit_code == 1


def test_an_open_service_does_not_leave_this_machine(tmp_path: Path) -> None:
    done = run("serve", "--host", "0.0.0.0", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert "refusing to listen on 0.0.0.0 without keys" in done.stderr
    open_stores(tmp_path).close()


def test_a_bad_setting_is_named(tmp_path: Path) -> None:
    done = run("serve", "--max-body", "3", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert "RANKCAST_MAX_BODY: must be at least 1024" in done.stderr


def test_a_nightly_run_that_never_comes_is_named(tmp_path: Path) -> None:
    done = run("serve", "--nightly", "15 3 * *", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert "RANKCAST_NIGHTLY: must have the five fields" in done.stderr


def test_a_service_that_does_not_answer_is_said() -> None:
    done = run("keys", "list", "--url", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "does not answer" in done.stderr
