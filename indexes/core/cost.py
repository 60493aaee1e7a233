"""Estimates of what changes cost, learnt as they are made."""

from __future__ import annotations

LEAST = 1e-9
"""Seconds that changes take together, at least."""


class Cost:
    """Seconds that one of many changes takes. A costly change counts at once and is forgotten slowly.

    A `fixed` cost is not learnt. Of what changes take together `apart` seconds do not count: a pass takes them however
    few it makes, so that one of a single change says little about one of many.

    Costs are times of a thread. They are taken `by_thread` unless the last pass took no more than `apart`: then a
    single change is timed by the wall clock (`learn_passed`), which takes a tenth of a microsecond, the thread's 1.5.
    """

    def __init__(self, seconds: float, fixed: bool = False, apart: float = 0.0) -> None:
        self.seconds = seconds
        self.fixed = fixed
        self._apart = apart
        self.by_thread = True

    def learn(self, spent: float, changes: int) -> None:
        """`changes` took `spent` seconds together."""
        if self.fixed:
            return
        self.by_thread = spent > self._apart
        each = max(LEAST, spent - self._apart) / max(1, changes)
        self.seconds = each if each > self.seconds else self.seconds + 0.1 * (each - self.seconds)

    def learn_passed(self, passed: float) -> None:
        """While a single change was made, so many seconds passed. If these are more than `apart`, other processes may
        have had them: the next change is timed by its thread."""
        if passed <= self._apart:
            self.learn(passed, 1)
        else:
            self.by_thread = True

    def fit(self, budget: float, most: int = 1 << 30) -> int:
        """How many changes fit in a budget of seconds, at least one and at most `most`."""
        return max(1, int(min(budget / self.seconds, most)))
