"""Imports of libraries without what they import for others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


class _Hider(MetaPathFinder):
    """Finds none of these packages, and leaves all else to the finders behind it."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"the service does without {fullname}", name=fullname)


def hide(*names: str) -> MetaPathFinder:
    """Let packages that are not imported yet seem not to be installed, from now on."""
    finder = _Hider(names)
    sys.meta_path.insert(0, finder)
    return finder


@contextmanager
def without(*names: str) -> Iterator[None]:
    """As `hide`, within a `with`: for a library that imports them if it can, and of which they are not wanted."""
    finder = hide(*names)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
