"""What the commands of all resources share: making and deleting one, and why a command is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

C = TypeVar("C")


@dataclass(slots=True)
class Create(Generic[C]):
    """Make the resource."""

    config: C


@dataclass(slots=True)
class Drop:
    """Delete the resource with all that is in it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a command, or its element at `index`, does not apply.

    `field` is relative to the element ("values.delay", "id", "k"). `kind` says which refusal it is: "invalid" and
    "unknown" are unprocessable, "taken" and "in_use" conflict with the present state, "different" is a resource with
    another configuration, "missing" a path that leads nowhere, "full" what has no room at present.
    """

    field: str
    reason: str
    kind: Literal["invalid", "unknown", "taken", "in_use", "missing", "different", "full"] = "invalid"
    index: int | None = None


class Refused(Exception):
    """A command that does not apply. Nothing has changed."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(f"{f.field}: {f.reason}" for f in faults[:3]))
        self.faults = faults
