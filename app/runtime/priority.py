"""Scheduling priorities: background work yields the processors to threads that answer requests.

If all processors are busy, a thread that wakes up waits for the time slice of one that computes, some milliseconds, and
an answer takes several such wake-ups. A thread of lower priority is preempted at once. It has to compute without the
GIL: while it holds that, all other threads wait, whatever its priority.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

T = TypeVar("T")

BACKGROUND_NICENESS = 10

BACKGROUND_THREADS = 4


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def be_nice(pid: int) -> None:
    """Lower the priority of a process; on Linux also of a single thread, by its native id. For good: to raise it again
    takes a right that a service does not have.
    """
    if hasattr(os, "setpriority") and os.getpriority(os.PRIO_PROCESS, pid) < BACKGROUND_NICENESS:
        os.setpriority(os.PRIO_PROCESS, pid, BACKGROUND_NICENESS)


def _give_way() -> None:
    if sys.platform == "linux":
        be_nice(threading.get_native_id())


_background = ThreadPoolExecutor(BACKGROUND_THREADS, "background", initializer=_give_way)


async def in_background(work: Callable[[], T]) -> T:
    """As `asyncio.to_thread`, in a thread of low priority."""
    run = partial(copy_context().run, work)
    return await asyncio.get_running_loop().run_in_executor(_background, run)
