"""The state of a matcher's engine, as its plans work on it."""

from __future__ import annotations

import time
from typing import TypeAlias

import numpy as np

from indexes.core.arrays import Floats
from indexes.core.plan import Plan
from indexes.core.subscription_engine import SubscriptionStore
from indexes.matchers.commands import SubscriptionState
from indexes.matchers.config import MatcherConfig
from indexes.matchers.matcher import Matcher
from indexes.matchers.results import Matched, Winners


class MatcherStore(SubscriptionStore[SubscriptionState]):
    """A matcher with its seqs, lifetimes, live subscriptions and pending state."""

    def __init__(self, config: MatcherConfig, first_seq: int = 0, matcher: Matcher | None = None) -> None:
        super().__init__(first_seq)
        self.config = config
        self.matcher = matcher if matcher is not None else Matcher(config)
        self._seconds = {False: 2e-5, True: 2e-4}

    def winners(self, events: Floats, k: int = 20, explain: bool = False) -> Winners:
        """The `k` best subscriptions for each event, by column. Updates the estimate of `seconds_per_event`."""
        matcher, began = self.matcher, time.perf_counter()
        sizes, rows, scores, looked_at = matcher.winners(events, k)
        matched = None
        if explain:
            matched = Matched(self.config.dimensions, *matcher.matched(rows, np.repeat(events, sizes, axis=0)))
        won = Winners(sizes, matcher.names.texts(rows), scores, looked_at, matched)
        if len(events):
            spent = (time.perf_counter() - began) / len(events)
            self._seconds[explain] += 0.2 * (spent - self._seconds[explain])
        return won

    def seconds_per_event(self, explain: bool = False) -> float:
        """Estimate of the seconds that an event takes, from the latest ones."""
        return self._seconds[explain]


MatcherPlan: TypeAlias = Plan[MatcherStore]
