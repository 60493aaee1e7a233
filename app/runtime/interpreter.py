"""Settings of the interpreter for a service with millions of long-lived objects: garbage, memory, imports."""

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
    """Call before the program is imported, numpy and Arrow above all; it saves a third of the time of importing.

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
    """Freeze all objects, once the program is imported and wired: the collector does not traverse them any more.

    `settle` would spend a tenth of a second on that. The few thousand objects of garbage from importing stay, too.
    """
    gc.freeze()
    collect_seldom()
    gc.enable()


def collect_seldom() -> None:
    """Collect in large generations, for a service in which most objects stay.

    A young collection is of 10,000 objects; each tenth is of all 100,000 since the last such one, a pause of some
    35 ms. Larger generations would traverse each object as often, in longer pauses.
    """
    gc.set_threshold(10_000, 10, 1_000)


def give_back() -> None:
    """Return free memory to the system. In any thread; takes some milliseconds."""
    # Imported here: importing Arrow at the top would come before `prepare`.
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # Absent from C libraries other than glibc.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def settle() -> None:
    """Call when all data is loaded: return free memory, freeze what stays, and shorten the GIL's switch interval.

    If the collector traversed what stays, the p99 of single events would be ten times as long; and a busy event loop
    has to release the GIL to kernel threads sooner.
    """
    give_back()
    gc.collect()
    gc.freeze()
    collect_seldom()
    sys.setswitchinterval(0.0005)
