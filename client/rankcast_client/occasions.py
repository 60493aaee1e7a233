"""Streams of single occasions: what a subscription won, or the notifications that it meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from rankcast_client.models import Ready

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Missed:
    """Some occasions before this seq may not have been told: the connection was lost for too long, or the reader was
    too slow."""

    seq: int


@dataclass
class OccasionFollower(Generic[T]):
    """What a stream of occasions has said; see `rankcast_client.watch.Follower` for lists. `read` makes a value of the
    data of an `event`."""

    event: str
    read: Callable[[Mapping[str, Any]], T]
    ready: bool = False
    options: dict[str, Any] = field(default_factory=lambda: {"ready": True})
    current: bool = False
    seq: int | None = None
    cursor: str | None = None
    begun: bool = False

    async def before(self, event: str) -> None:
        """Nothing has to be asked for."""

    def take(self, event: str, data: Mapping[str, Any]) -> T | Missed | Ready | None:
        """One message of the stream. None for what is not known here, or was not asked for."""
        if event not in ("ready", "reset", self.event):
            return None
        self.begun, self.seq = True, data["seq"]
        if event == self.event:
            return self.read(data)
        if event == "reset":
            return Missed(data["seq"])
        self.current = True
        return Ready(data["seq"]) if self.ready else None
