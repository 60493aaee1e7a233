"""Imports of libraries without what they import or make for others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any


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


@contextmanager
def models_later() -> Iterator[None]:
    """Give models of pydantic that are defined within a `with` their validators when they are first used."""
    from pydantic import BaseModel, ConfigDict

    config, rebuild = BaseModel.model_config, BaseModel.__dict__["model_rebuild"]

    def when_used(cls: type[BaseModel], /, **how: Any) -> bool | None:
        """Rebuild a model for its first use, which says how; a module that completes its models says nothing."""
        return rebuild.__func__(cls, **how) if how else None

    BaseModel.model_config = ConfigDict(defer_build=True)
    BaseModel.model_rebuild = classmethod(when_used)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        BaseModel.model_config = config
        BaseModel.model_rebuild = rebuild  # type: ignore[method-assign]
