"""What a relay forwards once it was rederived, and its indexes laid out from a state.

Both are compared with brute force, bit for bit.
"""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.relays.commands import AddSubscriptions, DeleteSubscriptions, Rederive
from indexes.relays.config import UPSTREAM, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.layout import EVERYTHING, join, lay_out_part, parts_of
from indexes.relays.packing import unpack_indexes
from indexes.relays.relations import Known
from indexes.relays.state import engine_of, packed_of
from tests.oracles.relay_http import least
from tests.unit.matchers.helpers import assert_same
from tests.unit.relays.helpers import NAMES, link_to, same_state, state
from tests.unit.relays.worlds import Covering, Way, boxes

LINKS = {name: link_to(name) for name in ("north", "west")}
KINDS: list[Way] = [("G", 1, "kd"), ("G", 1, "zorder"), ("G", 1, "linear"), ("G", 3, "kd"), ("G", 2, "zorder")]
DRAWN: list[Way] = [("G*", 1, "kd"), ("poset", 1, "zorder")]

rows = st.lists(st.tuples(boxes(2), st.sampled_from([None, "north", "west"])), max_size=25)
empty = np.empty


def garbage(*given: Any, **more: Any) -> np.ndarray:
    """Memory in which something has been before."""
    made = empty(*given, **more)
    if made.dtype.kind in "iuf":
        made.view(np.uint8).reshape(-1)[:] = np.frombuffer(os.urandom(made.nbytes), np.uint8)
    return made


def standing(
    config: RelayConfig, world: list[tuple[list[tuple[Any, ...]], str | None]], gone: set[int]
) -> tuple[RelayEngine, dict[str, tuple[list[Any], str | None]]]:
    """The engine after these subscriptions have come and some have gone, and what of it is there: box and link."""
    made = RelayEngine(config)
    sides = np.array([box for box, _ in world], float).reshape(len(world), 2, 2)
    links = [link if config.links else None for _, link in world]
    keys = [f"s{i}" for i in range(len(world))]
    made.apply(
        AddSubscriptions(pa.array(keys, pa.string()), sides[:, :, 0], sides[:, :, 1], pa.array(links, pa.string()))
    )
    made.apply(DeleteSubscriptions([f"s{i}" for i in gone]))
    there = {key: (box, link) for key, (box, _), link in zip(keys, world, links, strict=True)}
    return made, {key: found for key, found in there.items() if key not in {f"s{i}" for i in gone}}


def smallest(there: dict[str, tuple[list[tuple[Any, ...]], str | None]], neighbour: str) -> list[str]:
    """What has to be forwarded to a neighbour, oldest first."""
    concerned = {key: box for key, (box, link) in there.items() if link is None or link != neighbour}
    chosen = least(concerned)
    return [key for key in concerned if key in chosen]


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", KINDS + DRAWN, ids=str)
@settings(max_examples=25)
@given(world=rows, gone=st.sets(st.integers(0, 24), max_size=8))
def test_the_smallest_set_is_forwarded_and_what_changed_is_told(
    linked: bool, kind: Way, world: list[tuple[list[Any], str | None]], gone: set[int]
) -> None:
    graph, k, index = kind
    config = RelayConfig(NAMES, graph, k, index, LINKS if linked else {})
    made, there = standing(config, world, gone)
    before = {name: made.relay.forwarded(name) for name in made.relay.neighbours}
    plan, _ = made.apply(Rederive())
    assert plan.rederived.keys() == (set(LINKS) if linked else {UPSTREAM})
    for name, anew in plan.rederived.items():
        wanted = smallest(there, name)
        assert made.relay.forwarded(name) == wanted
        assert anew.subscribe == [], "whatever nothing covers is forwarded at once"
        assert anew.unsubscribe == [key for key in before[name] if key not in wanted]
    made.check()
    again, _ = made.apply(Rederive())
    assert all(anew == ([], []) for anew in again.rederived.values())
    one = state(made)
    same_state(made, engine_of(one))


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=20)
@given(world=rows, gone=st.sets(st.integers(0, 24), max_size=8))
def test_an_image_holds_the_smallest_set_and_indexes_that_are_right(
    linked: bool, kind: Way, world: list[tuple[list[Any], str | None]], gone: set[int]
) -> None:
    graph, k, index = kind
    config = RelayConfig(NAMES, graph, k, index, LINKS if linked else {})
    made, there = standing(config, world, gone)
    one = state(made)
    keys = list(there)
    relay = engine_of(one, unpack_indexes(config, one.relay, packed_of(one))).relay
    relay.check()
    for name, relations in relay.neighbours.items():
        assert isinstance(relations, Known)
        mine = [i for i, key in enumerate(keys) if there[key][1] is None or there[key][1] != name]
        roots = [keys[i] for i in mine if relations.graph.degree[i] == 0]
        assert roots == smallest(there, name)
        held = [i for i in mine if k > 1 or relations.graph.degree[i] == 0]
        assert sorted(relations.index.slots().tolist()) == held


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", KINDS + DRAWN, ids=str)
@settings(max_examples=10)
@given(world=rows, gone=st.sets(st.integers(0, 24), max_size=8))
def test_parts_join_to_the_same_bytes_whatever_lay_in_memory_before(
    linked: bool, kind: Way, world: list[tuple[list[Any], str | None]], gone: set[int]
) -> None:
    graph, k, index = kind
    config = RelayConfig(NAMES, graph, k, index, LINKS if linked else {})
    one = state(standing(config, world, gone)[0])
    wanted = packed_of(one)
    parts = parts_of(config)
    assert parts == ([EVERYTHING, *range(len(config.links) or 1)] if graph == "G" else [EVERYTHING])
    with patch("numpy.empty", garbage):
        laid = {part: lay_out_part(config, part, one.relay.points, one.relay.link) for part in reversed(parts)}
    found = join([laid[part] for part in parts])
    assert list(found) == list(wanted)
    assert_same(found, wanted)


@pytest.mark.parametrize("index", ["kd", "zorder"])
def test_large_indexes_have_the_same_bytes_whatever_lay_in_memory_before(index: Covering) -> None:
    rng, n = np.random.default_rng(6), 2_500
    lo = rng.integers(0, 40, (n, 2)).astype(float)
    points = np.stack([-lo, lo + rng.integers(0, 6, (n, 2))], axis=2).reshape(n, 4)
    link = rng.integers(-1, 2, n).astype(np.int32)
    config = RelayConfig(NAMES, "G", 2, index, LINKS)
    for part in parts_of(config):
        wanted = lay_out_part(config, part, points, link)
        with patch("numpy.empty", garbage):
            assert_same(lay_out_part(config, part, points, link), wanted)
