"""The locks, and what the project asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
LOCKS = {path.stem: path for path in sorted((ROOT / "requirements").glob("*.lock"))}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def versions(lock: Path) -> dict[str, str]:
    """Each package of a lock and its version. Fails where one has no hash."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8")):
        if entry.startswith("#"):
            continue
        head = re.match(r"([\w.-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", entry)
        assert head is not None, f"{lock.name}: {entry.splitlines()[0]!r} does not name one version"
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)
        assert hashes, f"{lock.name}: {head[1]} has no hash"
        found[canonicalize_name(head[1])] = head[2]
    return found


def needed(requirements: list[str]) -> dict[str, Requirement]:
    parsed = (Requirement(text) for text in requirements)
    return {canonicalize_name(one.name): one for one in parsed}
