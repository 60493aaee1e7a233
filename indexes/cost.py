"""What changes cost, learnt as they are made."""

from __future__ import annotations


class Cost:
    """What one of many changes takes, in seconds, as the latest have shown: a costly one counts at once, and is
    forgotten slowly."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def learn(self, spent: float, changes: int) -> None:
        """So many took so long together."""
        each = spent / max(1, changes)
        self.seconds = each if each > self.seconds else self.seconds + 0.1 * (each - self.seconds)

    def fit(self, budget: float, most: int = 1 << 30) -> int:
        """How many fit in a budget, at least one and at most so many."""
        return max(1, int(min(budget / self.seconds, most)))
