"""Messages of a source, spans of them, and what was refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SHOWN = 1_000
"""Characters of a message that is too large to be kept whole in its dead letter."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Positions of a lane are in ascending order; a lane is a part of the source with an order of its
    own, such as a partition. `handle` is what its source needs to acknowledge it, `fault` why it has no data, `term`
    that of its span.
    """

    position: str
    data: bytes
    lane: str = ""
    handle: Any = None
    fault: str = ""
    term: int = 0


class Chunk(NamedTuple):
    """What a source has read of one lane, in order. One with a `span` has all that is left of a request that may have
    been sent before, and goes out as that request.
    """

    lane: str
    messages: Sequence[Message]
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """The messages of one request: from `first` to `last`, both included. `term` tells whether the lane was given up
    and taken again since.
    """

    lane: str
    first: str
    last: str
    term: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """What is wrong with a field of an event; an empty field is the whole of it."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What was refused, and why. `index` is the event's place in its message; None: the whole message.

    Where the service lists fewer errors than there are, what may have been refused is `certain` neither way.
    """

    position: str
    lane: str
    index: int | None
    reasons: tuple[Reason, ...]
    text: str = field(repr=False)
    certain: bool = True

    def record(self, source: str, most: int) -> bytes:
        """The letter as JSON of at most so many bytes: the event, or the message as it came."""
        shown: dict[str, Any] = {"source": source, "position": self.position}
        if self.lane:
            shown["partition"] = self.lane
        shown |= {"index": self.index, "errors": [{"field": one.field, "reason": one.reason} for one in self.reasons]}
        if not self.certain:
            shown["certain"] = False
        try:
            whole = _packed({**shown, **_content(self.text, self.index is not None)})
        except (ValueError, RecursionError):
            # Python reads numbers that are no JSON once they are written.
            whole = _packed({**shown, "data": self.text})
        if len(whole) <= most:
            return whole
        return _packed({**shown, "data": self.text[:SHOWN], "cut": True})


def _content(text: str, event: bool) -> Mapping[str, Any]:
    return {"event": json.loads(text)} if event else {"data": text}


def _packed(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
