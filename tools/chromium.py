"""Find a Chromium for the tests of the console, or install one where that takes no password, for `make test-system`.

The service runs without. Where none can be installed, a message says what to do, and the tests of the console are
skipped, but with `CI=true`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence

from tools.java import Machine, this_machine

COMMANDS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
"""What the browser is called, in the order in which it is looked for."""

MAC = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
VARIABLE = "RANKCAST_TEST_CHROMIUM"
"""Names the browser in the environment; it comes before all others."""


def find(
    environment: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    exists: Callable[[str], bool] = os.path.exists,
) -> str | None:
    """The path of a Chromium, or of a browser that is made of it; None where there is none."""
    named = environment.get(VARIABLE)
    if named:
        return which(named)
    found = next((path for command in COMMANDS if (path := which(command)) is not None), None)
    return found or next((path for path in MAC if exists(path)), None)


def install(machine: Machine) -> bool:
    """Try to install one without prompts. True if a package manager says that it did."""
    if machine.system == "darwin":
        return machine.has("brew") and not machine.root and machine.run(["brew", "install", "--cask", "chromium"])
    if not machine.has("apt-get"):
        return False
    as_root: list[str] = []
    if not machine.root:
        as_root = ["sudo", "-n"]
        if not machine.has("sudo") or not machine.run([*as_root, "true"]):
            return False
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    machine.run([*apt, "update"])
    return machine.run([*apt, "install", "--yes", "--no-install-recommends", "chromium"])


def advice(machine: Machine) -> str:
    """What the user can do by hand."""
    if machine.system == "darwin":
        return "Install Homebrew (https://brew.sh), then: brew install --cask chromium"
    if machine.has("apt-get"):
        return "As root: apt-get update && apt-get install --yes --no-install-recommends chromium"
    if machine.has("dnf"):
        return "As root: dnf install chromium"
    if machine.has("pacman"):
        return "As root: pacman -S chromium"
    if machine.has("apk"):
        return "As root: apk add chromium"
    return f"Install Chromium or Chrome, and let {VARIABLE} name it."


def main(
    arguments: Sequence[str] | None = None,
    machine: Machine | None = None,
    look: Callable[[], str | None] = find,
) -> int:
    """0 with a Chromium at hand, 1 without; either way it prints what was found."""
    parser = argparse.ArgumentParser(prog="python -m tools.chromium", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quiet", action="store_true", help="say nothing where there is one already")
    quiet = parser.parse_args(arguments).quiet
    machine = machine or this_machine()
    found = look()
    if found is None:
        print("The tests of the console need Chromium; looking for a way to install it ...", flush=True)
        install(machine)
        quiet, found = False, look()
    if found is None:
        print("No Chromium for the tests of the console; they are skipped.")
        print(advice(machine))
        return 1
    if not quiet:
        print(f"The console is tested in {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
