import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import app.cli
from app.cli import reporting_failures
from app.cli.main import COMMANDS, LazyGroup, cli
from app.settings import Settings
from app.storage import open_stores
from app.version import version
from rankcast_client import ProblemError
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.unit.cli.helpers import _logs_as_before, run  # noqa: F401


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    """It is written without loading them."""
    listed = run("--help").output
    group = typer.main.get_command(cli)
    assert isinstance(group, LazyGroup)
    with group.make_context("rankcast", [], resilient_parsing=True) as ctx:
        for name, lazy in COMMANDS.items():
            found = group.get_command(ctx, name)
            assert found.name == name
            help = " ".join((found.help or "").split())
            assert help == lazy.help or help.startswith(f"{lazy.help} "), name
            assert re.search(rf"\b{name} +{re.escape(lazy.help)}", listed), name


def every_command() -> Iterator[list[str]]:
    """The words of each command, those of groups too."""
    left: list[tuple[Any, list[str]]] = [(typer.main.get_command(cli), [])]
    while left:
        group, words = left.pop()
        yield words
        if hasattr(group, "list_commands"):
            with group.make_context("rankcast", [], resilient_parsing=True) as ctx:
                left += [(group.get_command(ctx, name), [*words, name]) for name in group.list_commands(ctx)]


def test_every_command_says_what_it_takes() -> None:
    asked = list(every_command())
    assert ["keys", "create"] in asked
    for words in asked:
        assert "Usage: " in run(*words, "--help").output, words


def test_no_module_of_commands_is_forgotten() -> None:
    modules = {
        path.stem for path in Path(app.cli.__file__).parent.glob("*.py") if "\ndef register(" in path.read_text()
    }
    assert modules == {lazy.module for lazy in COMMANDS.values()}


def test_the_list_of_commands_loads_none_of_them() -> None:
    names = "pydantic", "httpx", "numpy", "app.settings", *(f"app.cli.{lazy.module}" for lazy in COMMANDS.values())
    code = f"""
import sys
from typer.testing import CliRunner
from app.cli.main import cli
for arguments in (["--help"], ["--version"]):
    assert CliRunner().invoke(cli, arguments).exit_code == 0
assert not [name for name in {names!r} if name in sys.modules], sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_nearly_one_is_understood() -> None:
    done = run("relays")
    assert done.exit_code == 2
    assert "No such command 'relays'. Did you mean 'relay'" in done.stderr
    assert "Did you mean" not in run("xyzzy").stderr


@pytest.mark.parametrize(("given", "reason"), [("0", "must be at least 1"), ("x", "must be an integer")])
def test_a_bad_argument_is_refused_in_the_words_of_the_api(given: str, reason: str) -> None:
    refused = run("top", "b", "-k", given)
    assert refused.exit_code == 2
    assert reason in refused.output and "Input should" not in refused.output


def test_the_version_is_said() -> None:
    assert run("--version").stdout == f"rankcast {version()}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("rankcast re", {"relay", "rebuild", "replicas", "restore"}), ("rankcast keys ", {"create", "list", "delete"})],
)
def test_a_shell_completes_commands(typed: str, meant: set[str]) -> None:
    at = str(len(typed.split(" ")) - 1)
    done = run(_RANKCAST_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=at)
    assert set(done.stdout.split()) == meant


def test_completion_can_be_shown_for_a_shell() -> None:
    assert "_RANKCAST_COMPLETE=complete_bash" in run("--show-completion", "bash").stdout


def test_every_setting_is_in_the_help() -> None:
    text = run("serve", "--help").output
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in text
        assert f"RANKCAST_{name.upper()}" in text


@pytest.mark.parametrize("command", [(), ("load",), ("board",), ("board", "list")])
def test_flags_have_no_type_in_the_help(command: tuple[str, ...]) -> None:
    text = run(*command, "--help").output
    assert "Show this message and exit." in text and "<bool>" not in text


def test_a_url_without_a_protocol_is_refused() -> None:
    done = run("top", "delays", "--url", "http://127.0.0.1:9,localhost:8000")
    assert done.exit_code == 2
    assert "--url: 'localhost:8000' does not begin with http:// or https://" in done.stderr


def test_a_refusal_for_lack_of_a_key_names_where_commands_take_one_from(capsys: pytest.CaptureFixture[str]) -> None:
    for status, said in ((401, "; commands take a key from --key or RANKCAST_KEY\n"), (403, ": why\n")):
        with pytest.raises(typer.Exit), reporting_failures():
            raise ProblemError(status, "/problems/x", "No", "why")
        assert capsys.readouterr().err.endswith(said)


@pytest.mark.parametrize("command", [("list",), ("delete", "k1")])
def test_listing_or_deleting_keys_makes_no_data_directory(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run("keys", *command, "--data", str(tmp_path / "none"))
    assert done.exit_code == 1
    assert f"there is no data directory at {tmp_path / 'none'}" in done.stderr
    assert not (tmp_path / "none").exists()


def test_an_empty_list_of_keys_says_so_on_a_terminal_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("keys", "list", "--data", str(tmp_path))
    assert run(*arguments).output == ""
    monkeypatch.setattr("app.cli.for_pipe", lambda: False)
    done = run(*arguments)
    assert (done.stdout, done.stderr) == ("", "There is no key. One is made by: rankcast keys create\n")


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
    done = run("serve", "--host", "0.0.0.0", "--port", "0", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert "refusing to listen on 0.0.0.0 without keys" in done.stderr
    open_stores(tmp_path).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_is_taken_is_said_before_anything_is_made(
    tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "app.main", None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--host", host, "--port", str(port), "--data", str(tmp_path / "data"))
    assert done.exit_code == 1
    found = re.fullmatch(
        rf"rankcast: {host}:{port} is taken: another program listens there\. Another port: --port (\d+)\n", done.stderr
    )
    assert found and int(found[1]) > port
    assert not (tmp_path / "data").exists()


def test_a_service_that_does_not_start_leaves_its_port(tmp_path: Path) -> None:
    stores = open_stores(tmp_path)
    port = free_port()
    assert run("serve", "--port", str(port), "--data", str(tmp_path)).exit_code == 1
    stores.close()
    socket.create_server(("127.0.0.1", port)).close()


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


def test_keys_are_those_of_the_service_that_the_environment_names(tmp_path: Path) -> None:
    service = "http://127.0.0.1:9"
    for command in (["create", "--name", "a", "--scope", "admin"], ["list"], ["delete", "a"]):
        done = run("keys", *command, RANKCAST_URL=service, RANKCAST_DATA=str(tmp_path))
        assert done.exit_code == 1
        assert f"{service} does not answer" in done.stderr


def test_a_data_directory_that_is_typed_goes_before_the_environment(tmp_path: Path) -> None:
    done = run("keys", "list", "--data", str(tmp_path), RANKCAST_URL="http://127.0.0.1:9")
    assert (done.exit_code, done.output) == (0, "")
    for option, value in (("--data", str(tmp_path)), ("--database", "sqlite:///x")):
        done = run("keys", "list", option, value, "--url", "http://127.0.0.1:9")
        assert done.exit_code == 2
        assert "give --url or the data directory, not both" in done.stderr


def test_every_command_that_asks_a_service_finds_it_in_the_environment() -> None:
    def options(command: Any) -> Iterator[Any]:
        for one in getattr(command, "commands", {}).values():
            yield from options(one)
        yield from command.params

    group = typer.main.get_command(cli)
    assert isinstance(group, LazyGroup)
    with group.make_context("rankcast", [], resilient_parsing=True) as ctx:
        found = [one for name in COMMANDS for one in options(group.get_command(ctx, name))]
    for option, variable in (("--url", "RANKCAST_URL"), ("--key", "RANKCAST_KEY")):
        named = [one for one in found if option in one.opts]
        assert len(named) > 20
        assert all(one.envvar == variable for one in named)
