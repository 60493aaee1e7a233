"""Find a Java for the Spark jobs, or install one where that takes no password: a part of `make setup`.

The service runs without Java, so where none can be installed, a message says what to do, and the set-up goes on.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from spark_jobs.common.java import OLDEST, Java, NoJava, find

DEBIAN = tuple(f"openjdk-{version}-jre-headless" for version in (17, 21, 25))
"""The packages of Debian and Ubuntu that will do, in the order in which they are tried."""

BREW = "openjdk@17"

Run = Callable[[Sequence[str]], bool]
"""Runs a command and says whether it succeeded."""


class Machine(NamedTuple):
    """What an installation depends on: the system's name, whether we are root, which commands there are."""

    system: str
    root: bool
    has: Callable[[str], bool]
    run: Run


def this_machine() -> Machine:
    """The machine that this runs on."""
    return Machine(sys.platform, os.geteuid() == 0, lambda command: shutil.which(command) is not None, _run)


def install(machine: Machine) -> bool:
    """Try to install a Java without prompts. True if a package manager says that it did."""
    if machine.system == "darwin":
        return machine.has("brew") and not machine.root and machine.run(["brew", "install", BREW])
    if not machine.has("apt-get"):
        return False
    as_root: list[str] = []
    if not machine.root:
        as_root = ["sudo", "-n"]
        if not machine.has("sudo") or not machine.run([*as_root, "true"]):
            return False
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    machine.run([*apt, "update"])
    return any(machine.run([*apt, "install", "--yes", "--no-install-recommends", package]) for package in DEBIAN)


def advice(machine: Machine) -> str:
    """What the user can do by hand."""
    if machine.system == "darwin":
        return f"Install Homebrew (https://brew.sh), then: brew install {BREW}"
    if machine.has("apt-get"):
        return f"As root: apt-get update && apt-get install --yes --no-install-recommends {DEBIAN[0]}"
    if machine.has("dnf"):
        return f"As root: dnf install java-{OLDEST}-openjdk-headless"
    if machine.has("pacman"):
        return "As root: pacman -S jre17-openjdk-headless"
    if machine.has("apk"):
        return "As root: apk add openjdk17-jre-headless"
    return f"Install a JDK or JRE of version {OLDEST} or newer, and let JAVA_HOME name its folder."


def main(
    arguments: Sequence[str] | None = None, machine: Machine | None = None, look: Callable[[], Java] = find
) -> int:
    """0 with a Java at hand, 1 without; either way it prints what was found."""
    parser = argparse.ArgumentParser(prog="python -m tools.java", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quiet", action="store_true", help="say nothing where there is one already")
    quiet = parser.parse_args(arguments).quiet
    machine = machine or this_machine()
    try:
        java = look()
    except NoJava:
        print(f"The Spark jobs need Java {OLDEST} or newer; looking for a way to install it ...", flush=True)
        install(machine)
        try:
            java = look()
        except NoJava as missing:
            print(f"No Java for the Spark jobs; the service runs without. {str(missing).partition(';')[0]}.")
            print(advice(machine))
            return 1
        quiet = False
    if not quiet:
        print(f"Spark runs on Java {java.version} in {java.home}")
    return 0


def _run(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
