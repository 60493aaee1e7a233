"""Every bound is safe, as an inequality on random data: keys of sorted lists, groups, cells, and ranks of theta."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.feeds.kernels.nearness import SCALE
from indexes.feeds.kernels.postings import LEVELS, key_of
from indexes.feeds.theta import BUCKETS, BUFFERS, CHEAPEST, KS, LINE, RATIOS, Buffering, cheapest_rank

unit = st.floats(0, 1)


@given(theta=unit, alpha=unit, near=unit, t=unit, length=unit, share=unit)
def test_whoever_may_reach_theta_is_before_the_bound(
    theta: float, alpha: float, near: float, t: float, length: float, share: float
) -> None:
    """A score of theta or more at a similarity of `near` means that the key lets the posting be read."""
    level = next(level for level in LEVELS if level >= t)
    score = alpha * near + (1 - alpha) * share * t * length
    key = int(key_of(theta, alpha, level, length, 7))
    read = key < (int(near * SCALE) + 1) << 32
    assert key & 0xFFFFFFFF == 7 and (read or score < theta)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_suffixes_bound_what_common_words_add(seed: int) -> None:
    """[Spatial-keyword] Theorems 5.3 and 5.4.

    From a common word on the text part is at most each of three products, and no posting after one that needs too much,
    by suffix maxima, is of a first common word and reaches theta.
    """
    rng = np.random.default_rng(seed)
    words = int(rng.integers(2, 9))

    def document() -> np.ndarray:
        weights = rng.random(words) * (rng.random(words) < 0.6)
        weights[int(rng.integers(words))] = 0.5
        return weights / math.sqrt(float((weights**2).sum()))

    m, near, w = document(), float(rng.random()), int(rng.integers(words))
    group = []
    for _ in range(12):
        s, alpha, theta = document(), float(rng.random()) * 0.999, float(rng.random())
        first = not ((s[:w] > 0) & (m[:w] > 0)).any() and s[w] > 0 and m[w] > 0
        text = float((s * m).sum()) if first else 0.0
        tail = s[w:]
        if first:
            bounds = tail.sum() * m[w:].max(), m[w:].sum() * tail.max(), np.sqrt((tail**2).sum() * (m[w:] ** 2).sum())
            assert text <= min(bounds) + 1e-12
        asked, slope = theta / (1 - alpha), alpha / (1 - alpha)
        reaches = first and alpha * near + (1 - alpha) * text >= theta
        group.append((asked, slope, float(tail.max()), math.sqrt(float((tail**2).sum())), reaches))
    group.sort()
    total, norm = float(m[w:].sum()), math.sqrt(float((m[w:] ** 2).sum()))
    for p in range(len(group)):
        slope, most, length = (max(one[i] for one in group[p:]) for i in (1, 2, 3))
        if min(total * most, norm * length) < group[p][0] - slope * near - 1e-9 * (1 + slope):
            assert not any(one[4] for one in group[p:])


@given(k=st.integers(1, 400), ratio=st.floats(0.1, 1e6))
def test_ranks_are_no_less_than_k_and_grow_with_what_an_evaluation_costs(k: int, ratio: float) -> None:
    rank = cheapest_rank(k, ratio)
    assert k <= rank <= cheapest_rank(k, 2 * ratio)
    for buffer in BUFFERS:
        buffering = Buffering(buffer)
        kind = int(buffering.kinds(np.array([3, k]))[1])
        limits = buffering.limits
        ranks, room = limits.rank.reshape(-1, BUCKETS)[kind], int(buffering.room(np.array([k]))[0])
        assert (ranks >= k).all() and (ranks <= room).all()
        assert k <= limits.kept[kind] < limits.room[kind] == (2 * k if buffer == "kmax" else room)
        # Entries move in whole lines, in which there are no others.
        assert room % LINE == 0 and limits.room[kind] <= room


def test_ranks_are_those_of_the_table() -> None:
    for k, row in zip(KS, CHEAPEST, strict=True):
        assert [cheapest_rank(k, ratio) for ratio in RATIOS] == list(row)
