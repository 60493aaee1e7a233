"""The attributes of the objects of a map: names, directions and ranges."""

from __future__ import annotations

from typing import NamedTuple


class Attribute(NamedTuple):
    """One attribute; `high`: larger values are better; `range` limits its values. Static values inside are negated
    where `high`, so that smaller is better."""

    name: str
    high: bool = False
    range: tuple[float, float] | None = None
