"""Bursts whose requests differ in their ids and numbers alone, as those of a program do.

All ids and numbers are cut out of the joined text by one kernel, and only the body of the first request goes through
the validator, with an index in place of each number. It is exact: what is cut can be put together again, and a burst
that is not surely of one shape is read request by request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator, from_json

from app.api.together.kind import Elsewhere, ShortBurst
from app.streaming.bursts import Burst
from app.streaming.requests import FEWEST
from indexes.compiled.decimals import POWERS
from indexes.compiled.text import pieces_of
from indexes.core.arrays import Floats
from indexes.core.cutting import IN_ID, cut_elements, numbers_of, room

MOST_NUMBERS = 64
"""Numbers of a body, at most."""

_NO_ID = 1 << 10
"""No variable of a request."""

_ID = re.compile(rb'[A-Za-z0-9._:-]+(?=["?])')
"""An id, behind which the path ends or a query begins."""

_BODY = re.compile(rb'"body" *: *')
_NUMBER = re.compile(rb'"[^"]*"|(-?[0-9][-+.0-9eE]*)')
"""A string of JSON without backslashes, or a number."""

_BEFORE = b"[,: \t\r\n"
"""What a number of JSON may stand behind: with an index in place of it the body is no more JSON than before."""


class Shaped(NamedTuple):
    """Requests by column: their ids, none where their path has none, and `numbers` of shape (numbers of a body,
    requests). All have this `body`, in which a number is the index of its row."""

    ids: list[str]
    body: dict[str, Any]
    numbers: Floats

    def bodies(self) -> list[dict[str, Any]]:
        """The body of each. O(values)."""
        filled: list[dict[str, Any]] = _filled(self.body, self.numbers.tolist(), self.numbers.shape[1])
        return filled


class _Shape(NamedTuple):
    """What requests have in common behind the head: the text up to the first number, without the id, that between any
    two numbers, and that behind the last one; and the body, as JSON, with the index of each number in place of it."""

    within: list[str]
    end: str
    body: bytes


def read_shaped(short: ShortBurst, validator: SchemaValidator) -> Shaped:
    """The requests of a burst by column. Raises `Elsewhere` unless all surely have one shape, and ValidationError.
    O(bytes).

    The validator has seen indexes, and no number: the caller has to make sure that only such fields have numbers for
    which every number is valid.
    """
    shaped = cut_shaped(short.requests)
    if shaped is None:
        raise Elsewhere
    return shaped._replace(body=validator.validate_python(shaped.body))


def keep_distinct(short: ShortBurst, shaped: Shaped) -> Shaped:
    """The requests before the first one with an id that came before; the others are cut off the burst. Raises
    `Elsewhere` where few are left. O(n)."""
    ids, seen = shaped.ids, set[str]()
    if len(set(ids)) == len(ids):
        return shaped
    for id in ids:
        if id in seen:
            break
        seen.add(id)
    n = len(seen)
    if n < FEWEST:
        raise Elsewhere
    short.keep(n)
    return shaped._replace(ids=ids[:n], numbers=shaped.numbers[:, :n])


def cut_shaped(burst: Burst) -> Shaped | None:
    """The requests of a burst by column, not validated; None where they may not have one shape. O(bytes)."""
    text, head, n, spans = burst.text, burst.head, len(burst.refs), burst.spans
    shape = _shape_of(text[spans[0] : spans[1]].tobytes(), head.to_id)
    if shape is None:
        return None
    begin, end = len(head.before), int(spans[2 * n - 1]) - len(shape.end)
    if begin >= end or text[end : spans[2 * n - 1]].tobytes() != shape.end.encode():
        return None
    # The first variable is the reference, and a brace closes each request.
    behind = [head.behind, *shape.within] if head.to_id else [head.behind + shape.within[0], *shape.within[1:]]
    pieces = pieces_of([*behind, f"{shape.end}}}\n{head.before}"])
    out = room(end - begin, pieces, 1 + len(shape.within))
    found, size, unread = cut_elements(text, begin, end, pieces, 1 if head.to_id else _NO_ID, IN_ID, POWERS, out)
    numbers = numbers_of(out, text, n, unread) if found == n else None
    if numbers is None:
        return None
    ids = out.ids[:size].tobytes().decode().split(" ")[:-1]
    return Shaped(ids, from_json(shape.body, allow_inf_nan=False), numbers[1:])


def _shape_of(first: bytes, has_id: bool) -> _Shape | None:
    """The shape of requests, by what the first one has behind the head; None where it has no number, may have one in a
    string, or is not JSON around one. O(bytes)."""
    at = start = 0
    if has_id:
        id, body = _ID.match(first), _BODY.search(first)
        if id is None or body is None:
            return None
        at, start = id.end(), body.end()
    if b"\\" in first or not first.isascii():
        return None
    texts, places = list[str](), list[bytes]()
    for number in _NUMBER.finditer(first, start):
        if number[1] is not None:
            begin, end = number.span()
            if begin > start and first[begin - 1] not in _BEFORE:
                return None
            texts.append(first[at:begin].decode())
            places.append(b"%b%d" % (first[max(at, start) : begin], len(places)))
            at = end
    if not 1 <= len(places) <= MOST_NUMBERS:
        return None
    return _Shape(texts, first[at:].decode(), b"".join(places) + first[at:])


def _filled(value: Any, rows: Sequence[list[float]], n: int) -> list[Any]:
    """The value of a body in each of n requests, with the numbers of the row in place of its index. O(n values)."""
    match value:
        case dict() if value:
            columns = [_filled(one, rows, n) for one in value.values()]
            return [dict(zip(value, each, strict=True)) for each in zip(*columns, strict=True)]
        case list() if value:
            return [list(each) for each in zip(*[_filled(one, rows, n) for one in value], strict=True)]
        case int() | float() if not isinstance(value, bool):
            return rows[int(value)]
    return [value] * n
