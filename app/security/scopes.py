"""Scopes: what a key or a token may do.

A scope is ``admin``, which includes everything, or ``<resources>[/<name>]:<right>``: ``boards:read`` is about all
boards, ``boards/delays:publish`` about one. The rights:

| right | allows | includes |
| --- | --- | --- |
| ``read`` | reading, and following streams of subscriptions that are there | |
| ``subscribe`` | making, changing and deleting subscriptions and standing queries | ``read`` |
| ``publish`` | objects, events, posts, matches that notify, notifications | |
| ``write`` | making, changing and deleting resources | the three others |
| ``link.<link>`` | being the neighbour behind that link; of one relay only | |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from app.resource_names import RESOURCES

ADMIN = "admin"

Right = Literal["read", "subscribe", "publish", "write"]

SCOPES = (ADMIN, *(f"{of}:{right}" for of in RESOURCES for right in ("read", "subscribe", "publish", "write")))
"""The scopes of all resources of a type. With a name, as in ``boards/delays:read``, they are about one."""

LINK_SCOPE = "relays/{relay}:link.{link}"
"""The scope of the neighbour behind a link."""

INCLUDED: dict[str, tuple[str, ...]] = {
    "read": ("read",),
    "subscribe": ("subscribe", "read"),
    "publish": ("publish",),
    "write": ("write", "subscribe", "publish", "read"),
}
"""What each right includes."""

LINK = "link."

NAME = r"[A-Za-z0-9_.:-]{1,128}"
"""The pattern of names and ids."""

_ANY = "|".join(RESOURCES)

PATTERN = (
    rf"^(?:admin|(?:{_ANY})(?:/{NAME})?:(?:read|subscribe|publish|write)"
    rf"|relays/{NAME}:link\.{NAME})$"
)
"""The pattern of scopes."""

_SCOPE = re.compile(rf"({_ANY})(?:/({NAME}))?:(read|subscribe|publish|write|link\.{NAME})")

_FIRST_VERSION: dict[str, tuple[str, ...]] = {
    "read": ("read",),
    "write": ("write", "subscribe", "publish", LINK),
}
"""The same of keys that were made when there were two rights: writing did not include reading, and every key that
might write to a relay could be a neighbour of it."""


class Need(NamedTuple):
    """What a request needs: a right on the resource of a type. `name` None is any of them, as for a list."""

    resources: str
    right: str
    name: str | None = None

    def __str__(self) -> str:
        if self.resources == ADMIN:
            return ADMIN
        return f"{self.resources}{'' if self.name is None else '/' + self.name[:128]}:{self.right}"


ADMINISTRATION = Need(ADMIN, ADMIN)


def is_scope(text: str) -> bool:
    """Whether a text is a scope.

    >>> [is_scope(text) for text in ("boards:read", "boards/delays:publish", "relays/edge:link.north", "boards:all")]
    [True, True, True, False]
    """
    match = _SCOPE.fullmatch(text)
    return text == ADMIN or (match is not None and (not match[3].startswith(LINK) or _is_link(match[1], match[2])))


def _is_link(resources: str, name: str | None) -> bool:
    return resources == "relays" and name is not None


class Grants:
    """What a set of scopes allows. A look-up costs the same however many there are.

    >>> grants = Grants(["boards:read", "boards/delays:subscribe"])
    >>> grants.allows(Need("boards", "subscribe", "delays")), grants.allows(Need("boards", "subscribe", "other"))
    (True, False)
    """

    __slots__ = ("_granted", "admin")

    def __init__(self, scopes: Iterable[str], first_version: bool = False) -> None:
        included = _FIRST_VERSION if first_version else INCLUDED
        granted = set()
        self.admin = False
        for scope in scopes:
            match = _SCOPE.fullmatch(scope)
            if scope == ADMIN:
                self.admin = True
            elif match is not None:
                resources, name, right = match.groups()
                granted |= {(resources, name or "", one) for one in included.get(right, (right,))}
        self._granted = frozenset(granted)

    def allows(self, need: Need) -> bool:
        """Whether what is needed is allowed; without a name, whether it is allowed of any resource."""
        if self.admin:
            return True
        resources, right, name = need
        granted = self._granted
        if (resources, "", right) in granted or (name is not None and (resources, name, right) in granted):
            return True
        if name is None:
            return any(one[0] == resources and one[2] == right for one in granted)
        return right.startswith(LINK) and (resources, "", LINK) in granted

    def names(self, resources: str, right: str) -> frozenset[str] | None:
        """The resources of a type of which a right is granted by name; None if it is granted of all."""
        if self.admin or (resources, "", right) in self._granted:
            return None
        return frozenset(one[1] for one in self._granted if one[0] == resources and one[2] == right)


EVERYTHING = Grants([ADMIN])
