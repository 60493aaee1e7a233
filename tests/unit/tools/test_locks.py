"""The locks and the targets that install from them."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.tools.locks import LOCKS, PROJECT, ROOT, needed, versions

NEVER_TO_RUN = ("spark", "postgres", "plot", "peers", "connect", "dev")
"""Extras that the service and its demo run without."""


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_one_version_and_hashes(name: str) -> None:
    assert versions(LOCKS[name])


def test_a_package_has_the_same_version_in_all_locks() -> None:
    seen: dict[str, set[str]] = {}
    for lock in LOCKS.values():
        for package, version in versions(lock).items():
            seen.setdefault(package, set()).add(version)
    assert not {package: several for package, several in seen.items() if len(several) > 1}


@pytest.mark.parametrize("larger", ["postgres", "spark", "peers", "connect", "dev"])
def test_what_runs_is_part_of_every_larger_lock(larger: str) -> None:
    assert versions(LOCKS["runtime"]).keys() <= versions(LOCKS[larger]).keys()


def test_the_locks_hold_what_the_project_asks_for() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = {"runtime": [], "postgres": ["postgres"], "spark": ["postgres", "spark"], "peers": ["peers"]}
    asked |= {"connect": ["connect"], "dev": ["dev", "demo", "postgres", "spark", "plot", "connect"]}
    for name, chosen in asked.items():
        pinned = versions(LOCKS[name])
        wanted = [*PROJECT["dependencies"], *(one for extra in chosen for one in extras[extra])]
        for package, requirement in needed(wanted).items():
            assert requirement.specifier.contains(pinned[package]), f"{name}.lock has {package} {pinned[package]}"
    assert versions(LOCKS["demo"]).keys() == needed(extras["demo"]).keys() - {"pandas"}


@pytest.mark.parametrize("name", LOCKS)
def test_a_package_wanted_with_an_extra_is_pinned_with_it(name: str) -> None:
    """Otherwise pip tries the newest version first, and refuses it since the lock has no hash of it."""
    heads = re.finditer(r"^([\w.-]+)(?:\[([^\]]*)\])?==", LOCKS[name].read_text(encoding="utf-8"), re.MULTILINE)
    lines = {head[1].lower(): set(filter(None, (head[2] or "").split(","))) for head in heads}
    wanted: dict[str, set[str]] = {}
    for package in lines:
        try:
            asked = requires(package) or []
        except PackageNotFoundError:
            continue
        for requirement in map(Requirement, asked):
            if requirement.extras and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                wanted.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
    missing = {one: extras - lines[one] for one, extras in wanted.items() if one in lines and extras - lines[one]}
    assert not missing


def test_what_runs_has_neither_spark_nor_tests_nor_linters() -> None:
    extras = PROJECT["optional-dependencies"]
    unwanted = {name for extra in NEVER_TO_RUN for name in needed(extras[extra])}
    assert not unwanted & (versions(LOCKS["runtime"]).keys() | versions(LOCKS["demo"]).keys())


def make(target: str, venv: Path) -> str:
    """What `make` would run for a target with this environment."""
    return subprocess.run(
        # Also where `make test ARGS=...` has started this.
        ["make", "--dry-run", "--no-print-directory", target, f"VENV={venv}", "ARGS="],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_run_installs_the_runtime_and_compiles_nothing_before_the_demo(tmp_path: Path) -> None:
    commands = make("run", tmp_path)
    assert re.search(r"tools\.install .* runtime$", commands, re.MULTILINE)
    assert "development" not in commands and "tools.java" not in commands and "rankcast warm" not in commands
    assert commands.strip().endswith("rankcast demo")


def test_test_adds_the_rest_and_all_kernels(tmp_path: Path) -> None:
    commands = make("test", tmp_path)
    order = [commands.index(part) for part in ("install --venv", " development", "rankcast warm", "-m pytest")]
    assert order == sorted(order) and "tools.java" in commands


@pytest.mark.parametrize("target", ["lint", "format", "openapi"])
def test_looking_at_the_sources_needs_no_kernels(target: str, tmp_path: Path) -> None:
    commands = make(target, tmp_path)
    assert " development" in commands and "rankcast warm" not in commands and "tools.java" not in commands


def test_what_is_installed_is_not_looked_at_again(tmp_path: Path) -> None:
    (tmp_path / ".runtime").touch()
    assert make("run", tmp_path).strip() == f"{tmp_path}/bin/rankcast demo"
    commands = make("test", tmp_path)
    assert " development" in commands and " runtime\n" not in commands
    (tmp_path / ".dev").touch()
    assert "tools.install" not in make("lint", tmp_path)


def test_the_image_installs_from_locks_that_are_there() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for name in re.findall(r"requirements/(\w+)\.lock", dockerfile):
        assert name in LOCKS
    for command in re.findall(r"pip install [^&\n]*-r [^&\n]*", dockerfile):
        assert "--require-hashes" in command
