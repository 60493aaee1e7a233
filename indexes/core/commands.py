"""The commands that all resource types have, and the reasons to refuse a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

C = TypeVar("C")


@dataclass(slots=True)
class Create(Generic[C]):
    """Create the resource."""

    config: C


@dataclass(slots=True)
class Drop:
    """Delete the resource with its content."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a command, or its element at `index`, does not apply.

    `field` is relative to the element ("values.delay", "id", "k"). Of the kinds "invalid" and "unknown" are
    unprocessable, "taken" and "in_use" conflict with the present state, "different" is a resource with another
    configuration, "missing" a path to nothing, and "full" a lack of room at present.
    """

    field: str
    reason: str
    kind: Literal["invalid", "unknown", "taken", "in_use", "missing", "different", "full"] = "invalid"
    index: int | None = None


def missing(noun: str, key: str) -> Fault:
    """A path whose id names nothing, as that of a subscription which is gone."""
    return Fault("id", f"there is no {noun} {key!r}", "missing")


class Refused(Exception):
    """A command that does not apply. Nothing has changed."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(f"{f.field}: {f.reason}" for f in faults[:3]))
        self.faults = faults
