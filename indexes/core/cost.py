"""Estimates of what changes cost, learnt as they are made."""

from __future__ import annotations

LEAST = 1e-9
"""Least seconds of a pass."""

WATCHED = 16
"""Most passes after a costly one that are timed by the thread's clock."""


class Cost:
    """A running estimate of the processor seconds of one change in a pass of several: raised at once by a costly pass,
    lowered slowly.

    A `fixed` estimate is not changed. `apart` is the overhead of a pass in seconds, which does not count: it would
    dominate passes of a single change.

    Passes of several changes are timed by the thread's clock, which takes 1.5 us to read; those of a single one by the
    wall clock, which takes 0.1 us (`learn_passed`), unless `by_thread` is set. It is set for some passes after one that
    took longer than `apart`, at most `WATCHED`: a long time on the wall clock does not count, since other processes may
    have had it, but the next changes are timed exactly.
    """

    def __init__(self, seconds: float, fixed: bool = False, apart: float = 0.0) -> None:
        self.seconds = seconds
        self.fixed = fixed
        self._apart = apart
        self.by_thread = True
        self._watched = 1

    def learn(self, spent: float, changes: int) -> None:
        """Note a pass of `changes` changes in `spent` seconds of the thread."""
        if self.fixed:
            return
        if self.by_thread or spent > self._apart:
            self._watch(spent)
        each = max(LEAST, spent - self._apart) / max(1, changes)
        self.seconds = each if each > self.seconds else self.seconds + 0.1 * (each - self.seconds)

    def learn_passed(self, passed: float) -> None:
        """Note a pass of a single change in `passed` seconds of the wall clock. It does not count above `apart`."""
        if passed <= self._apart:
            self.learn(passed, 1)
        else:
            self._watch(passed)

    def _watch(self, seconds: float) -> None:
        """Set `by_thread`, after a pass of `seconds` by either clock."""
        self._watched = max(self._watched - 1, min(WATCHED, int(seconds / max(LEAST, self._apart))))
        self.by_thread = self._watched > 0

    def fit(self, budget: float, most: int = 1 << 30) -> int:
        """The number of changes that fit in a budget of seconds, from 1 to `most`."""
        return max(1, int(min(budget / self.seconds, most)))
