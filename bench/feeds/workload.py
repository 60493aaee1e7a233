"""Posts and subscriptions: words by Zipf's law, clustered places, uniform alpha.

Word 0 is the rarest. Weights are idf as the distribution has it, so that feeds weigh them as "given".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats
from indexes.feeds.words import Documents

TOWNS = 200


class World(NamedTuple):
    vocabulary: int
    subscriptions: Documents
    homes: Floats  # (n, 2)
    alpha: Floats
    posts: Documents
    places: Floats


def make_world(
    subscriptions: int,
    posts: int,
    vocabulary: int = 50_000,
    words: tuple[int, int] = (1, 5),
    post_words: tuple[int, int] = (5, 15),
    seed: int = 1,
) -> World:
    """A world with so many of each. `words` and `post_words` are the least and greatest numbers of different words."""
    rng = np.random.default_rng(seed)
    likely = 1.0 / np.arange(vocabulary, 0, -1)
    likely /= likely.sum()
    idf = np.log1p(1 / (1 - (1 - likely) ** (sum(post_words) / 2)))
    middle, size = rng.random((TOWNS, 2)), 0.003 + 0.03 * rng.random(TOWNS)
    town = np.arange(1, TOWNS + 1) ** -0.8
    town /= town.sum()

    def places(n: int) -> Floats:
        which = rng.choice(TOWNS, n, p=town)
        points = middle[which] + rng.normal(size=(n, 2)) * size[which, None]
        anywhere = rng.random(n) < 0.15
        points[anywhere] = rng.random((int(anywhere.sum()), 2))
        return np.clip(points, 0, 1)

    def documents(n: int, least: int, most: int) -> Documents:
        """Documents of random words: more are drawn than needed, and the first different ones are kept."""
        count, wide, edges = rng.integers(least, most + 1, n), 3 * most + 5, np.cumsum(likely)
        drawn = np.searchsorted(edges, rng.random((n, wide))).clip(0, vocabulary - 1)
        order = np.argsort(drawn, axis=1, kind="stable")
        ranked = np.take_along_axis(drawn, order, axis=1)
        again = np.zeros_like(ranked, bool)
        again[:, 1:] = ranked[:, 1:] == ranked[:, :-1]
        fresh = np.empty_like(again)
        np.put_along_axis(fresh, order, ~again, axis=1)
        kept = fresh & (np.cumsum(fresh, axis=1) <= count[:, None])
        rows = [np.sort(drawn[i, kept[i]]) for i in range(n)]
        word = np.concatenate(rows)
        return Documents(np.cumsum([len(row) for row in rows]), word.astype(np.int32), idf[word])

    asks, homes, alpha = documents(subscriptions, *words), places(subscriptions), rng.random(subscriptions)
    return World(vocabulary, asks, homes, alpha, documents(posts, *post_words), places(posts))
