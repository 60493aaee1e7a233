"""What a start does not wait for and a request should not either: loaded in a thread once the service is ready."""

from __future__ import annotations

import importlib
from contextlib import suppress

MODULES = ("httpx", "shapely")
"""Modules that are imported where they are first used: links of relays ask other services with the one, maps read and
simplify outlines with the other."""


def preload() -> None:
    """Import what was left for later. One that cannot be imported is for the request to tell that needs it."""
    for module in MODULES:
        with suppress(ImportError):
            importlib.import_module(module)
