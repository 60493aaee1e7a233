"""Finding and installing the browser of the console's tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tools import chromium
from tools.java import Machine


def machine(system: str, root: bool, *commands: str, works: bool = True) -> tuple[Machine, list[Sequence[str]]]:
    """A machine with these commands, and what it is told to run."""
    ran: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> bool:
        ran.append(command)
        return works

    return Machine(system, root, lambda command: command in commands, run), ran


def test_the_environment_names_the_browser_before_all_others() -> None:
    there = {"chromium": "/usr/bin/chromium", "/opt/chrome": "/opt/chrome"}
    assert chromium.find({chromium.VARIABLE: "/opt/chrome"}, there.get) == "/opt/chrome"
    assert chromium.find({chromium.VARIABLE: "/opt/none"}, there.get) is None
    assert chromium.find({}, there.get) == "/usr/bin/chromium"
    assert chromium.find({}, {"google-chrome": "/bin/chrome"}.get) == "/bin/chrome"
    assert chromium.find({}, lambda command: None, lambda path: path == chromium.MAC[1]) == chromium.MAC[1]
    assert chromium.find({}, lambda command: None, lambda path: False) is None


def test_it_is_installed_as_root_or_where_sudo_asks_for_no_password() -> None:
    debian, ran = machine("linux", True, "apt-get")
    assert chromium.install(debian) and ran[-1][-1] == "chromium" and ran[-1][0] == "env"
    user, ran = machine("linux", False, "apt-get", "sudo")
    assert chromium.install(user) and all(command[:2] == ["sudo", "-n"] for command in ran)
    asks, ran = machine("linux", False, "apt-get", "sudo", works=False)
    assert not chromium.install(asks) and len(ran) == 1
    assert not chromium.install(machine("linux", False, "apt-get")[0])
    assert not chromium.install(machine("linux", True, "dnf")[0])
    assert chromium.install(machine("darwin", False, "brew")[0])


@pytest.mark.parametrize(
    ("system", "command", "says"),
    [
        ("darwin", "brew", "brew install"),
        ("linux", "apt-get", "apt-get install"),
        ("linux", "dnf", "dnf install"),
        ("linux", "pacman", "pacman -S"),
        ("linux", "apk", "apk add"),
        ("linux", "none", chromium.VARIABLE),
    ],
)
def test_where_it_cannot_be_installed_it_says_how(
    system: str, command: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chromium.main(["--quiet"], machine(system, False, command, works=False)[0], lambda: None) == 1
    assert says in capsys.readouterr().out


def test_it_says_nothing_where_there_is_one_and_it_shall_be_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert chromium.main(["--quiet"], machine("linux", True)[0], lambda: "/usr/bin/chromium") == 0
    assert capsys.readouterr().out == ""
    assert chromium.main([], machine("linux", True)[0], lambda: "/usr/bin/chromium") == 0
    assert "/usr/bin/chromium" in capsys.readouterr().out
