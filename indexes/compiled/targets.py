"""The processor that kernels are compiled for, called the target.

`native` is this machine's, with all of its features. The others are portable: an archive of them serves a fleet. A
process uses the target given to `choose`, else that of numba's own settings, else, if the cache has no native kernels,
the fastest portable ones in it that the processor can run.

A process has one target: numba asks for it when the first kernel is defined.
"""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

PORTABLE: tuple[str, ...] = ("x86-64-v3", "generic")
"""Targets that more than one kind of processor runs, the fastest first."""

VARIABLE, FEATURES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"
"""Numba's own settings, which child processes inherit."""

_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")

X86 = ("x86_64", "AMD64")
"""What `platform.machine()` calls the architecture."""


def portable() -> tuple[str, ...]:
    """The portable targets of this machine's architecture, the fastest first."""
    return PORTABLE if platform.machine() in X86 else ("generic",)


def choose(target: str) -> None:
    """Compile for `native` or a portable target, in this process and its children. To be called before the first kernel
    is defined."""
    import numba
    from llvmlite import binding as llvm

    # Native is set explicitly, too: a process without a setting may use portable kernels.
    name, features = (llvm.get_host_cpu_name(), _host()) if target == "native" else (target, "")
    os.environ[VARIABLE], os.environ[FEATURES] = name, features
    numba.config.CPU_NAME = name  # type: ignore[attr-defined]
    numba.config.CPU_FEATURES = features  # type: ignore[attr-defined]


def current() -> str:
    """This process's target, as a file name."""
    from llvmlite import binding as llvm
    from numba import config

    name, features = config.CPU_NAME, config.CPU_FEATURES  # type: ignore[attr-defined]
    if name in (None, llvm.get_host_cpu_name()) and features in (None, _host()):
        return native()
    if name in PORTABLE and features == "":
        return str(name)
    digest = hashlib.sha256(f"{name} {_host() if features is None else features}".encode()).hexdigest()[:8]
    return f"custom-{digest}"


def has(feature: str) -> bool:
    """Whether this process compiles for a feature of processors, by LLVM's name."""
    from numba import config

    features = config.CPU_FEATURES  # type: ignore[attr-defined]
    return f"+{feature}" in (_host() if features is None else features).split(",")


@cache
def native() -> str:
    """The target of this machine's processor, as a file name."""
    from llvmlite import binding as llvm

    return f"native-{llvm.get_host_cpu_name()}-{hashlib.sha256(_host().encode()).hexdigest()[:8]}"


def _host() -> str:
    from llvmlite import binding as llvm

    features: str = llvm.get_host_cpu_features().flatten()
    return features


def runs(target: str) -> bool:
    """Whether this machine's processor can run the code of a portable target."""
    from llvmlite import binding as llvm

    if target == "generic":
        return True
    if target != "x86-64-v3" or platform.machine() not in X86:
        return False
    has = llvm.get_host_cpu_features()
    return all(has.get(feature, False) for feature in _V3)


def choose_imported(folder: Path) -> None:
    """Use portable kernels that lie below `folder`, one folder a target, unless there are native ones for this
    processor or the environment names a target.

    A portable target that the environment names means that target alone, without what this processor can do beyond it.
    """
    named = os.environ.get(VARIABLE)
    if named in PORTABLE and not os.environ.get(FEATURES):
        choose(named)
    if named or FEATURES in os.environ or not folder.is_dir():
        return
    if any((folder / native()).glob("*.ready")):
        return
    for target in PORTABLE:
        if runs(target) and any((folder / target).glob("*.ready")):
            choose(target)
            return
