"""The attributes of a map's objects: their names, which end is better, and the values that they may have."""

from __future__ import annotations

from typing import NamedTuple


class Attribute(NamedTuple):
    """One attribute; `range` is what its values may be, or None. Static values inside are negated where `high`, so that
    smaller is better."""

    name: str
    high: bool = False
    range: tuple[float, float] | None = None
