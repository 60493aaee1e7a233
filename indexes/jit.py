"""How kernels are compiled, and where the compiled code is kept.

Numba's on-disk cache looks at the file of the kernel itself and does not notice an edited callee in another module. So
what is compiled lies in a folder named by a hash of every source that it may call. For a kernel of ``indexes/boards``
these are all of that package and what the packages of ``indexes`` share; for one outside ``indexes``, as those of the
benchmarks are, all of ``indexes`` and of its own package. An edit to any of them opens a new folder, and leaves those
of other resources alone. They lie in `RANKCAST_CACHE`, or in ``.cache/kernels`` of the checkout.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

_SOURCES = Path(__file__).resolve().parent

_SHARED = "spatial"
"""The package that those of the resources use; so are the modules beside it."""


def cache_folder(module: str = "indexes") -> Path:
    """The folder that holds the compiled kernels of exactly these sources, for kernels of the module of this name."""
    top, *below = module.split(".")
    package = top if top != "indexes" else below[0] if len(below) > 1 else ""
    root = os.environ.get("RANKCAST_CACHE") or str(_SOURCES.parent / ".cache" / "kernels")
    return Path(root) / f"{package or top}-{_digest(top, package)}"


@cache
def _digest(top: str, package: str) -> str:
    """What names the sources that kernels of a package may call."""
    digest = hashlib.sha256()
    for path in _sources(top, package):
        digest.update(path.relative_to(_SOURCES.parent).as_posix().encode())
        digest.update(b"\0")
        digest.update(path.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def _sources(top: str, package: str) -> Iterator[Path]:
    """All modules that a kernel of this package may call, in a fixed order."""
    if top == "indexes":
        yield from sorted(_SOURCES.glob("*.py"))
        for folder in sorted({_SHARED, package}):
            yield from sorted((_SOURCES / folder).rglob("*.py")) if folder else ()
    else:
        yield from sorted(_SOURCES.rglob("*.py"))
        yield from sorted((_SOURCES.parent / package).rglob("*.py"))


# Numba reads the variable when it is first imported; without it, it would look for a folder beside the sources.
os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())

import numba  # noqa: E402  (after the cache folder is set)

F = TypeVar("F", bound=Callable[..., Any])


def compiler(**options: Any) -> Callable[[F], F]:
    """A decorator as `numba.njit` with these options, whose machine code is kept where it belongs."""
    compile_ = numba.njit(cache=True, nogil=True, **options)

    def decorate(function: F) -> F:
        numba.config.CACHE_DIR = str(cache_folder(function.__module__))  # type: ignore[attr-defined]
        return compile_(function)  # type: ignore[no-any-return]

    return decorate


_compile = compiler()
_inline = compiler(inline="always")


def kernel(function: F) -> F:
    """Compile on first call, release the GIL while running, keep the machine code on disk."""
    return _compile(function)


def inline_kernel(function: F) -> F:
    """As `kernel`, pasted into its callers: for primitives of a few lines only."""
    return _inline(function)
