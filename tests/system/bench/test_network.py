"""The broker network against brute force: graphs, zones, and every message reaches whom it is for exactly once."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.network.routing import IP, OVERLAY, STEPS, ZONES, Network, make_network, send, zone_of
from bench.network.topology import LEAVES, Graph, distances, make_topology
from bench.network.zones import Zones, make_zones

INF = np.inf


def links(graph: Graph) -> list[set[int]]:
    return [set(graph.other[a:b].tolist()) for a, b in zip(graph.first[:-1], graph.first[1:], strict=True)]


def links_away(near: list[set[int]], source: int) -> dict[int, int]:
    far = {source: 0}
    queue = deque([source])
    while queue:
        v = queue.popleft()
        for u in near[v]:
            if u not in far:
                far[u] = far[v] + 1
                queue.append(u)
    return far


@pytest.mark.parametrize("nodes", [4, 5, 40, 600])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_topology_is_one_connected_graph_without_loops(nodes: int, seed: int) -> None:
    near = links(make_topology(nodes, seed))
    assert len(links_away(near, 0)) == nodes
    assert all(v not in some and all(v in near[u] for u in some) for v, some in enumerate(near))


def test_topology_has_inets_leaves_and_a_heavy_tail() -> None:
    degrees = np.diff(make_topology(5_000, 1).first)
    assert LEAVES * 0.95 <= np.mean(degrees == 1) <= LEAVES * 1.1
    assert degrees.max() > 30 * np.median(degrees)
    # Twice the degree is met 2^1.2 times as seldom, among those with more than one link.
    more = [np.sum(degrees >= d) for d in (4, 8, 16, 32)]
    slope = np.polyfit(np.log([4, 8, 16, 32]), np.log(more), 1)[0]
    assert -1.6 < slope < -1.0


def test_topology_is_the_same_for_the_same_seed() -> None:
    one, same, other = make_topology(200, 5), make_topology(200, 5), make_topology(200, 6)
    assert np.array_equal(one.other, same.other) and np.array_equal(one.first, same.first)
    assert not np.array_equal(one.other, other.other)


def test_distances_are_those_of_a_plain_search() -> None:
    graph = make_topology(150, 2)
    near = links(graph)
    nodes = np.array([0, 7, 33, 149, 80])
    found = distances(graph, nodes)
    for i, source in enumerate(nodes.tolist()):
        far = links_away(near, source)
        assert found[i].tolist() == [far[v] for v in nodes.tolist()]


def test_distance_of_what_cannot_be_reached_is_less_than_zero() -> None:
    apart = Graph(np.array([0, 1, 2, 2]), np.array([1, 0], np.int32))
    assert distances(apart, np.array([0, 1, 2])).tolist() == [[0, 1, -1], [1, 0, -1], [-1, -1, 0]]


def box(z: Zones, zone: int) -> tuple[float, float, float, float]:
    i = z.node[zone]
    return z.west[i], z.east[i], z.south[i], z.north[i]


def holds(z: Zones, zone: int, l: float, r: float) -> bool:
    w, e, s, n = box(z, zone)
    return bool(w <= l < e and s <= r < n)


@pytest.mark.parametrize("brokers", [1, 2, 3, 60])
def test_every_point_has_one_zone(brokers: int) -> None:
    z = make_zones(brokers, 4)
    corners = [side for zone in range(brokers) for side in box(z, zone) if np.isfinite(side)]
    rng = np.random.default_rng(1)
    points = [*rng.random((200, 2)).tolist(), (-7.0, 9.0), (0.0, 1.0), *[(v, v) for v in corners]]
    for l, r in points:
        assert [zone for zone in range(brokers) if holds(z, zone, l, r)] == [zone_of(z, l, r)]


def test_neighbours_share_more_than_a_corner() -> None:
    z = make_zones(40, 3)

    def touch(a: int, b: int) -> bool:
        (w, e, s, n), (w2, e2, s2, n2) = box(z, a), box(z, b)
        across_l = (e == w2 or e2 == w) and min(n, n2) > max(s, s2)
        across_r = (n == s2 or n2 == s) and min(e, e2) > max(w, w2)
        return bool(across_l or across_r)

    for a in range(40):
        assert z.near[z.first[a] : z.first[a + 1]].tolist() == [b for b in range(40) if b != a and touch(a, b)]


def test_server_owns_the_centre() -> None:
    net = make_network(60, 12, 1, 10.0, 30.0)
    assert holds(net.zones, int(net.server[0]), 20.0, 20.0)


NETWORKS = {brokers: make_network(80, brokers, brokers) for brokers in (1, 2, 7, 40)}
GRID = st.sampled_from([-INF, *(i / 16 for i in range(-1, 18)), 0.3, 0.77, 1 / 3, INF])


def trace(net: Network, start: int, tile: tuple[float, float, float, float]) -> tuple[list[int], list[int], np.ndarray]:
    tally = np.zeros(4, np.int64)
    n = send(net, start, *tile, tally)
    assert tally[ZONES] == n
    return net.reached[:n].tolist(), net.sender[:n].tolist(), tally


@settings(max_examples=300)
@given(
    st.sampled_from(sorted(NETWORKS)),
    st.integers(0, 39),
    st.tuples(GRID, GRID, GRID, GRID).filter(lambda t: t[0] < t[1] and t[2] < t[3]),
    st.lists(st.tuples(GRID, GRID), max_size=30),
)
def test_every_subscription_on_a_tile_is_reached_once_along_neighbours(
    brokers: int, start: int, tile: tuple[float, float, float, float], subscriptions: list[tuple[float, float]]
) -> None:
    net = NETWORKS[brokers]
    z = net.zones
    start %= brokers
    l_outer, l_inner, r_inner, r_outer = tile
    reached, sender, tally = trace(net, start, tile)
    assert len(set(reached)) == len(reached)
    for l, r in subscriptions:
        if np.isfinite(l) and np.isfinite(r) and l_outer < l <= l_inner and r_inner <= r < r_outer:
            assert zone_of(z, l, r) in reached
    for zone in reached:
        w, e, s, n = box(z, zone)
        assert max(w, l_outer) <= min(e, l_inner) and max(s, r_inner) <= min(n, r_outer)

    parents = dict(zip(reached, sender, strict=True))
    entries = [zone for zone, from_whom in parents.items() if from_whom < 0]
    assert len(entries) == 1
    ip = 0
    for zone, from_whom in parents.items():
        if from_whom >= 0:
            assert from_whom in z.near[z.first[zone] : z.first[zone + 1]]
            ip += int(net.ip[from_whom, zone])
        steps = 0
        while parents[zone] >= 0:
            zone, steps = parents[zone], steps + 1
            assert steps <= len(reached)
        assert zone == entries[0]
    assert tally[OVERLAY] == tally[STEPS] + len(reached) - 1
    if start in reached:
        assert tally[STEPS] == 0 and entries == [start]
        assert tally[IP] == ip
    else:
        assert tally[STEPS] >= 1
        assert tally[IP] >= ip + int(net.ip[start, entries[0]])


def distance(z: Zones, zone: int, l: tuple[float, float], r: tuple[float, float]) -> tuple[bool, float]:
    """How far a rectangle is; one that an open side touches is beyond every one that is reached."""
    w, e, s, n = box(z, zone)
    reached = w <= l[1] and l[0] < e and s <= r[1] and r[0] < n
    e, n = np.nextafter(e, -INF), np.nextafter(n, -INF)
    return not reached, float(np.hypot(max(w - l[1], l[0] - e, 0.0), max(s - r[1], r[0] - n, 0.0)))


SIDES = st.one_of(st.floats(-0.1, 1.1), st.sampled_from([i / 16 for i in range(17)]))


@settings(max_examples=300)
@given(st.integers(0, 39), st.tuples(SIDES, SIDES, SIDES, SIDES))
def test_the_way_to_a_rectangle_goes_to_the_nearest_neighbour_and_never_back(
    start: int, ends: tuple[float, float, float, float]
) -> None:
    net = NETWORKS[40]
    z = net.zones
    l, r = (min(ends[:2]), max(ends[:2])), (min(ends[2:]), max(ends[2:]))
    tile = (np.nextafter(l[0], -INF), l[1], r[0], np.nextafter(r[1], INF))

    here, steps, ip = start, 0, 0
    while distance(z, here, l, r)[0]:
        near = z.near[z.first[here] : z.first[here + 1]].tolist()
        there = min(near, key=lambda zone: (*distance(z, zone, l, r), zone))
        assert distance(z, there, l, r) < distance(z, here, l, r)
        ip += int(net.ip[here, there])
        here, steps = there, steps + 1
    reached, sender, tally = trace(net, start, tile)
    assert tally[STEPS] == steps
    assert sender[reached.index(here)] == -1
    assert tally[IP] == ip + sum(int(net.ip[a, b]) for a, b in zip(sender, reached, strict=True) if a >= 0)
