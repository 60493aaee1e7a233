"""One line of `rankcast doctor`, and where it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "error"]


class Finding(NamedTuple):
    """What was looked at, how it is, what was found, and what to do where it is not well."""

    check: str
    level: Level
    found: str
    advice: str = ""


class Place(NamedTuple):
    """A data directory with its database and storage where those are elsewhere, and a service by its URL."""

    data: Path
    database: str | None = None
    storage: str | None = None
    url: str | None = None
    key: str | None = None
