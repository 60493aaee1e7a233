"""The interpreter as a service wants it that holds millions of objects for good."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress

from app.runtime.importing import hide, without

UNUSED = ("coverage", "pandas", "yaml")
"""Packages that libraries import where they are installed, and that the service never uses."""


def prepare() -> None:
    """Before the program is imported, numpy and Arrow above all; a third of what importing takes is saved.

    Nearly all that is imported stays, and the collector would walk it again and again: there is none until
    `keep_program`. Where pandas is installed, Arrow would import it with the first array that it makes, to see whether
    it was given something of that kind, and numba imports coverage and yaml; the service never uses them. Nor does it
    use linear algebra, for which numpy's library would start a thread a core, or plugins of pydantic, which are looked
    for among all packages.
    """
    gc.disable()
    hide(*UNUSED)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def import_libraries() -> None:
    """Import structlog without rich, before anything else imports it.

    It shows exceptions on a terminal, for which `app.runtime.logs` imports it when there is one.
    """
    with without("rich"):
        import structlog  # noqa: F401


def keep_program() -> None:
    """Freeze what there is once the program is imported and made.

    Nothing of it is walked from now on, by `settle` least of all, which would spend a tenth of a second on it. The few
    thousand objects that importing left over stay with it.
    """
    gc.freeze()
    collect_seldom()
    gc.enable()


def collect_seldom() -> None:
    """While millions of objects are loaded, most of which stay.

    Every tenth of the young collections, which are of 10,000 objects each, is of all 100,000 since the last such one,
    some 35 ms, in which the service does nothing else. Each object is looked at as often as with larger ones.
    """
    gc.set_threshold(10_000, 10, 1_000)


def give_back() -> None:
    """Give memory that is free back to the system. Callable in any thread; takes some milliseconds."""
    # Arrow would be loaded before the collector is told.
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # Absent from C libraries other than glibc.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def settle() -> None:
    """When all is loaded: memory that starting has left over goes back.

    The collector need not walk what stays for good (ten times the p99 of single events), and a loop that is always busy
    hands the interpreter to a kernel thread sooner.
    """
    give_back()
    gc.collect()
    gc.freeze()
    collect_seldom()
    sys.setswitchinterval(0.0005)
