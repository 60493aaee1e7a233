"""One pass over a sequence of events with one approach: what is sent, its recipients, and what crosses the network.

An event is a row and its new y, so that drawn workloads and recorded traces go the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.boards.workload import World, new_y, object_index, scratch
from bench.network.routing import IP, OVERLAY, ZONES, Network, make_network, send
from indexes.boards.kernels.forest import Forest, count, report
from indexes.boards.kernels.object_index import ObjectArrays, set_y
from indexes.boards.kernels.paint import paint
from indexes.boards.kernels.range_tree import RangeTree
from indexes.boards.kernels.region import nearest
from indexes.boards.kernels.scratch import MIN_Y, ROOM, SNAP, PaintContext
from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints, Ints32, int64

MESSAGE, UNICAST = 24, 16
"""Bytes of a message of the network (four ends, an object and its y) and of a unicast (a subscription, an object and
its y): with these the paper's bytes are its messages."""

TILES, MOST_TILES, AFFECTED, MOST_AFFECTED, EXPOSED, SQUARE, FITS = range(7)
"""Columns of a total: messages, the most of one event, subscriptions on the tiles of the updated object, the most of
one event, those on the tiles of exposed objects, those that Unicast looks at, events whose tiles fitted."""


class Approach(NamedTuple):
    """A painting algorithm; `runs` = j means epsilon = 1/j, 0 is exact."""

    name: str
    dense: bool
    runs: int = 0


def approach(dense: bool, runs: int = 0) -> Approach:
    """Paint-Dense or Paint-Sparse, with epsilon = 1 / runs.

    >>> approach(False, 8).name, approach(True).name
    ('Paint-Sparse(0.125)', 'Paint-Dense')
    """
    name = "Paint-Dense" if dense else "Paint-Sparse"
    return Approach(f"{name}({1 / runs:g})" if runs else name, dense, runs)


DENSE, SPARSE = approach(True), approach(False)
DENSE_1, SPARSE_1 = approach(True, 1), approach(False, 1)


class Sequence(NamedTuple):
    """Events in order: whose y, and the new one. An event that changes nothing counts and sends nothing."""

    row: Ints32
    y: Floats


class Played(NamedTuple):
    """Averages an event, and the most of one event. Bytes are those of the network's messages; what was not asked for
    is 0."""

    messages: float
    most_messages: int
    affected: float
    most_affected: int
    exposed: float
    square: float
    min_y: float
    snaps: float
    overlay: float
    ip: float
    zones: float


def sequence(world: World, model: int) -> Sequence:
    """The world's events, each new y worked out."""
    n = len(world.x)
    row = (world.events[:, 0] * n).astype(np.int32)
    y = np.empty(len(row))
    work_out(row, world.y.copy(), world.events, model, y)
    return Sequence(row, y)


@kernel
def work_out(row: Ints32, y: Floats, events: Floats, model: int, out: Floats) -> None:
    """Write the new y of every event to `out`; `y` is moved on."""
    for e in range(len(row)):
        y[row[e]] = new_y(y[row[e]], events[e, 1], events[e, 2], model)
        out[e] = y[row[e]]


class Counted(NamedTuple):
    """Totals over all events, and the tally of what was sent."""

    total: Ints
    tally: Ints


def play(
    objects: RangeTree,
    forest: Forest,
    events: Sequence,
    approach: Approach,
    k: int,
    net: Network | None = None,
    hearing: bool = False,
    searching: bool = False,
) -> Played:
    """Paint and apply all events. `hearing` counts recipients, `searching` the calls as the paper counts them; with a
    network every message is sent from its server."""
    context = PaintContext(forest, np.array([k]), approach.dense, approach.runs, *scratch(k, -1 if searching else ROOM))
    stats, n = context.scratch.stats, len(events.row)
    stats[:] = 0
    counted = Counted(np.zeros(7, np.int64), np.zeros(4, np.int64))
    play_events(objects, context, events, net or nowhere(), net is not None, hearing, searching, counted)
    total, tally = counted
    if total[FITS] != n:
        raise OverflowError("an event's tiles did not fit the buffer")
    return Played(
        total[TILES] / n, int(total[MOST_TILES]), total[AFFECTED] / n, int(total[MOST_AFFECTED]), total[EXPOSED] / n,
        total[SQUARE] / n, stats[MIN_Y] / n, stats[SNAP] / n,
        MESSAGE * tally[OVERLAY] / n, MESSAGE * tally[IP] / n, tally[ZONES] / n,
    )  # fmt: skip


def nowhere() -> Network:
    """A network of one broker."""
    return make_network(4, 1, 1)


@kernel
def play_events(
    objects: ObjectArrays,
    context: PaintContext,
    events: Sequence,
    net: Network,
    sending: bool,
    hearing: bool,
    searching: bool,
    counted: Counted,
) -> None:
    """Add what `play` counts to `counted`."""
    forest, scratch, tiles, k = context.forest, context.scratch, context.tiles, context.ks[0]
    total, side = counted.total, tiles.side
    for e in range(len(events.row)):
        slot = int64(objects.pos[events.row[e]])
        y = events.y[e]
        tiles.n[0] = 0
        fits = int64(1)
        if y != objects.y[slot]:
            if searching:
                nearest(objects, slot, min(objects.y[slot], y), k, scratch)
                x = objects.x[slot]
                total[SQUARE] += count(forest, 0, scratch.all_west[k], x, x, scratch.all_east[k])
            fits = int64(paint(objects, context, slot, y))
            set_y(objects, slot, y)
        n = tiles.n[0]
        total[FITS] += fits
        total[TILES] += n
        total[MOST_TILES] = max(total[MOST_TILES], n)
        affected = int64(0)
        if hearing:
            for t in range(n):
                reached = count(forest, 0, side[t, 0], side[t, 1], side[t, 2], side[t, 3])
                if tiles.own[t]:
                    affected += reached
                else:
                    total[EXPOSED] += reached
        total[AFFECTED] += affected
        total[MOST_AFFECTED] = max(total[MOST_AFFECTED], affected)
        if sending:
            for t in range(n):
                send(net, int64(net.server[0]), side[t, 0], side[t, 1], side[t, 2], side[t, 3], counted.tally)


class Unicasts(NamedTuple):
    """Bytes an event that Unicast sends. An affected subscription is one message to its gateway: straight from the
    server, one link of the overlay and the shortest path of the IP network; or handed on from zone to zone."""

    overlay: float
    ip: float
    overlay_by_zones: float
    ip_by_zones: float


def unicasts(objects: RangeTree, forest: Forest, gateway: Ints32, events: Sequence, k: int, net: Network) -> Unicasts:
    """Unicast over the network; `gateway[sid]` is the zone of a subscription. Paint-Dense finds who is affected, which
    is what V says in its footnote that one may do: the messages are the same."""
    messages = np.zeros(len(net.reached), np.int64)
    context = PaintContext(forest, np.array([k]), True, 0, *scratch(k))
    count_gateways(objects, context, events, gateway, np.empty(len(gateway), np.int32), messages)
    server = int(net.server[0])
    steps, links = ways(net)
    bytes_to = UNICAST * messages / len(events.row)
    away = np.arange(len(messages)) != server
    return Unicasts(
        float((bytes_to * away).sum()),
        float((bytes_to * net.ip[server]).sum()),
        float((bytes_to * steps).sum()),
        float((bytes_to * links).sum()),
    )


def ways(net: Network) -> tuple[Floats, Floats]:
    """Links of the overlay and of the IP network that a message handed from zone to zone crosses from the server to
    each zone."""
    steps, links = np.empty((2, len(net.reached)))
    z = net.zones
    for zone, i in enumerate(z.node.tolist()):
        tally = np.zeros(4, np.int64)
        l, r = _inside(z.west[i], z.east[i]), _inside(z.south[i], z.north[i])
        send(net, int(net.server[0]), np.nextafter(l, -np.inf), l, r, np.nextafter(r, np.inf), tally)
        steps[zone], links[zone] = tally[OVERLAY], tally[IP]
    return steps, links


def _inside(low: float, high: float) -> float:
    """A number between two, either of which may be infinite."""
    if np.isfinite(low):
        return low
    return high - 1.0 if np.isfinite(high) else 0.0


@kernel
def count_gateways(
    objects: ObjectArrays, context: PaintContext, events: Sequence, gateway: Ints32, sids: Ints32, counts: Ints
) -> None:
    """Add to `counts` how many affected subscriptions each zone is the gateway of, over all events."""
    tiles, side = context.tiles, context.tiles.side
    for e in range(len(events.row)):
        slot, y = int64(objects.pos[events.row[e]]), events.y[e]
        tiles.n[0] = 0
        if y != objects.y[slot]:
            paint(objects, context, slot, y)
            set_y(objects, slot, y)
        for t in range(tiles.n[0]):
            if tiles.own[t]:
                found = report(context.forest, 0, side[t, 0], side[t, 1], side[t, 2], side[t, 3], sids)
                for i in range(found):
                    counts[gateway[sids[i]]] += 1


class Relaxed(NamedTuple):
    """CN-Relax, an event: bytes on the overlay and on the IP network, and subscriptions that receive it."""

    overlay: float
    ip: float
    received: float


def cn_relax(x: Floats, forest: Forest, net: Network, seed: int) -> Relaxed:
    """CN-Relax: every event, whose objects lie at `x`, enters at a random broker as one message to all ranges that
    hold the object."""
    start = np.random.default_rng(seed).integers(len(net.reached), size=len(x))
    tally = np.zeros(4, np.int64)
    received = relax_events(x, start, forest, net, tally)
    n = len(x)
    return Relaxed(MESSAGE * tally[OVERLAY] / n, MESSAGE * tally[IP] / n, received / n)


@kernel
def relax_events(x: Floats, start: Ints, forest: Forest, net: Network, tally: Ints) -> int:
    """Send one message an event; returns how many subscriptions received them."""
    received = 0
    for e in range(len(x)):
        send(net, start[e], -np.inf, x[e], x[e], np.inf, tally)
        received += count(forest, 0, -np.inf, x[e], x[e], np.inf)
    return received


def fresh(x: Floats, y: Floats) -> RangeTree:
    """The object index of objects in order of x, in their first state."""
    return object_index(World(x, y, np.empty((0, 3))))
