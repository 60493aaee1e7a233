"""What stands of a matcher's subscriptions once accepted commands have been applied: see `indexes.promised`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.matchers.model import Subscriptions


class Standing(NamedTuple):
    """A subscription, as columns of one row, and its time limit in seconds or None."""

    subscription: Subscriptions
    ttl: float | None

    def same(self, other: Standing) -> bool:
        """Whether both are the same subscription, by value."""
        pairs = zip(self.subscription, other.subscription, strict=True)
        return self.ttl == other.ttl and all(np.array_equal(a, b) for a, b in pairs)
