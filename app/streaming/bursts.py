"""Requests that came on a socket one behind the other and differ in their references and bodies alone.

A program that keeps many requests under way sends most of them so. They are cut out of one text by a kernel: no object
of Python is made for any but its reference, and a body is read by who knows what it may say.
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
"""Bytes behind the last request, which kernels may read."""

_HEAD = re.compile(
    r'({ *"op" *: *"request" *, *"ref" *: *)[0-9]{1,15}'
    r'( *, *"method" *: *"([A-Z]+)" *, *"path" *: *"([!#-\[\]-~]*)" *, *"body" *: *)'
)
"""A request up to its body: what is before and behind its reference, its method and its path."""


class Head(NamedTuple):
    """What requests of a burst have in common: the text before and behind their references, method and path."""

    before: str
    behind: str
    method: str
    path: str


class Burst(NamedTuple):
    """The references of requests, which are these `frames`, and their bodies: places in a text, two by two."""

    frames: Sequence[str]
    refs: list[int]
    text: Bytes
    spans: Ints

    def part(self, count: int) -> Burst:
        """The first `count` requests. O(count)."""
        if count == len(self.refs):
            return self
        return Burst(self.frames[:count], self.refs[:count], self.text, self.spans[: 2 * count])


def head_of(frame: str) -> Head | None:
    """The head of a request as most programs write it; None where it has headers, or is written in another way.

    >>> head_of('{"op":"request","ref":7,"method":"POST","path":"/v1/feeds/f/posts","body":{}}')
    Head(before='{"op":"request","ref":', behind=',"method":"POST","path":"/v1/feeds/f/posts","body":', \
method='POST', path='/v1/feeds/f/posts')
    """
    found = _HEAD.match(frame, 0, LONGEST_HEAD)
    return None if found is None else Head(found[1], found[2], found[3], found[4])


def cut_burst(head: Head, frames: Sequence[str]) -> Burst | None:
    """As many of the requests, from the first one on, as have this head; None where they are few. O(bytes)."""
    joined = "\n".join(frames)
    if joined.count("\n") != len(frames) - 1:
        return None
    data = joined.encode()
    text = np.frombuffer(b"%b\n%b" % (data, bytes(BEHIND)), np.uint8)
    refs, spans = np.empty(len(frames), np.int64), np.empty(2 * len(frames), np.int64)
    count = cut_requests(text, _pieces(head.before, head.behind), refs, spans)
    return None if count < FEWEST else Burst(frames, refs.tolist(), text, spans).part(count)


@lru_cache(maxsize=64)
def _pieces(before: str, behind: str) -> Pieces:
    """The text before a reference, and that behind it."""
    return pieces_of([before, behind])
