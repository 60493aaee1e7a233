"""Every bound is safe, as an inequality on random data: keys of sorted lists, groups, cells, and ranks of theta."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from indexes.compiled.jit import kernel
from indexes.compiled.simd import LANES
from indexes.feeds.kernels.nearness import BOUND, FARTHEST, LEFT, SCALE, STEPS, WORD_RATIOS, lanes_around
from indexes.feeds.kernels.postings import LEVELS, key_of, steps_along, tag_of
from indexes.feeds.kernels.recipients import _measure
from indexes.feeds.kernels.scratch import Scratch, empty_scratch
from indexes.feeds.theta import BUCKETS, BUFFERS, CHEAPEST, KS, LINE, RATIOS, Buffering, cheapest_rank

unit = st.floats(0, 1)
coordinate = st.floats(-0.5, 1.5)


@kernel
def _along(value: float, begin: float, steps: float) -> float:
    return steps_along(value, begin, steps)


@kernel
def _measured(scratch: Scratch, n: int) -> None:
    _measure(scratch, n)


@given(theta=unit, alpha=unit, near=unit, t=unit, length=unit, share=unit)
def test_whoever_may_reach_theta_is_before_the_bound(
    theta: float, alpha: float, near: float, t: float, length: float, share: float
) -> None:
    """A score of theta or more at a similarity of `near` means that the key lets the posting be read."""
    level = next(level for level in LEVELS if level >= t)
    score = alpha * near + (1 - alpha) * share * t * length
    key = int(key_of(theta, alpha, level, length, 7))
    read = key >> BOUND <= int(near * SCALE)
    assert key % (1 << BOUND) == 7 and (read or score < theta)


@given(
    places=st.lists(st.tuples(coordinate, coordinate), min_size=2, max_size=2),
    extent=st.sampled_from([0.0, 0.01, 1.0, 3.0]),
    near=unit,
)
def test_whoever_is_near_enough_for_the_bound_passes_by_the_place(
    places: list[tuple[float, float]], extent: float, near: float
) -> None:
    """Wherever the subscription and the post are, within the frame or not."""
    (x, y), (post_x, post_y) = places
    steps = STEPS / extent if extent else 0.0
    frame, diagonal = np.array([0.25, 0.5, steps]), math.sqrt(2)
    similarity = max(0.0, 1.0 - math.hypot(x - post_x, y - post_y) / diagonal)
    for bound in (int(near * SCALE), int(similarity * SCALE)):
        keys = np.full(LANES, (bound << BOUND) + int(tag_of(frame, x, y, 7, 1)))
        at = _along(post_x, 0.25, steps), _along(post_y, 0.5, steps)
        passes = lanes_around(keys, 0, *at, diagonal * steps, SCALE)
        assert passes == (1 << LANES) - 1 or (passes == 0 and bound > similarity * SCALE)
        assert lanes_around(keys, 0, *at, diagonal * steps, bound - 1) == 0


@given(ratio=st.floats(1.5, 4.2), lacks=st.integers(1, 2_000), step=st.integers(1, STEPS - 1), turned=st.booleans())
def test_whoever_is_just_near_enough_passes_however_large_the_feed(
    ratio: float, lacks: int, step: int, turned: bool
) -> None:
    """The diagonal is many times the extent of the subscriptions, and the post lies where the bound ends, on the side
    where nothing is gained by the steps of places.
    """
    frame, diagonal = np.array([0.0, 0.0, float(STEPS)]), 10.0**ratio
    away = lacks / SCALE * diagonal * (1.0 - 1e-12)
    place = math.nextafter(step / STEPS, 0.0)
    assume(place + away <= 1.0)
    x, y = (0.0, place) if turned else (place, 0.0)
    keys = np.full(LANES, ((SCALE - lacks) << BOUND) + int(tag_of(frame, x, y, 7, 1)))
    across, up = (0.0, place + away) if turned else (place + away, 0.0)
    at = _along(across, 0.0, float(STEPS)), _along(up, 0.0, float(STEPS))
    assert lanes_around(keys, 0, *at, min(diagonal * STEPS, FARTHEST), SCALE) == (1 << LANES) - 1


@given(seed=st.integers(0, 2**32 - 1), subscribed=st.integers(1, 7), posted=st.integers(1, 12))
def test_so_many_words_add_no_more_than_the_greatest_so_many_weights(seed: int, subscribed: int, posted: int) -> None:
    """Of the first common word and those after it: at most the ratio for the number of words left, times the level and
    the length of the subscription's weights from it on.
    """
    rng = np.random.default_rng(seed)
    asked, given_ = (np.sort(rng.choice(16, n, replace=False)) for n in (subscribed, posted))
    ws, wm = (rng.random(n) ** 3 + 1e-3 for n in (subscribed, posted))
    wm /= math.sqrt(float((wm**2).sum()))
    level, ratio = np.zeros(posted, np.int64), np.zeros(WORD_RATIOS * posted)
    scratch = empty_scratch()._replace(weight=wm, level=level, ratio=ratio)
    _measured(scratch, posted)
    for i, word in enumerate(asked.tolist()):
        if word in given_:
            j = int(np.flatnonzero(given_ == word)[0])
            text = sum(float(ws[a] * wm[given_ == asked[a]].sum()) for a in range(i, subscribed))
            length, left = math.sqrt(float((ws[i:] ** 2).sum())), min(subscribed - i, 1 << LEFT) - 1
            own, last = ratio[WORD_RATIOS * j : WORD_RATIOS * (j + 1)].reshape(2, -1)
            most = LEVELS[int(level[j])] * length
            assert text <= own[left] * most + 1e-12 and text <= last[left] * length + 1e-12
            assert (own <= 1 + 1e-12).all() and (np.diff(own) >= -1e-12).all()


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
