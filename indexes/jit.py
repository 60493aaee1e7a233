"""How kernels are compiled, and where the compiled code is kept.

Numba's on-disk cache looks at the file of the kernel itself and does not notice an edited callee in another module, so
the cache folder is named by a hash of every source below ``indexes/``: an edit anywhere opens a new folder. It lies in
`RANKCAST_CACHE`, or in ``.cache/kernels`` of the checkout.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_SOURCES = Path(__file__).resolve().parent


def source_hash() -> str:
    """Twelve hex digits over the names and contents of all modules in ``indexes/``."""
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*.py")):
        digest.update(path.relative_to(_SOURCES).as_posix().encode())
        digest.update(b"\0")
        digest.update(path.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def cache_folder() -> Path:
    """The folder that holds the compiled kernels of exactly these sources."""
    root = os.environ.get("RANKCAST_CACHE") or str(_SOURCES.parent / ".cache" / "kernels")
    return Path(root) / source_hash()


# Numba reads the variable when it is first imported, so this module has to come before any import of numba in indexes/.
os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())

from numba import njit  # noqa: E402  (after the cache folder is set)

F = TypeVar("F", bound=Callable[..., Any])

_compile = njit(cache=True, nogil=True)
_inline = njit(cache=True, nogil=True, inline="always")


def kernel(function: F) -> F:
    """Compile on first call, release the GIL while running, keep the machine code on disk."""
    return _compile(function)  # type: ignore[no-any-return]


def inline_kernel(function: F) -> F:
    """As `kernel`, pasted into its callers: for primitives of a few lines only."""
    return _inline(function)  # type: ignore[no-any-return]
