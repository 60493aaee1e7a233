"""The prototype that feeds are held against, if its folder is there: `skype.py` and `skype2.py` as they are."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import indexes.jit  # noqa: F401  (sets the cache folder before numba is imported)

VARIABLE = "RANKCAST_PROTOTYPE_FEEDS"


class Prototype(NamedTuple):
    skype: ModuleType
    skype2: ModuleType


def load(folder: Path | None = None) -> Prototype | None:
    """The prototype in a folder (or the one that RANKCAST_PROTOTYPE_FEEDS names); None when there is none."""
    named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None or not (named / "skype2.py").is_file():
        return None
    sys.path.insert(0, str(named))
    try:
        return Prototype(*(importlib.import_module(name) for name in ("skype", "skype2")))
    finally:
        sys.path.remove(str(named))
