"""Resident bytes of a subscription in the summary, each resource in a fresh process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.summary.memory import OBJECTS, POSTS, K, measure
from bench.summary.rows import Row

BEFORE = {"matchers": 107.0, "relays": 1_140.0, "maps": 3_607.0, "feeds": 2_185.0}
"""Bytes when they were first measured, at the sizes of `QUICK`; half of it is wanted."""

BOARDS = 64.0

HELD = {
    "boards": (
        "one range",
        "two ends and a row number by slot, with free ones, and by row; 7 of the id, which is front-coded",
    ),
    "matchers": (
        "one interval",
        "an interval with its score in table, base and cells; {id:.0f} of the id",
    ),
    "relays": (
        "2 attributes",
        "a point of four numbers in the table and two indexes with their room; {id:.0f} of the id",
    ),
    "maps": (
        f"top-{K} with m = {K}, {OBJECTS:,} objects",
        f"an answer of {2 * K - 1} objects as cells of two lists, its box in the index, {{id:.0f}} of the id",
    ),
    "feeds": (
        f"a list of {K}, 1 to 5 words, {POSTS:,} posts",
        f"a buffer of about {2 * K} posts with scores, words as shown and as indexed, {{id:.0f}} of the id",
    ),
}
"""What a subscription of each resource is, and what of it is kept."""


class Size(NamedTuple):
    """Subscriptions of each resource."""

    boards: int = 2_000_000
    matchers: int = 1_000_000
    relays: int = 1_000_000
    maps: int = 100_000
    feeds: int = 300_000


QUICK = Size(relays=500_000, maps=30_000, feeds=50_000)


def resident(size: Size) -> Iterator[Row]:
    """Bytes of a subscription with its id."""
    for resource, m in size._asdict().items():
        found = measure(resource, m)
        what, limit = HELD[resource]
        before = BEFORE.get(resource)
        wanted = BOARDS if before is None else before / 2
        yield Row(
            f"resident bytes of a subscription with its id: {resource}",
            f"{m:,} subscriptions, {what}",
            f"{wanted:,.0f} bytes" + ("" if before is None else f", half of {before:,.0f}"),
            f"{found.bytes:,.0f} bytes",
            found.bytes <= wanted,
            limit=limit.format(id=found.text + ID_NUMBERS),
        )


ID_NUMBERS = 16
"""Bytes of an id besides its text: an offset, a row, and where it is by row."""
