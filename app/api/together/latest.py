"""A cache of one entry for what is derived from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

ConfigT = TypeVar("ConfigT")
MadeT = TypeVar("MadeT")


class Latest(Generic[ConfigT, MadeT]):
    """Caches what `make` makes of the configuration that was asked for last, compared by identity: consecutive requests
    are mostly about one resource, and its configuration is the same object until it is changed.

    >>> latest = Latest(lambda config: [config])
    >>> latest.of("a") is latest.of("a")
    True
    """

    def __init__(self, make: Callable[[ConfigT], MadeT]) -> None:
        self._make = make
        self._kept: tuple[ConfigT, MadeT] | None = None

    def of(self, config: ConfigT) -> MadeT:
        """What `make` makes of this configuration."""
        kept = self._kept
        if kept is None or kept[0] is not config:
            kept = self._kept = config, self._make(config)
        return kept[1]
