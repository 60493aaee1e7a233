"""How long tests wait for what must come: a limit for what is broken, which no slow or halted machine reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 300.0
"""Seconds."""


def wait_until(true: Callable[[], Any], seconds: float = PATIENCE, pause: float = 0.005) -> None:
    """Returns once it is true, which is looked at every `pause` seconds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause)
