"""Results of a matcher: subscriptions, winners, and the wins of live subscriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from indexes.core.arrays import Bools, Floats, Ints
from indexes.core.texts import Texts
from indexes.matchers.config import Row, Value
from indexes.matchers.forms import Form


class SubscriptionView(NamedTuple):
    """A subscription as the user wrote it; `ttl` in seconds or None."""

    id: str
    form: Form
    ttl: float | None


class SubscriptionSet(NamedTuple):
    """What a change of a subscription brings about: the subscription `row` and its `ttl` as they are at `seq`, and
    whether it was `made`. What changes nothing has the seq before it."""

    id: str
    row: Row
    ttl: float | None
    seq: int
    made: bool


class Winner(NamedTuple):
    """A winner of an event. `matched`, with `explain`, is what each dimension that matches added: its weight, None in
    exact mode."""

    id: str
    score: float
    matched: Mapping[str, float | None] | None = None


class Result(NamedTuple):
    """The winners of an event, best first, and how many index entries were looked at."""

    winners: list[Winner]
    looked_at: int

    def fields(self, explain: bool) -> dict[str, Any]:
        """Fields of a response."""
        if not explain:
            return {"winners": [{"id": won.id, "score": _shown(won.score)} for won in self.winners]}
        winners = [
            {
                "id": won.id,
                "score": _shown(won.score),
                "matched": {n: _shown(w) for n, w in (won.matched or {}).items()},
            }
            for won in self.winners
        ]
        return {"winners": winners, "looked_at": self.looked_at}


def _shown(score: float | None) -> float | None:
    """A number as in responses: integers up to 2^53 without a fraction."""
    return int(score) if score is not None and abs(score) <= 1 << 53 and score == int(score) else score


class Matched(NamedTuple):
    """`Winner.matched` of many winners, by column: winner i meets the event in dimension j where `met[i, j]`, which
    adds `added[i, j]`, or None in exact mode."""

    dimensions: tuple[str, ...]
    met: Bools
    added: Floats | None

    def by_winner(self) -> list[dict[str, float | None]]:
        """Winner by winner. O(n d)."""
        added: list[list[float | None]]
        added = [[None] * len(self.dimensions)] * len(self.met) if self.added is None else self.added.tolist()
        return [
            {name: value for name, there, value in zip(self.dimensions, met, values, strict=True) if there}
            for met, values in zip(self.met.tolist(), added, strict=True)
        ]


class Winners(NamedTuple):
    """The winners of several events by column, one event behind the other, each best first.

    `sizes[t]` of them are event t's, for which `looked_at[t]` index entries were read. `matched` is there if asked
    for.
    """

    sizes: Ints
    names: Texts
    scores: Floats
    looked_at: Ints
    matched: Matched | None = None

    @property
    def ids(self) -> pa.LargeStringArray:
        """The ids of the winners."""
        return self.names.array()

    def results(self) -> Iterator[Result]:
        """Event by event."""
        ids, scores, start = self.ids.to_pylist(), self.scores.tolist(), 0
        matched: list[Any] = [None] * len(ids) if self.matched is None else self.matched.by_winner()
        for n, looked_at in zip(self.sizes.tolist(), self.looked_at.tolist(), strict=True):
            at = slice(start, start + n)
            yield Result([Winner(*won) for won in zip(ids[at], scores[at], matched[at], strict=True)], looked_at)
            start += n


class Win(NamedTuple):
    """A win of a live subscription: `rank` counts from 1, `payload` is compact JSON text."""

    seq: int
    id: str
    values: dict[str, Value]
    payload: bytes | None
    rank: int
    score: float


class Slice(NamedTuple):
    """Notifications of live subscriptions up to `last_seq`: wins, and (seq, id) of those that were deleted."""

    last_seq: int
    wins: list[Win]
    gone: list[tuple[int, str]]
