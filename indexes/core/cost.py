"""Estimates of what changes cost, learnt as they are made."""

from __future__ import annotations

LEAST = 1e-9
"""Seconds that changes take together, at least."""

WATCHED = 16
"""Passes after a costly one in which changes are timed by their thread, at most."""


class Cost:
    """Seconds that one of many changes takes. A costly change counts at once and is forgotten slowly.

    A `fixed` cost is not learnt. Of what changes take together `apart` seconds do not count: a pass takes them however
    few it makes, so that one of a single change says little about one of many.

    Costs are times of a thread. They are taken `by_thread` in as many passes after one as it took times `apart`. In
    others a single change is timed by the wall clock (`learn_passed`), which takes a tenth of a microsecond, the
    thread's 1.5. A costly one among those does not count, but others soon after it do.
    """

    def __init__(self, seconds: float, fixed: bool = False, apart: float = 0.0) -> None:
        self.seconds = seconds
        self.fixed = fixed
        self._apart = apart
        self.by_thread = True
        self._watched = 1

    def learn(self, spent: float, changes: int) -> None:
        """`changes` took `spent` seconds together."""
        if self.fixed:
            return
        if self.by_thread or spent > self._apart:
            self._watch(spent)
        each = max(LEAST, spent - self._apart) / max(1, changes)
        self.seconds = each if each > self.seconds else self.seconds + 0.1 * (each - self.seconds)

    def learn_passed(self, passed: float) -> None:
        """While a single change was made, so many seconds passed. If these are more than `apart`, other processes may
        have had them: the next changes are timed by their thread."""
        if passed <= self._apart:
            self.learn(passed, 1)
        else:
            self._watch(passed)

    def _watch(self, seconds: float) -> None:
        """A pass took so long by some clock."""
        self._watched = max(self._watched - 1, min(WATCHED, int(seconds / max(LEAST, self._apart))))
        self.by_thread = self._watched > 0

    def fit(self, budget: float, most: int = 1 << 30) -> int:
        """How many changes fit in a budget of seconds, at least one and at most `most`."""
        return max(1, int(min(budget / self.seconds, most)))
