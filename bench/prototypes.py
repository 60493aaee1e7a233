"""The prototypes that kernels are compared with: sketches in folders of their own, imported unchanged where they exist.

A folder is named by `--prototype`, or by the environment variable of its resource. Without it ours alone is measured.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import indexes.compiled.jit  # noqa: F401  (sets the cache folder before a prototype imports numba)
from bench.report import Report

BOARDS = "RANKCAST_PROTOTYPE"
FEEDS = "RANKCAST_PROTOTYPE_FEEDS"
MAPS = "RANKCAST_PROTOTYPE_MAPS"
MATCHERS = "RANKCAST_PROTOTYPE_MATCHERS"
RELAYS = "RANKCAST_PROTOTYPE_RELAYS"
"""Environment variables."""


class Feeds(NamedTuple):
    skype: ModuleType
    skype2: ModuleType


class Maps(NamedTuple):
    skyline: ModuleType
    rtree: ModuleType
    topk: ModuleType


class Matchers(NamedTuple):
    ranked: ModuleType
    dynamic: ModuleType


def folder_of(variable: str, named: Path | None, module: str) -> Path | None:
    """The folder named, or that of the environment variable; None unless it has the module."""
    folder = named or (Path(os.environ[variable]) if os.environ.get(variable) else None)
    return folder if folder is not None and (folder / f"{module}.py").is_file() else None


def load(variable: str, named: Path | None, *modules: str) -> list[ModuleType] | None:
    """Modules of a prototype, None where the last of them does not exist."""
    folder = folder_of(variable, named, modules[-1])
    if folder is None:
        return None
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(module) for module in modules]
    finally:
        sys.path.remove(str(folder))


def load_feeds(named: Path | None) -> Feeds | None:
    found = load(FEEDS, named, "skype", "skype2")
    return Feeds(*found) if found else None


def load_maps(named: Path | None) -> Maps | None:
    found = load(MAPS, named, "skyline", "rtree_str", "topk")
    return Maps(*found) if found else None


def load_matchers(named: Path | None) -> Matchers | None:
    found = load(MATCHERS, named, "dynamic", "ranked")
    return Matchers(*found[::-1]) if found else None


def load_relays(named: Path | None) -> ModuleType | None:
    found = load(RELAYS, named, "covering")
    return found[0] if found else None


def say_missing(report: Report, theirs: object, variable: str) -> None:
    """Say on the page that a prototype does not exist, if so."""
    if theirs is None:
        report.text(
            f"The prototype is not there (its folder is named by `--prototype` or `{variable}`), so ours alone is "
            "measured."
        )
