"""Slices of plans, whose number does not depend on how fast another thread is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from indexes.core.background import BackgroundTask

SLICE = 1e-9
"""Seconds of a slice: as little as a plan can do."""

WAIT = 10.0
"""Seconds for which another thread is waited for."""

_done = BackgroundTask.done


def execute_slice(plan: Any) -> None:
    """Execute a slice of a plan, or what it waits for in another thread, which is no slice."""
    waits = any(getattr(plan, name, None) is not None for name in ("_task", "_merging"))
    plan.execute(WAIT if waits else SLICE)


def in_step() -> AbstractContextManager[Any]:
    """While this is entered, the work of another thread is not done at the end of the slice that began it, and is done
    once it is waited for.
    """
    return patch.object(BackgroundTask, "done", lambda task, seconds: seconds > SLICE and _done(task, seconds))
