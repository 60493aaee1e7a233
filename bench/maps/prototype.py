"""The prototype that the kernels are held against, if its folder is there: `skyline.py`, `rtree_str.py` and `topk.py`
as they are."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import indexes.jit  # noqa: F401  (sets the cache folder before numba is imported)

VARIABLE = "RANKCAST_PROTOTYPE_MAPS"


class Prototype(NamedTuple):
    skyline: ModuleType
    rtree: ModuleType
    topk: ModuleType


def load(folder: Path | None = None) -> Prototype | None:
    """The prototype in a folder (or the one that RANKCAST_PROTOTYPE_MAPS names); None when there is none."""
    named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None or not (named / "skyline.py").is_file():
        return None
    sys.path.insert(0, str(named))
    try:
        return Prototype(*(importlib.import_module(name) for name in ("skyline", "rtree_str", "topk")))
    finally:
        sys.path.remove(str(named))
