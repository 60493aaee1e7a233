"""Links of relays as manifests and the log hold them, with sealed keys where the process has something to seal with.

A sealed key is text that begins with `SEALED`. Without the sealer it is read as that text: whoever only reads, such as
a job on Spark, needs no secret, and a service does not send it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol

from indexes.relays.config import Link

SEALED = "sealed:"


class Sealer(Protocol):
    """What seals texts and opens them again."""

    def seal(self, text: str, /) -> str:
        """A text that only the same sealer opens."""

    def open(self, sealed: str, /) -> str | None:
        """The text that was sealed; None where another sealer did that, or it was changed."""


_sealers: list[Sealer] = []


def seal_with(sealer: Sealer | None) -> None:
    """Seal keys with this from now on; None: leave them as they are."""
    _sealers[:] = [] if sealer is None else [sealer]


def link_fields(link: Link) -> dict[str, Any]:
    """A link as it is stored."""
    fields = asdict(link)
    if link.key is not None and _sealers and not link.key.startswith(SEALED):
        fields["key"] = SEALED + _sealers[0].seal(link.key)
    return fields


def link_of(fields: dict[str, Any]) -> Link:
    """The link that is stored so."""
    link = Link(**fields)
    if link.key is None or not link.key.startswith(SEALED) or not _sealers:
        return link
    opened = _sealers[0].open(link.key.removeprefix(SEALED))
    return link if opened is None else Link(link.url, link.relay, link.link, opened, link.private)
