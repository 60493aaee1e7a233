"""A digest of the sources of indexes, by which images and caches of another version are recognized."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_HOME = Path(__file__).resolve().parents[2]

_SHARED = ("compiled", "core")
"""Packages that all resources use."""


@cache
def sources(module: str) -> str:
    """A name for all sources that a module may call: for ``indexes.boards`` that package and the shared ones, for one
    outside ``indexes`` all of ``indexes`` and its own package. O(bytes of the sources)."""
    top, *below = module.split(".")
    package = top if top != "indexes" else below[0] if below else ""
    digest = hashlib.sha256()
    if top == "indexes" and package:
        for folder in sorted({*_SHARED, package}):
            digest.update(_shared(folder) if folder in _SHARED else _content(f"indexes/{folder}"))
    else:
        digest.update(_content("indexes"))
        if top != "indexes":
            digest.update(_content(package))
    return f"{package or top}-{digest.hexdigest()[:12]}"


@cache
def _shared(folder: str) -> bytes:
    """As `_content`, read once for all resources."""
    return _content(f"indexes/{folder}")


def _content(folder: str) -> bytes:
    """The names and the text of all sources of a folder, in order."""
    return b"".join(_parts(folder))


def _parts(folder: str) -> Iterator[bytes]:
    # Not by `Path.rglob`: with it a start takes as long to find the files as to read them.
    with os.scandir(_HOME / folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{folder}/{entry.name}"
        if entry.name.endswith(".py"):
            with open(entry.path, "rb", buffering=0) as file:
                yield b"%b\0%b\0" % (name.encode(), file.read())
        elif "." not in entry.name and entry.is_dir():
            yield from _parts(name)
