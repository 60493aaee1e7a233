"""What the figures are made of, against brute force: messages, who hears, and what crosses the network."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bench.boards import plays
from bench.boards.batches import coalesced, paint_together
from bench.boards.distributions import (
    CENTRES,
    CLUSTERS,
    GRID,
    WIDTH,
    clustered_objects,
    clustered_ranges,
    correlated_ranges,
    gaussian_steps,
)
from bench.boards.plays import DENSE, MESSAGE, SPARSE, UNICAST, Sequence, approach, cn_relax, fresh, play, unicasts
from bench.boards.workload import COIN, UNIFORM, World, make_ranges, make_world, scratch, subscription_index
from bench.network.routing import OVERLAY, make_network, send, zone_of, zones_of
from indexes.boards.kernels.object_index import set_y
from indexes.boards.kernels.paint import paint
from indexes.boards.kernels.scratch import PaintContext
from indexes.core.arrays import int64
from tests.support.values import four

N, M, EVENTS, SEED = 25, 50, 50, 5


@pytest.fixture
def world() -> World:
    return make_world(N, EVENTS, SEED)


def top(x: np.ndarray, y: np.ndarray, l: float, r: float, k: int) -> list[int]:
    return sorted((i for i in range(len(x)) if l <= x[i] <= r), key=lambda i: (y[i], i))[:k]


def heard(world: World, events: Sequence, k: int) -> list[tuple[list[int], int]]:
    """For each event the subscriptions it affects, and how many get an object that it exposes."""
    ranges = list(zip(*make_ranges(M, SEED), strict=True))
    y = world.y.copy()
    out = []
    for i, new in zip(events.row.tolist(), events.y.tolist(), strict=True):
        before = [top(world.x, y, l, r, k) for l, r in ranges]
        old, y[i] = y[i], new
        after = [top(world.x, y, l, r, k) for l, r in ranges]
        changed = [sid for sid in range(M) if old != new and (i in before[sid] or i in after[sid])]
        exposed = sum(bool(set(after[sid]) - set(before[sid]) - {i}) for sid in changed if new > old)
        out.append((changed, exposed))
    return out


@pytest.mark.parametrize("one", [DENSE, SPARSE])
@pytest.mark.parametrize("k", [1, 4])
def test_exact_approaches_tell_whom_brute_force_tells(world: World, one: plays.Approach, k: int) -> None:
    events = plays.sequence(world, COIN)
    found = play(fresh(world.x, world.y), subscription_index(M, SEED), events, one, k, hearing=True)
    truth = heard(world, events, k)
    assert found.affected == pytest.approx(np.mean([len(sids) for sids, _ in truth]))
    assert found.exposed == pytest.approx(np.mean([exposed for _, exposed in truth]))
    assert found.most_affected == max(len(sids) for sids, _ in truth)
    assert found.most_messages >= found.messages > 0


def test_an_event_that_changes_nothing_sends_nothing(world: World) -> None:
    same = Sequence(np.arange(N, dtype=np.int32), world.y)
    found = play(fresh(world.x, world.y), subscription_index(M, SEED), same, DENSE, 3, hearing=True)
    assert (found.messages, found.affected) == (0, 0)


def test_approximation_sends_less_and_tells_no_fewer(world: World) -> None:
    events, forest, k = plays.sequence(world, COIN), subscription_index(M, SEED), 6
    found = [
        play(fresh(world.x, world.y), forest, events, approach(True, runs), k, hearing=True) for runs in (0, 3, 2, 1)
    ]
    assert all(b.messages < a.messages for a, b in pairwise(found))
    assert all(b.affected >= a.affected for a, b in pairwise(found))


def test_bytes_on_the_network_are_those_of_each_message_sent(world: World) -> None:
    net = make_network(60, 8, 1)
    events, k = plays.sequence(world, UNIFORM), 3
    forest = subscription_index(M, SEED)
    found = play(fresh(world.x, world.y), forest, events, SPARSE, k, net)
    one_by_one = 0.0
    o, y = fresh(world.x, world.y), world.y.copy()
    work, tiles = scratch(k)
    for i, new in zip(events.row.tolist(), events.y.tolist(), strict=True):
        tiles.n[0] = 0
        s = int64(o.pos[i])
        paint(o, PaintContext(forest, np.array([k]), False, 0, work, tiles), s, new)
        set_y(o, s, new)
        y[i] = new
        for t in range(int(tiles.n[0])):
            tally = np.zeros(4, np.int64)
            send(net, int(net.server[0]), *four(tiles.side[t]), tally)
            one_by_one += MESSAGE * tally[OVERLAY]
    assert found.overlay == pytest.approx(one_by_one / EVENTS)


def test_unicast_sends_one_message_to_the_gateway_of_each_affected_subscription(world: World) -> None:
    net = make_network(60, 9, 2)
    events, k = plays.sequence(world, COIN), 3
    gateway = np.empty(M, np.int32)
    l, r = make_ranges(M, SEED)
    zones_of(net.zones, l, r, gateway)
    assert gateway.tolist() == [zone_of(net.zones, *ends) for ends in zip(l, r, strict=True)]
    found = unicasts(fresh(world.x, world.y), subscription_index(M, SEED), gateway, events, k, net)
    server = int(net.server[0])
    told = [gateway[sid] for sids, _ in heard(world, events, k) for sid in sids]
    assert found.overlay == pytest.approx(UNICAST * sum(zone != server for zone in told) / EVENTS)
    assert found.ip == pytest.approx(UNICAST * sum(int(net.ip[server, zone]) for zone in told) / EVENTS)
    assert found.overlay_by_zones >= found.overlay
    assert found.ip_by_zones >= found.ip


def test_cn_relax_reaches_every_range_that_holds_the_object(world: World) -> None:
    net = make_network(60, 9, 2)
    x = world.x[plays.sequence(world, COIN).row]
    found = cn_relax(x, subscription_index(M, SEED), net, 1)
    inside = [sum(l <= value <= r for l, r in zip(*make_ranges(M, SEED), strict=True)) for value in x.tolist()]
    assert found.received == pytest.approx(np.mean(inside))
    # At least the zones of its quadrant above the diagonal, one message each but for the first.
    assert found.overlay > 0


def test_the_events_of_a_sequence_are_those_of_the_workload(world: World) -> None:
    events = plays.sequence(world, COIN)
    y = world.y.copy()
    for (which, u, side), row, new in zip(world.events.tolist(), events.row.tolist(), events.y.tolist(), strict=True):
        assert row == int(which * N)
        y[row] = y[row] * u if side < 0.5 else y[row] + (1 - y[row]) * u
        assert new == y[row]


def test_coalescing_keeps_the_last_event_of_each_object_in_order() -> None:
    events = Sequence(np.array([3, 1, 3, 2, 1], np.int32), np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    kept = coalesced(events)
    assert kept.row.tolist() == [3, 2, 1]
    assert kept.y.tolist() == [0.3, 0.4, 0.5]


@pytest.mark.parametrize(
    "ends",
    [clustered_ranges(3_000, 1, 0.2), correlated_ranges(3_000, 1), correlated_ranges(3_000, 1, 0.5)],
    ids=["clustered", "correlated", "anti-correlated"],
)
def test_ranges_lie_in_s(ends: tuple[np.ndarray, np.ndarray]) -> None:
    l, r = ends
    assert len(l) == len(r) == 3_000
    assert np.all((l >= 0) & (l <= r) & (r <= 1))


def test_clustered_ranges_lie_on_the_grid_and_closer_together_for_a_smaller_spread() -> None:
    l, r = clustered_ranges(3_000, 1, 0.2)
    assert np.allclose(l * GRID, np.rint(l * GRID)) and np.allclose(r * GRID, np.rint(r * GRID))
    cells = [
        len({(int(l * 50), int(r * 50)) for l, r in zip(*clustered_ranges(3_000, 1, spread), strict=True)})
        for spread in (0.05, 0.2, 1.0)
    ]
    assert cells == sorted(cells) and cells[0] < cells[-1] / 3


def test_ends_lie_around_the_objects_or_between_them() -> None:
    x, y = clustered_objects(2_000, 1)
    assert np.all(np.diff(x) >= 0) and len(y) == 2_000

    def far(values: np.ndarray) -> np.ndarray:
        return np.abs(values[:, None] - CENTRES).min(1) / WIDTH

    assert np.median(far(x)) < 0.15
    assert np.median(far(np.concatenate(correlated_ranges(2_000, 1)))) < 0.15
    assert np.median(far(np.concatenate(correlated_ranges(2_000, 1, 0.5)))) > 0.35
    # One cluster fewer, as the last would lie behind all objects.
    assert correlated_ranges(2_000, 1, 0.5)[1].max() < CENTRES[CLUSTERS - 1] + WIDTH / 2


def test_gaussian_steps_stay_inside_and_are_as_long_as_asked(world: World) -> None:
    small, large = (gaussian_steps(make_world(N, 4_000, 1), c, 1) for c in (0.08, 4.0))
    assert np.all((large.y >= 0) & (large.y <= 1))
    y = make_world(N, 4_000, 1).y.copy()
    steps = []
    for row, new in zip(small.row.tolist(), small.y.tolist(), strict=True):
        steps.append(new - y[row])
        y[row] = new
    assert np.std(steps) == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("k", [1, 3])
def test_a_batch_is_told_to_those_whose_list_is_another_one_in_the_end(world: World, k: int) -> None:
    """Each of them gets what came or changed, and what it would take for better than what is there.

    The latter are objects that fell out of its list.
    """
    events = plays.sequence(world, COIN)
    forest = subscription_index(M, SEED)
    found = paint_together(fresh(world.x, world.y), forest, events, k)
    y = world.y.copy()
    y[events.row] = events.y
    needed = 0
    for l, r in zip(*make_ranges(M, SEED), strict=True):
        before, after = top(world.x, world.y, l, r, k), top(world.x, y, l, r, k)
        needed += sum(i not in before or y[i] != world.y[i] for i in after)
        for i in set(before) - set(after):
            stale = [j for j in range(N) if l <= world.x[j] <= r and j != i and (y[j], j) < (world.y[i], i)]
            needed += y[i] > world.y[i] and len(stale) < k
    assert found.received == needed
    assert 0 < found.messages <= play(fresh(world.x, world.y), forest, coalesced(events), SPARSE, k).messages * N
