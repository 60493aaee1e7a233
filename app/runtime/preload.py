"""What a start does not wait for and a request should not either: loaded in a thread once the service is ready."""

from __future__ import annotations

import importlib
from contextlib import suppress

MODULES = ("httpx", "shapely")
"""Modules that are imported where they are first used: links of relays ask other services with the one, maps read and
simplify outlines with the other."""


def preload() -> None:
    """Import what is needed later. A failure is left to the request that needs the module."""
    for module in MODULES:
        with suppress(ImportError):
            importlib.import_module(module)
