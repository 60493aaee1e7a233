"""Who gives way where processors are short: work in the background runs behind what answers requests.

Where all processors are busy, a thread that computes for a second keeps each thread that wakes up waiting for the rest
of its slice, some milliseconds; and an answer takes several threads in turn. Of a lower priority it is interrupted at
once. Such threads are to compute without the GIL: one that holds it keeps all others waiting, whatever its priority.
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
