"""Which processor kernels are compiled for.

`native` is this machine's, with all that it can do. The others are portable: an archive of them serves a fleet. A
process uses what `choose` was told, else the portable kernels that were imported if there are no native ones, the best
that the processor can run first.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Literal

Target = Literal["native", "x86-64-v3", "generic"]

PORTABLE: tuple[str, ...] = ("x86-64-v3", "generic")
"""Targets that more than one kind of processor runs, the fastest first."""

VARIABLE = "NUMBA_CPU_NAME"
"""Numba's own setting, which processes that are started inherit."""

_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")


def choose(target: str) -> None:
    """Compile for a target, here and in processes that are started. Before the first kernel is compiled or loaded."""
    import numba

    name = {"native": None, "generic": "generic"}.get(target, target)
    features = None if name is None else ""
    for variable, value in ((VARIABLE, name), ("NUMBA_CPU_FEATURES", features)):
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value
    numba.config.CPU_NAME = name  # type: ignore[attr-defined]
    numba.config.CPU_FEATURES = features  # type: ignore[attr-defined]


def runs(target: str) -> bool:
    """Whether this machine's processor can run the code of a portable target."""
    from llvmlite import binding as llvm

    if target == "generic":
        return True
    if target != "x86-64-v3" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    has = llvm.get_host_cpu_features()
    return all(has.get(feature, False) for feature in _V3)


def choose_imported(folder: Path) -> None:
    """Use portable kernels that lie below `folder`, one folder a target, unless there are native ones or the
    environment names a target."""
    if os.environ.get(VARIABLE) or not folder.is_dir():
        return
    there = {path.name for path in folder.iterdir() if any(path.glob("*.ready"))}
    if any(name.partition("-")[0] == "native" for name in there):
        return
    for target in PORTABLE:
        if target in there and runs(target):
            choose(target)
            return
