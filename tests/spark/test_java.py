"""Finding and installing Java, with shell scripts in place of runtimes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_jobs.common.java import Java, NoJava, find
from tools import java as tool

VECTOR = "jdk.incubator.vector"


def fake(home: Path, version: str = "17", modules: tuple[str, ...] = ("java.base", VECTOR), status: int = 0) -> Path:
    """A folder as JAVA_HOME names it, with a java that answers as the real ones do; before 9 there were no modules."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    settings = f"Property settings:\n    java.home = {home}\n    java.specification.version = {version}\n"
    listed = "".join(f"{module}@{version}.0.1\n" for module in modules)
    modular = f"cat <<'END'\n{listed}END" if modules else "echo 'Unrecognized option: --list-modules'; exit 1"
    executable.write_text(
        f"#!/bin/sh\ncase $1 in\n--list-modules)\n{modular}\n;;\n*)\ncat >&2 <<'END'\n{settings}END\n;;\nesac\n"
        f"exit {status}\n"
    )
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def test_java_home_comes_before_path_and_path_before_the_usual_folders(tmp_path: Path) -> None:
    first, second, third = (fake(tmp_path / name, v) for name, v in (("a", "21"), ("b", "17"), ("c", "18")))
    usual = [str(tmp_path / "c*")]
    environ = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}
    assert find(environ, usual) == Java(first, 21)
    assert find({"PATH": environ["PATH"]}, usual) == Java(second, 17)
    assert find({}, usual) == Java(third, 18)


def test_the_oldest_that_will_do_is_taken_from_the_usual_folders(tmp_path: Path) -> None:
    for name, version in (("jdk-25", "25"), ("jdk-21", "21"), ("jdk-11", "11"), ("jdk-8", "1.8")):
        fake(tmp_path / name, version)
    assert find({}, [str(tmp_path / "*")]) == Java(tmp_path / "jdk-21", 21)


def test_one_that_will_not_do_is_passed_over(tmp_path: Path) -> None:
    old, bare, good = fake(tmp_path / "old", "11"), fake(tmp_path / "bare", "21", ("java.base",)), tmp_path / "good"
    fake(good)
    assert find({"JAVA_HOME": str(old), "PATH": f"{bare}/bin:{good}/bin"}, [str(good)]) == Java(good, 17)


@pytest.mark.parametrize(
    ("version", "modules", "status", "reason"),
    [
        ("11", ("java.base", VECTOR), 0, "is Java 11"),
        ("1.8", (), 0, "is Java 8"),
        ("17", ("java.base", "jdk.incubator.vectors", f"x.{VECTOR}"), 0, f"lacks the module {VECTOR}"),
        ("17", ("java.base", VECTOR), 1, "does not start"),
        ("none", ("java.base", VECTOR), 0, "is no working Java"),
    ],
)
def test_a_refusal_says_what_was_found_in_one_sentence(
    tmp_path: Path, version: str, modules: tuple[str, ...], status: int, reason: str
) -> None:
    home = fake(tmp_path / "jdk", version, modules, status)
    with pytest.raises(NoJava) as failure:
        find({"JAVA_HOME": str(home), "PATH": ""}, ())
    text = str(failure.value)
    assert f"{home}/bin/java {reason}" in text
    assert "Java 17 or newer" in text and "make setup" in text and "\n" not in text


def test_a_machine_without_java_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match="no Java was found"):
        find({"PATH": str(tmp_path)}, [str(tmp_path / "*")])


def test_a_java_home_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=r"gone/bin/java does not start"):
        find({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}, ())


class Package:
    """A machine whose commands are recorded; those that contain a word of `works` succeed."""

    def __init__(self, system: str, *commands: str, root: bool = False, works: tuple[str, ...] = ()) -> None:
        self.ran: list[str] = []
        self.machine = tool.Machine(system, root, lambda name: name in commands, self.run)
        self.works = works

    def run(self, command: Sequence[str]) -> bool:
        self.ran.append(" ".join(command))
        return any(word in command for word in self.works)


def test_root_on_debian_installs_the_first_package_there_is() -> None:
    package = Package("linux", "apt-get", root=True, works=("update", "openjdk-21-jre-headless"))
    assert tool.install(package.machine)
    update, *installs = package.ran
    assert "apt-get" in update and update.endswith("update")
    assert [one.rsplit(" ", 1)[1] for one in installs] == ["openjdk-17-jre-headless", "openjdk-21-jre-headless"]
    assert not any("sudo" in one for one in package.ran)


def test_passwordless_sudo_is_used_and_never_asks() -> None:
    package = Package("linux", "apt-get", "sudo", works=("true", "update", "openjdk-17-jre-headless"))
    assert tool.install(package.machine)
    assert all(one.startswith("sudo -n ") for one in package.ran)


def test_without_a_right_to_install_nothing_is_run() -> None:
    asked = Package("linux", "apt-get", "sudo")
    assert not tool.install(asked.machine)
    assert asked.ran == ["sudo -n true"]
    for machine in (Package("linux", "apt-get"), Package("linux", "dnf", root=True), Package("darwin")):
        assert not tool.install(machine.machine)
        assert machine.ran == []


def test_homebrew_installs_on_a_mac() -> None:
    package = Package("darwin", "brew", works=("install",))
    assert tool.install(package.machine)
    assert package.ran == ["brew install openjdk@17"]


@pytest.mark.parametrize(
    ("system", "command", "words"),
    [
        ("linux", "apt-get", "apt-get install"),
        ("linux", "dnf", "dnf install"),
        ("linux", "pacman", "pacman -S"),
        ("linux", "apk", "apk add"),
        ("linux", "none", "JAVA_HOME"),
        ("darwin", "none", "brew install"),
    ],
)
def test_the_advice_is_a_command_of_that_machine(system: str, command: str, words: str) -> None:
    assert words in tool.advice(Package(system, command).machine)


def missing() -> Java:
    raise NoJava("Spark needs Java 17 or newer: no Java was found; `make setup` installs one or says how")


def test_a_java_that_is_there_is_reported_once_or_not_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    package = Package("linux", "apt-get", root=True)
    assert tool.main([], package.machine, lambda: Java(Path("/jdk"), 17)) == 0
    assert capsys.readouterr().out == "Spark runs on Java 17 in /jdk\n"
    assert tool.main(["--quiet"], package.machine, lambda: Java(Path("/jdk"), 17)) == 0
    assert capsys.readouterr().out == ""
    assert package.ran == []


def test_what_was_installed_is_found_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    package = Package("linux", "apt-get", root=True, works=("openjdk-17-jre-headless",))
    looks = itertools.count()
    assert (
        tool.main(["--quiet"], package.machine, lambda: missing() if next(looks) == 0 else Java(Path("/jdk"), 17)) == 0
    )
    assert capsys.readouterr().out.endswith("Spark runs on Java 17 in /jdk\n")


def test_where_nothing_helps_the_user_is_told_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    package = Package("linux", "apt-get", root=True)
    assert tool.main([], package.machine, missing) == 1
    said = capsys.readouterr().out
    assert "the service runs without" in said and "no Java was found" in said and "apt-get install" in said
