"""The prototype that the kernels are held against, if its folder is there: `ranked.py` and `dynamic.py` as they are."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import indexes.jit  # noqa: F401  (sets the cache folder before numba is imported)

VARIABLE = "RANKCAST_PROTOTYPE_MATCHERS"


class Prototype(NamedTuple):
    ranked: ModuleType
    dynamic: ModuleType


def load(folder: Path | None) -> Prototype | None:
    """The prototype in a folder (or the one that RANKCAST_PROTOTYPE_MATCHERS names); None when there is none."""
    named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None or not (named / "ranked.py").is_file():
        return None
    sys.path.insert(0, str(named))
    try:
        return Prototype(importlib.import_module("ranked"), importlib.import_module("dynamic"))
    finally:
        sys.path.remove(str(named))
