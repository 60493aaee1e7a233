"""Regions of subscriptions with several range attributes."""

from __future__ import annotations

import hypothesis.strategies as st

from tests.oracles.regions import INF, Where

at = st.integers(0, 5).map(float)


def boxes(d: int) -> st.SearchStrategy[Where]:
    pair = st.tuples(st.sampled_from([-INF, 0.0, 1.0, 2.0, 3.0, INF]), st.sampled_from([-INF, 1.0, 2.0, 4.0, 5.0, INF]))
    ends = pair.map(sorted).map(tuple)
    return st.tuples(*[ends] * d).map(lambda pairs: Where("box", tuple(end for pair in pairs for end in pair)))


discs = st.tuples(at, at, st.integers(0, 4).map(float)).map(lambda sides: Where("disc", sides))


slopes = st.integers(-2, 2).map(float)


half_planes = (
    st.tuples(slopes, slopes, st.integers(-6, 9).map(float))
    .filter(lambda sides: sides[:2] != (0.0, 0.0))
    .map(lambda sides: Where("half_plane", sides))
)


simplexes = st.tuples(*[at] * 6).map(lambda sides: Where("simplex", sides))


def regions(d: int) -> st.SearchStrategy[Where]:
    return st.one_of(boxes(2), discs, half_planes, simplexes) if d == 2 else boxes(d)
