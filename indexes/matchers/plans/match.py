"""The plan of matched events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from indexes.core.plan import Plan
from indexes.matchers.commands import Match
from indexes.matchers.config import Value
from indexes.matchers.forms import values_of
from indexes.matchers.results import Result, Slice, Win, Winners
from indexes.matchers.store import MatcherStore

WINNERS = 1 << 15
"""Winners of a slice, at most."""


class MatchPlan(Plan[MatcherStore]):
    """Events matched in their turn; `found` are their winners, in pieces. With `notify` each takes a seq, and live
    subscriptions are notified of their wins; without it nothing is logged and nobody is notified."""

    command: Match

    def __init__(self, engine: MatcherStore, command: Match, notify: bool) -> None:
        super().__init__(engine, command, len(command) if notify else 0)
        self.found: list[Winners] = []
        self._notify = notify
        self._executed = 0
        self._published = 0
        self.done = len(command) == 0

    @property
    def results(self) -> list[Result]:
        """The winners, event by event."""
        return [result for part in self.found for result in part.results()]

    @property
    def work(self) -> float:
        if self.silent:
            return 0.0
        return (len(self.command) - self._executed) * self.engine.seconds_per_event(self.command.explain)

    def response_fields(self) -> dict[str, Any]:
        return {"results": [result.fields(self.command.explain) for result in self.results]}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return self.results_of(answer)

    def execute(self, budget: float) -> None:
        engine, command, lo = self.engine, self.command, self._executed
        if self.silent:
            self._executed = len(command)
            return
        most = min(int(budget / engine.seconds_per_event(command.explain)), WINNERS // command.k)
        self._executed = hi = min(len(command), lo + max(1, most))
        self.found.append(engine.winners(command.events[lo:hi], command.k, command.explain))

    def publish(self) -> Slice | None:
        lo, hi = self._published, self._executed
        self._published = hi
        self.done = hi == len(self.command)
        if not self._notify:
            return None
        self.engine.seq = self.first_seq + hi - 1
        if self.silent or not self.engine.watched or hi == lo:
            return None
        wins = list(self._wins(self.found[-1], lo))
        return Slice(self.engine.seq, wins, []) if wins else None

    def _wins(self, found: Winners, first: int) -> Iterator[Win]:
        """The wins of live subscriptions among the winners of some events, which begin with event `first`."""
        command, ends = self.command, np.cumsum(found.sizes)
        watched, ids = self.engine.watched, found.ids.to_pylist()
        values: dict[str, Value] = {}
        before = -1
        for place in [at for at, key in enumerate(ids) if key in watched]:
            t = int(np.searchsorted(ends, place, "right"))
            if t != before:
                values, before = values_of(self.engine.config, command.events[first + t]), t
            rank = place - int(ends[t] - found.sizes[t]) + 1
            payload = command.payload.get(first + t)
            score = float(found.scores[place])
            yield Win(self.first_seq + first + t, ids[place], values, payload, rank, score)
