"""The interpreter as a service wants it that holds millions of objects for good."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress


def collect_seldom() -> None:
    """Before anything is loaded: most of it stays, and the collector would walk it again and again, a tenth of what a
    start takes."""
    gc.set_threshold(50_000, 20, 100)


def settle() -> None:
    """When all is loaded: memory that starting has left over goes back. The collector need not walk what stays for good
    (ten times the p99 of single events), and a loop that is always busy hands the interpreter to a kernel thread
    sooner."""
    # Arrow would be loaded before the collector is told.
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # Absent from C libraries other than glibc.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    gc.collect()
    gc.freeze()
    collect_seldom()
    sys.setswitchinterval(0.0005)
