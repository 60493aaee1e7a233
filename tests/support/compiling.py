"""Which kernels are compiled by what a test does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from indexes.compiled import cache


@contextmanager
def compiled() -> Iterator[list[str]]:
    """The names of the kernels that this process compiles in the block.

    Those that it loads from disk are none of them.
    """
    names: list[str] = []

    def note(made: cache.Compiled) -> None:
        names.append(made.kernel)

    cache.observers.append(note)
    try:
        yield names
    finally:
        cache.observers.remove(note)
