"""What is made of the configuration that was asked for last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

ConfigT = TypeVar("ConfigT")
MadeT = TypeVar("MadeT")


class Latest(Generic[ConfigT, MadeT]):
    """Keeps what `make` makes of a configuration until another one is asked for. Requests of a turn are mostly about
    one resource, whose configuration is the same object until it is changed.

    >>> latest = Latest(lambda config: [config])
    >>> latest.of("a") is latest.of("a")
    True
    """

    def __init__(self, make: Callable[[ConfigT], MadeT]) -> None:
        self._make = make
        self._kept: tuple[ConfigT, MadeT] | None = None

    def of(self, config: ConfigT) -> MadeT:
        """What was made of this configuration, compared by identity."""
        kept = self._kept
        if kept is None or kept[0] is not config:
            kept = self._kept = config, self._make(config)
        return kept[1]
