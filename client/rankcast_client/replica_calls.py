"""The nodes of a group: the requests as values, and what they answer. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rankcast_client.calls import Call, Page, dumps, page

NodeRole = Literal["leader", "replica"]


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as the leader knows it.

    `durable` is the last row of the log that it has on disk, `lsn` the last that its reads show, `rows` how many it
    lacks, `seconds` the time since it was last heard of, `since` the ISO time from which it follows.
    """

    node: str
    name: str
    address: str
    connected: bool
    durable: int
    lsn: int
    rows: int
    seconds: float
    since: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Replica:
        lag = data["lag"]
        return cls(
            data["node"],
            data["name"],
            data["address"],
            data["connected"],
            data["durable"],
            data["lsn"],
            lag["rows"],
            lag["seconds"],
            data["since"],
        )


@dataclass(frozen=True, slots=True)
class Promoted:
    """A node that leads: its term, and the last row of its log."""

    role: NodeRole
    term: int
    lsn: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Promoted:
        return cls(data["role"], data["term"], data["lsn"])


def replicas(limit: int, cursor: str | None) -> Call[Page[Replica]]:
    """The replicas that follow a node."""
    return page("/v1/admin/replicas", Replica.from_json, limit, cursor)


def promote(force: bool) -> Call[Promoted]:
    """Make a node the leader."""
    return Call(
        "POST", "/v1/admin/promote", Promoted.from_json, {}, dumps({"force": force}), "application/json", asks=True
    )
