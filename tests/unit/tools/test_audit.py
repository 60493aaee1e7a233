"""An audit tells apart: nothing found, found, and no list to be had."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tools.locks import LOCKS, versions
from tools import audit

KNOWN = {"name": "idna", "version": "3.20", "vulns": []}
FLAW = {"id": "CVE-2020-1", "fix_versions": ["3.21"], "aliases": [], "description": ""}
VULNERABLE = {"name": "h11", "version": "0.16.0", "vulns": [FLAW]}
SKIPPED = {"name": "httpx", "skip_reason": "Dependency not found on PyPI and could not be audited: httpx (0.28.1)"}

TOOL = """
import json, sys
says = json.loads({says!r})
if "--dry-run" in sys.argv:
    sys.exit(says["dry"])
if says["packages"] is None:
    sys.exit("Traceback (most recent call last):\\n  File ...\\nConnectionError: no route\\n")
print(json.dumps({{"dependencies": says["packages"], "fixes": []}}))
sys.exit(any(one.get("vulns") for one in says["packages"]))
"""


def tool(folder: Path, packages: list[dict[str, Any]] | None, dry: int = 0) -> list[str]:
    """A `pip-audit` that finds this, or reaches no list."""
    path = folder / "tool.py"
    path.write_text(TOOL.format(says=json.dumps({"packages": packages, "dry": dry})))
    return [sys.executable, str(path)]


@pytest.mark.parametrize(
    ("packages", "says", "status", "required"),
    [
        ([KNOWN], "nothing found: 1 packages", 0, 0),
        ([KNOWN, VULNERABLE], "found: h11 0.16.0: CVE-2020-1, without it: 3.21", 1, 1),
        ([KNOWN, SKIPPED], "not on the list: httpx", 0, 2),
        ([SKIPPED], "no list to be had: it knows none of 1 packages", 0, 2),
        (None, "no list to be had: ConnectionError: no route", 0, 2),
    ],
    ids=["nothing", "found", "in-part", "a-list-that-knows-nothing", "no-list"],
)
def test_each_case_has_its_message_and_status(
    packages: list[dict[str, Any]] | None, says: str, status: int, required: int, tmp_path: Path
) -> None:
    report = audit.audit(tool(tmp_path, packages), [LOCKS["build"]], [])
    text = "\n".join(report.lines())
    assert says in text and ("nothing found" in text) == (packages in ([KNOWN], [KNOWN, SKIPPED]))
    assert (report.status(False), report.status(True)) == (status, required)


def test_a_list_that_is_lost_on_the_way_is_no_clean_result() -> None:
    report = audit.Report()
    report.add({"dependencies": [KNOWN]})
    report.error = "gone"
    assert any("incomplete" in line for line in report.lines())
    assert report.status(require_list=True) == audit.NO_LIST


def test_a_lock_that_cannot_be_read_is_no_missing_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"build\.lock cannot be read"):
        audit.audit(tool(tmp_path, None, dry=1), [LOCKS["build"]], [])


def test_every_package_of_every_lock_is_asked_for() -> None:
    asked = {(name, version) for lock in audit.AUDITED for name, version in versions(LOCKS[lock]).items()}
    assert asked >= {(name, version) for lock in LOCKS.values() for name, version in versions(lock).items()}
