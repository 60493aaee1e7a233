"""The prototype that the kernels are held against, if its folder is there: `covering.py` as it is."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import indexes.jit  # noqa: F401  (sets the cache folder before numba is imported)

VARIABLE = "RANKCAST_PROTOTYPE_RELAYS"


def load(folder: Path | None) -> ModuleType | None:
    """The prototype in a folder (or the one that RANKCAST_PROTOTYPE_RELAYS names); None when there is none."""
    named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None or not (named / "covering.py").is_file():
        return None
    sys.path.insert(0, str(named))
    try:
        return importlib.import_module("covering")
    finally:
        sys.path.remove(str(named))
