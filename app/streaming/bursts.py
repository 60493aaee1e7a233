"""Bursts: consecutive requests of a socket that differ only in their references, in the id at the end of their path
where they have one, and in their bodies.

A client that pipelines sends most requests so. A kernel finds references and what follows in the joined text of the
frames: no Python object is made for a request but its reference, and its kind parses the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from app.streaming.requests import FEWEST
from indexes.compiled.text import Pieces, pieces_of
from indexes.core.arrays import Bytes, Ints
from indexes.core.cutting import cut_requests

LONGEST_HEAD = 1 << 9
"""Characters of a request before its body."""

BEHIND = 1 << 10
"""Padding after the last request: kernels read beyond its end."""

_HEAD = re.compile(
    r'({ *"op" *: *"request" *, *"ref" *: *)[0-9]{1,15}'
    r'( *, *"method" *: *"([A-Z]+)" *, *"path" *: *"([!#-\[\]-~]*)" *, *"body" *: *)'
)
"""A request up to its body: the text before and after its reference, its method and its path."""


class Head(NamedTuple):
    """What all requests of a burst share: the text before and after their references, the method and the path, which
    may be `to_id`: all of it but the last part.
    """

    before: str
    behind: str
    method: str
    path: str
    to_id: bool = False

    def up_to_id(self) -> Head:
        """The same, but for the last part of the path, which is an id, and what follows it.

        >>> head_of('{"op":"request","ref":7,"method":"PUT","path":"/v1/maps/m/objects/o1","body":{}}').up_to_id()
        Head(before='{"op":"request","ref":', behind=',"method":"PUT","path":"/v1/maps/m/objects/', \
method='PUT', path='/v1/maps/m/objects/', to_id=True)
        """
        path = self.path[: self.path.partition("?")[0].rindex("/") + 1]
        behind = self.behind[: self.behind.index(path) + len(path)]
        return self._replace(behind=behind, path=path, to_id=True)


class Burst(NamedTuple):
    """Requests, with their `frames` and `refs`. What the i-th has behind the head, up to the last brace, is
    ``text[spans[2 * i] : spans[2 * i + 1]]``: its body, or its id and what follows.
    """

    head: Head
    frames: Sequence[str]
    refs: list[int]
    text: Bytes
    spans: Ints

    def part(self, count: int) -> Burst:
        """The first `count` requests. O(count)."""
        if count == len(self.refs):
            return self
        return Burst(self.head, self.frames[:count], self.refs[:count], self.text, self.spans[: 2 * count])


def head_of(frame: str) -> Head | None:
    """The head of a request as most JSON encoders write it; None if it has headers, or another order of fields.

    >>> head_of('{"op":"request","ref":7,"method":"POST","path":"/v1/feeds/f/posts","body":{}}')
    Head(before='{"op":"request","ref":', behind=',"method":"POST","path":"/v1/feeds/f/posts","body":', \
method='POST', path='/v1/feeds/f/posts', to_id=False)
    """
    found = _HEAD.match(frame, 0, LONGEST_HEAD)
    return None if found is None else Head(found[1], found[2], found[3], found[4])


def cut_burst(head: Head, frames: Sequence[str]) -> Burst | None:
    """The longest prefix of requests with this head; None if it is shorter than `FEWEST`. O(bytes)."""
    joined = "\n".join(frames)
    if joined.count("\n") != len(frames) - 1:
        return None
    data = joined.encode()
    text = np.frombuffer(b"%b\n%b" % (data, bytes(BEHIND)), np.uint8)
    refs, spans = np.empty(len(frames), np.int64), np.empty(2 * len(frames), np.int64)
    count = cut_requests(text, _pieces(head.before, head.behind), refs, spans)
    return None if count < FEWEST else Burst(head, frames, refs.tolist(), text, spans).part(count)


@lru_cache(maxsize=64)
def _pieces(before: str, behind: str) -> Pieces:
    """The text before a reference, and that behind it."""
    return pieces_of([before, behind])
