"""How a message travels: greedily to the rectangle it is for, then to every zone that the rectangle overlaps, once.

**To the rectangle.** A broker passes a message on to the neighbour whose zone is nearest to the rectangle, the lower
number first. Some neighbour is always nearer than the broker itself: the one beyond the side across which the shortest
line to the rectangle leaves the zone.

**Within the rectangle.** The first zone reached names a point of the rectangle in it, the entry. Every other zone that
overlaps the rectangle gets the message from the zone that lies beyond its own point nearest to the entry: across a side
facing the entry's l, or its r once the l are level. Both can tell from the rectangle, the entry and their boxes, so no
zone is sent the message twice and no message goes astray. The distance to the entry shrinks with every such step, so
all steps make a tree.

A message that reaches k zones within the rectangle after h steps to it has crossed h + k - 1 links of the overlay; each
is as many links of the IP network as the shortest path between the two brokers has.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.network.topology import distances, make_topology
from bench.network.zones import Zones, make_zones
from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import INF, Floats, Ints, Ints32

OVERLAY, IP, ZONES, STEPS = range(4)
"""Columns of a tally: links of the overlay and of the IP network crossed, zones reached in rectangles, steps to
them."""


class Network(NamedTuple):
    """Brokers, each the owner of the zone with its number. `ip` holds the links of the IP network between two of them,
    `server[0]` the one whose zone holds the centre of S. The rest is scratch: the zones that the last message reached,
    and from which each of them had it (-1 for the first)."""

    zones: Zones
    ip: NDArray[np.int16]
    server: Ints32
    reached: Ints32
    sender: Ints32


def make_network(nodes: int, brokers: int, seed: int, least: float = 0.0, greatest: float = 1.0) -> Network:
    """Brokers at random nodes of an internet-like graph, who own S between `least` and `greatest`."""
    rng = np.random.default_rng(seed)
    zones = make_zones(brokers, seed, least, greatest)
    ip = distances(make_topology(nodes, seed), rng.choice(nodes, brokers, replace=False))
    centre = (least + greatest) / 2
    server = np.array([zone_of(zones, centre, centre)], np.int32)
    return Network(zones, ip, server, np.empty(brokers, np.int32), np.empty(brokers, np.int32))


@kernel
def zone_of(zones: Zones, l: float, r: float) -> int:
    """The zone that holds (l, r)."""
    i = 0
    while zones.zone[i] < 0:
        i += 1
        if not (zones.west[i] <= l < zones.east[i] and zones.south[i] <= r < zones.north[i]):
            i = zones.after[i]
    return zones.zone[i]


@kernel
def zones_of(zones: Zones, l: Floats, r: Floats, out: Ints32) -> None:
    """Write the zones that hold the points (l[i], r[i]) to `out`."""
    for i in range(len(l)):
        out[i] = zone_of(zones, l[i], r[i])


@internal
def gap(zones: Zones, node: int, west: float, east: float, south: float, north: float) -> float:
    """The distance between the box of node i and a closed rectangle; 0 where they overlap, and only there.

    A side that is open ends one step of a float earlier: a rectangle that only touches it is not reached.
    """
    last_l, last_r = np.nextafter(zones.east[node], -INF), np.nextafter(zones.north[node], -INF)
    dl = zones.west[node] - east if zones.west[node] > east else west - last_l if west > last_l else 0.0
    dr = zones.south[node] - north if zones.south[node] > north else south - last_r if south > last_r else 0.0
    return math.hypot(dl, dr)


@internal
def overlaps(zones: Zones, node: int, west: float, east: float, south: float, north: float) -> bool:
    """Does the box of node i, open in the east and north, hold a point of the closed rectangle?"""
    return (
        (zones.west[node] <= east)
        & (west < zones.east[node])
        & (zones.south[node] <= north)
        & (south < zones.north[node])
    )


@kernel
def approach(network: Network, start: int, west: float, east: float, south: float, north: float, tally: Ints) -> int:
    """The zone at which a message from zone `start` enters the closed rectangle; its steps are added to the tally."""
    zones = network.zones
    here = start
    while not overlaps(zones, zones.node[here], west, east, south, north):
        best, least = -1, INF
        for i in range(zones.first[here], zones.first[here + 1]):
            there = zones.near[i]
            far = gap(zones, zones.node[there], west, east, south, north)
            if far < least:
                best, least = there, far
        tally[OVERLAY] += 1
        tally[STEPS] += 1
        tally[IP] += network.ip[here, best]
        here = best
    return here


@kernel
def spread(network: Network, entry: int, west: float, east: float, south: float, north: float, tally: Ints) -> int:
    """Take a message from zone `entry` to all zones that overlap the closed rectangle; returns their number.

    They are left in `network.reached`, in order of their numbers, with their senders in `network.sender`.
    """
    zones = network.zones
    e = zones.node[entry]
    l, r = max(west, zones.west[e]), max(south, zones.south[e])
    n = 0
    i = 0
    while i < len(zones.zone):
        inside = overlaps(zones, i, west, east, south, north)
        if inside and zones.zone[i] >= 0:
            here = zones.zone[i]
            sender = -1
            if here != entry:
                sender = zone_towards(zones, i, l, r, west, east, south, north)
                tally[OVERLAY] += 1
                tally[IP] += network.ip[sender, here]
            network.reached[n], network.sender[n] = here, sender
            n += 1
        i = i + 1 if inside else zones.after[i]
    tally[ZONES] += n
    return n


@internal
def zone_towards(
    zones: Zones, node: int, l: float, r: float, west: float, east: float, south: float, north: float
) -> int:
    """The zone of the rectangle that comes before that of node i on the way from the entry (l, r)."""
    lo, hi = max(west, zones.west[node]), zones.east[node]
    bottom, top = max(south, zones.south[node]), zones.north[node]
    # The own point nearest to the entry; just below a side that is open.
    q = min(max(r, bottom), np.nextafter(top, -INF))
    if l < lo:
        p = np.nextafter(lo, -INF)
    elif l >= hi:
        p = hi
    else:
        p = l
        q = np.nextafter(bottom, -INF) if r < bottom else top
    return zone_of(zones, p, q)


@kernel
def send(
    network: Network, start: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float, tally: Ints
) -> int:
    """A message for the subscriptions of a tile, from zone `start`; returns the number of zones it reached."""
    west, north = np.nextafter(l_outer, INF), np.nextafter(r_outer, -INF)
    entry = approach(network, start, west, l_inner, r_inner, north, tally)
    return spread(network, entry, west, l_inner, r_inner, north, tally)
