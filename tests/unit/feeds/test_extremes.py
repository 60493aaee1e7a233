"""Lists of feeds against brute force, over the largest and the smallest places, bounds and weights that feeds take."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.feeds.config import FeedConfig
from indexes.feeds.theta import BUFFERS
from tests.oracles.feeds import Ask
from tests.unit.feeds.worlds import COMMON, World

TINY = 5e-324
NUMBERS = [0.0, -0.0, TINY, -TINY, 1e-300, 1e-160, 1.0, -1.0, 1e154, -1e160, 1e300, -1e300, math.nextafter(1.0, 2.0)]
WEIGHTS = [TINY, 1e-300, 2.2250738585072014e-308, 1e-150, 1.0, 1.0, 2.0, 1e150, 1e300]
ALPHAS = (0.0, TINY, 1e-300, 0.5, math.nextafter(1.0, 0.0), 1.0)

BOUNDS = {
    "all": (-1e300, -1e300, 1e300, 1e300),
    "none": (0.0, 0.0, TINY, TINY),
    "small": (-1e-300, -1e-160, 1e-300, 1e-160),
    "thin": (-1e300, 0.0, 1e300, TINY),
    "one": (-1.0, -1.0, 1.0, 1.0),
}


class Extreme(World):
    """What happens is drawn from the ends of what is allowed; places repeat, so that scores are equal."""

    def bag(self, most: int) -> dict[str, float]:
        words = self.rng.choice(COMMON[:6], int(self.rng.integers(1, min(most, 5) + 1)), replace=False)
        return {word: float(self.rng.choice(WEIGHTS)) for word in sorted(words.tolist())}

    def place(self) -> tuple[float, float]:
        x, y = self.rng.choice(NUMBERS, 2).tolist()
        # As at the door: there is no -0.
        return x + 0.0, y + 0.0

    def ask(self) -> Ask:
        return Ask(self.bag(4), self.place(), int(self.rng.choice([1, 2, 5])), float(self.rng.choice(ALPHAS)))

    def compare(self) -> None:
        super().compare()
        for found in self.before.values():
            assert all(0.0 <= score < math.inf for _, score in found)


@pytest.mark.parametrize("where", BOUNDS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), tfidf=st.booleans(), buffer=st.sampled_from(BUFFERS), timed=st.booleans())
def test_lists_are_those_of_brute_force(where: str, seed: int, tfidf: bool, buffer: str, timed: bool) -> None:
    span, posts = (3, None) if timed else (None, 20)
    world = Extreme(seed, FeedConfig(BOUNDS[where], posts, span, tfidf, buffer))
    world.subscribe(12)
    for step in range(12):
        world.post(int(world.rng.integers(1, 9)))
        match step % 4:
            case 0:
                world.change()
            case 1:
                world.withdraw()
            case 2 if timed:
                world.tick(step // 2)
            case 3:
                world.remove()
                world.subscribe(2)
    scores = np.array([score for found in world.before.values() for _, score in found])
    assert np.isfinite(scores).all()
