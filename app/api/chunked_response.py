"""Long responses, sent in pieces as they are ready."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from starlette.responses import Response, StreamingResponse

KEPT = 10_000
"""Subscriptions up to which a retry gets them again; beyond, it gets only the seq."""

PIECE = 50_000
"""Subscriptions in one piece of a long response."""

INLINE = 1_000
"""Subscriptions up to which they are written on the event loop."""

WHOLE = 1 << 20
"""Bytes from which on a response is sent in pieces."""


END = b"]}\n"
"""The end of a response whose last field is a list."""


PLACES = "places"
"""The member of a kept response that has the places of its results in the body; a retry does not see it."""


def numbered(answer: dict[str, Any]) -> dict[str, Any]:
    """A kept response with the indexes of its results: with `skip`, those that no error is about."""
    if "errors" not in answer or "results" not in answer:
        return answer
    kept = answer.get(PLACES)
    if kept is None:
        skipped = {error["index"] for error in answer["errors"]}
        places = (at for at in range(len(skipped) + len(answer["results"])) if at not in skipped)
    else:
        places = iter(kept)
    results = [{"index": at, **result} for at, result in zip(places, answer["results"], strict=False)]
    return {**{name: value for name, value in answer.items() if name != PLACES}, "results": results}


def opened(answer: dict[str, Any], name: str) -> bytes:
    """JSON text of a response, up to the start of a list of this name, which comes last."""
    return f'{json.dumps(answer, separators=(",", ":"))[:-1]},"{name}":['.encode()


async def in_pieces(count: int, write: Callable[[range], str]) -> AsyncIterator[bytes]:
    """What `write` returns for `count` subscriptions, some at a time; for many it runs in a thread."""
    for start in range(0, count, PIECE):
        at = range(start, min(start + PIECE, count))
        text = write(at) if len(at) <= INLINE else await asyncio.to_thread(write, at)
        yield text.encode()


def portions(sizes: Iterable[int], most: int, room: int) -> Iterator[range]:
    """Elements of these sizes in portions: each up to `most` of them, which together are no larger than `room`, or one
    that is.

    >>> list(portions([3, 3, 9, 1, 1, 1], 2, 6))
    [range(0, 2), range(2, 3), range(3, 5), range(5, 6)]
    """
    begin = end = taken = 0
    for size in sizes:
        if end > begin and (end - begin >= most or taken + size > room):
            yield range(begin, end)
            begin, taken = end, 0
        end, taken = end + 1, taken + size
    if end > begin:
        yield range(begin, end)


def fitting(sizes: Iterable[int], room: int) -> int:
    """How many of the first elements of these sizes find room together.

    >>> fitting([3, 3, 9, 1], 14), fitting([3, 3], 6)
    (2, 2)
    """
    found = 0
    for size in sizes:
        room -= size
        if room < 0:
            break
        found += 1
    return found


async def answer_of(parts: AsyncIterator[bytes], status: int = 200) -> Response:
    """JSON in parts as a response: whole if it is short."""
    whole = await _up_to(parts, WHOLE)
    if len(whole) < WHOLE:
        return Response(whole, status, media_type="application/json")
    return StreamingResponse(_after(whole, parts), status, media_type="application/json")


async def streamed(start: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A response that begins with `start` and ends with a list, sent as its pieces are ready."""
    separator = start
    async for piece in pieces:
        yield b"".join((separator, piece))
        separator = b","
    yield start + END if separator is start else END


async def _up_to(parts: AsyncIterator[bytes], size: int) -> bytes:
    """The first parts that have `size` bytes together, or all."""
    found, length = [], 0
    async for part in parts:
        found.append(part)
        length += len(part)
        if length >= size:
            break
    return b"".join(found)


async def _after(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in parts:
        yield part
