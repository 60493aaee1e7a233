"""Ask a list of advisories about the packages of the locks.

`pip-audit` ends with the same message and status where a list knows nothing against a package and where it does not
know the package at all, and with the same status where it finds something and where it reaches no list. Here these are
told apart: status 0 where nothing is known, 1 where something is, and where there is no list to be had, 0 with a
warning, or 2 with ``--require-list``. Status 3 means that a lock could not be read. It runs in the environment of
`requirements/audit.lock`, see ``make audit``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.install import LOCKS

AUDITED = ("dev", "peers", "docs", "build", "audit")
"""Together they have every package of every lock: what runs is part of `dev.lock`, in the same versions."""

FOUND, NO_LIST, UNREADABLE = 1, 2, 3
_TIMEOUT_SECONDS = 10


@dataclass(slots=True)
class Report:
    """What a list knows: `known` are the packages that it has, `unknown` those that it has not, `found` each package
    with a vulnerability, its identifier, and the versions without it. `error` says why there is no list.
    """

    known: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    found: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    error: str | None = None

    def add(self, result: dict[str, Any]) -> None:
        """Take in the result of one lock, as `pip-audit` prints it in JSON."""
        for package in result["dependencies"]:
            if "skip_reason" in package:
                self.unknown.add(package["name"])
                continue
            name = f"{package['name']} {package['version']}"
            self.known.add(name)
            for each in package["vulns"]:
                self.found[name, each["id"]] = tuple(each["fix_versions"])

    def lines(self) -> list[str]:
        """The report as text."""
        lines = [
            f"found: {name}: {identifier}, without it: {', '.join(fixed) or 'no version'}"
            for (name, identifier), fixed in sorted(self.found.items())
        ]
        if not self.known:
            why = self.error or f"it knows none of {len(self.unknown)} packages"
            return [f"no list to be had: {why}", "Nothing was audited; this says nothing about the packages."]
        if self.error:
            lines.append(f"incomplete: the list was lost on the way: {self.error}")
        if self.unknown:
            lines.append(f"not on the list: {', '.join(sorted(self.unknown))}")
        if not self.found:
            lines.append(f"nothing found: {len(self.known)} packages have no known vulnerability")
        return lines

    def status(self, require_list: bool) -> int:
        """The exit status. A list that was lost on the way, or that lacks packages, is none for ``--require-list``."""
        if self.found:
            return FOUND
        return NO_LIST if require_list and (self.error or self.unknown or not self.known) else 0


def ask(tool: Sequence[str], lock: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """`pip-audit` about a lock, which pins all that it needs: nothing is resolved or downloaded."""
    command = [*tool, "-r", str(lock), "--require-hashes", "--disable-pip", "--progress-spinner", "off", "-f", "json"]
    return subprocess.run(
        [*command, "--timeout", str(_TIMEOUT_SECONDS), *options], capture_output=True, text=True, check=False
    )


def audit(tool: Sequence[str], locks: Sequence[Path], options: Sequence[str]) -> Report:
    """What the list knows of all locks. Raises ValueError where a lock cannot be read."""
    report = Report()
    for lock in locks:
        if (dry := ask(tool, lock, ["--dry-run"])).returncode:
            raise ValueError(f"{lock.name} cannot be read: {_last(dry.stderr)}")
        done = ask(tool, lock, options)
        try:
            report.add(json.loads(done.stdout))
        except ValueError:  # it has read the lock before, so it is the list that is missing
            report.error = _last(done.stderr)
            break
    return report


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is known; the status says which of the cases it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("locks", nargs="*", default=AUDITED, help="names of locks (all)")
    parser.add_argument("--service", choices=("pypi", "osv"), default="pypi", help="whose list")
    parser.add_argument("--osv-url", help="another address of OSV's list")
    parser.add_argument("--require-list", action="store_true", help="fail where there is no list to be had")
    given = parser.parse_args(arguments)
    options = ["-s", given.service, *(["--osv-url", given.osv_url] if given.osv_url else [])]
    try:
        locks = [LOCKS / f"{name}.lock" for name in given.locks]
        report = audit([sys.executable, "-m", "pip_audit"], locks, options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    print("\n".join(report.lines()))
    return report.status(given.require_list)


if __name__ == "__main__":
    sys.exit(main())
