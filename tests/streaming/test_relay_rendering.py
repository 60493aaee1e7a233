"""A relay's subscriptions and decisions of a group as text, against those of each by itself."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from app.rendering.relays import RelayJson, Row, decided, decided_each
from indexes.relays.config import RelayConfig
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.points import as_points
from indexes.relays.outcomes import FEW, Outcomes
from indexes.relays.relay import Relay, Steps
from indexes.relays.results import SubscriptionView

INF = float("inf")
NAMES = ("price", "volume%d", "x")
ends = st.floats(allow_nan=False, width=64) | st.integers(-(1 << 60), 1 << 60).map(float)
sides = st.tuples(ends, ends).map(sorted) | st.just([-INF, INF]) | st.tuples(ends).map(lambda x: [-INF, x[0]])
rows = st.lists(
    st.builds(
        Row,
        st.from_regex(r"[a-z0-9._:-]{1,9}", fullmatch=True),
        st.lists(sides, min_size=3, max_size=3).map(lambda pairs: [x for pair in pairs for x in pair]),
        st.sampled_from([None, None, "north"]),
        st.sampled_from([None, None, 2.5, 60.0]),
    ),
    max_size=6,
)


@given(rows)
def test_subscriptions_of_a_group_are_written_as_each_is(made: list[Row]) -> None:
    write, seqs, tails = RelayJson(NAMES), range(7, 7 + len(made)), [f',"t":{i}' for i in range(len(made))]
    for text, row, seq, tail in zip(write.begun(made, seqs, tails), made, seqs, tails, strict=True):
        pairs = zip(NAMES, row.ends[0::2], row.ends[1::2], strict=True)
        box = {name: (lo, hi) for name, lo, hi in pairs if not (abs(lo) == abs(hi) == INF)}
        view = SubscriptionView(row.id, row.id, box, row.link, row.ttl)
        assert text == write.subscription(view, f'"seq":{seq},', tail)
        json.loads(text)


@pytest.mark.parametrize("links", [(), ("north", "west")])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("cut", [1, 40, FEW + 9])
def test_decisions_of_a_group_are_written_as_each_is(links: tuple[str, ...], k: int, cut: int) -> None:
    rng, n = np.random.default_rng(5), 300
    lo = rng.integers(0, 9, (n, 1)).astype(float)
    points, relay, found = (
        as_points(lo, lo + rng.integers(0, 9, (n, 1))),
        Relay(RelayConfig(("x",), k=k), links),
        Outcomes(),
    )
    there: list[str] = []
    op, keys = np.zeros(n, np.uint8), list[str]()
    for i in range(n):
        ends = bool(there) and rng.random() < 0.4
        op[i] = UNSUBSCRIBE if ends else SUBSCRIBE
        # Keys of ids that have travelled begin with a tilde, which is not shown.
        new = f"~n:e:{i}" if i % 4 == 0 else f"s{i}"
        keys.append(there.pop(int(rng.integers(len(there)))) if ends else new)
        if not ends:
            there.append(keys[-1])
    for at in range(0, n, cut):
        ran = relay.run(Steps(op[at : at + cut], keys[at : at + cut], points[at : at + cut]))
        found.append(relay.answers(ran))
        relay.commit(ran)
    assert decided_each(found) == [decided(one) for one in found]
    assert decided_each(found) == [decided(one) for one in found], "also where outcomes were asked for before"
