"""What a data directory is among its replicas: the leader's or a replica's, since which term, and by which name.

The file ``ROLE`` has it. A directory without one was never part of a group: it is the leader's of term 0.

``REJOIN`` says that the directory is given up: whoever opens it as a replica takes a new snapshot from the leader.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Literal, NamedTuple

from app.runtime import logs
from app.storage.directory import make_private, write_durably

FILE = "ROLE"

REJOIN = "REJOIN"

LEADER: Literal["leader"] = "leader"
REPLICA: Literal["replica"] = "replica"

MOST_TERM = 1 << 53
"""Terms are smaller."""

RoleName = Literal["leader", "replica"]

_NODE = re.compile(r"[A-Za-z0-9._:-]{1,128}")

log = logs.get("replication")


class Role(NamedTuple):
    """The role of a data directory: `role` is None where none was given to it, `term` the highest that it knows, `node`
    its own id.
    """

    role: RoleName | None
    term: int
    node: str


def read_role(data: Path) -> Role:
    """The role of a data directory; one that has none, or cannot be read, gets a new id, which is not stored."""
    fresh = Role(None, 0, secrets.token_hex(8))
    try:
        found = json.loads((data / FILE).read_text())
        role, term, node = found["role"], found["term"], found["node"]
    except FileNotFoundError:
        return fresh
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.error("the role of the data directory cannot be read", file=str(data / FILE), error=str(error))
        return fresh
    good = role in (LEADER, REPLICA, None) and type(term) is int and 0 <= term < MOST_TERM
    if not good or not isinstance(node, str) or not _NODE.fullmatch(node):
        log.error("the role of the data directory is damaged", file=str(data / FILE))
        return fresh
    return Role(role, term, node)


def write_role(data: Path, role: Role) -> None:
    """Store the role of a data directory, durably. Raises OSError."""
    make_private(data)
    write_durably(data / FILE, json.dumps(role._asdict()) + "\n")


def give_up(data: Path, why: str) -> None:
    """Let the data directory of a replica be replaced by a new snapshot at the next start. Raises OSError."""
    log.warning("a new snapshot is taken from the leader at once", why=why)
    write_durably(data / REJOIN, why + "\n")
