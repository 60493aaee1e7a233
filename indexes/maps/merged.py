"""What a change of a standing query makes of it."""

from __future__ import annotations

from indexes.commands import Fault
from indexes.maps.commands import ChangeQuery
from indexes.maps.model import Skyline, Standing, Top


def merged(before: Standing, change: ChangeQuery) -> tuple[Standing, list[Fault]]:
    """The query with the change, and why it cannot be: what concerns a top-k alone is said of a skyline."""
    location = before.location if change.location is None else change.location
    ttl = before.ttl if change.ttl is None else change.ttl or None
    if isinstance(before.question, Skyline):
        told = [name for name in ("k", "m", "ordered", "score") if getattr(change, name) is not None]
        faults = [Fault(name, "a skyline has none") for name in told]
        return Standing(before.question, location, ttl), faults
    was = before.question
    question = Top(
        was.k if change.k is None else change.k,
        was.score if change.score is None else change.score,
        was.m if change.m is None else change.m,
        was.ordered if change.ordered is None else change.ordered,
    )
    return Standing(question, location, ttl), []
