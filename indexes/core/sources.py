"""A digest of the sources of indexes, by which images and caches of another version are recognized."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_INDEXES = Path(__file__).resolve().parents[1]

_SHARED = ("compiled", "core")
"""Packages that all resources use."""


@cache
def sources(module: str) -> str:
    """A name for all sources that a module may call: for ``indexes.boards`` that package and the shared ones, for one
    outside ``indexes`` all of ``indexes`` and its own package. O(bytes of the sources)."""
    top, *below = module.split(".")
    package = top if top != "indexes" else below[0] if below else ""
    digest = hashlib.sha256()
    for path in _files(top, package):
        digest.update(path.relative_to(_INDEXES.parent).as_posix().encode())
        digest.update(b"\0")
        digest.update(path.read_bytes())
        digest.update(b"\0")
    return f"{package or top}-{digest.hexdigest()[:12]}"


def _files(top: str, package: str) -> Iterator[Path]:
    if top == "indexes" and package:
        for folder in sorted({*_SHARED, package}):
            yield from sorted((_INDEXES / folder).rglob("*.py"))
    else:
        yield from sorted(_INDEXES.rglob("*.py"))
        if top != "indexes":
            yield from sorted((_INDEXES.parent / package).rglob("*.py"))
