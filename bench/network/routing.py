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
from indexes.lean import inner_kernel, lean_kernel

INF = np.inf

OVERLAY, IP, ZONES, STEPS = range(4)
"""Columns of a tally: links of the overlay and of the IP network crossed, zones reached in rectangles, steps to
them."""


class Network(NamedTuple):
    """Brokers, each the owner of the zone with its number. `ip` holds the links of the IP network between two of them,
    `server[0]` the one whose zone holds the centre of S. The rest is scratch: the zones that the last message reached,
    and from which each of them had it (-1 for the first)."""

    zones: Zones
    ip: NDArray[np.int16]
    server: NDArray[np.int32]
    reached: NDArray[np.int32]
    sender: NDArray[np.int32]


def make_network(nodes: int, brokers: int, seed: int, least: float = 0.0, greatest: float = 1.0) -> Network:
    """Brokers at random nodes of an internet-like graph, who own S between `least` and `greatest`."""
    rng = np.random.default_rng(seed)
    zones = make_zones(brokers, seed, least, greatest)
    ip = distances(make_topology(nodes, seed), rng.choice(nodes, brokers, replace=False))
    centre = (least + greatest) / 2
    server = np.array([zone_of(zones, centre, centre)], np.int32)
    return Network(zones, ip, server, np.empty(brokers, np.int32), np.empty(brokers, np.int32))


@lean_kernel
def zone_of(z, l, r):  # type: ignore[no-untyped-def]
    """The zone that holds (l, r)."""
    i = 0
    while z.zone[i] < 0:
        i += 1
        if not (z.west[i] <= l < z.east[i] and z.south[i] <= r < z.north[i]):
            i = z.after[i]
    return z.zone[i]


@lean_kernel
def zones_of(z, l, r, out):  # type: ignore[no-untyped-def]
    """Write the zones that hold the points (l[i], r[i]) to `out`."""
    for i in range(len(l)):
        out[i] = zone_of(z, l[i], r[i])


@inner_kernel
def gap(z, i, west, east, south, north):  # type: ignore[no-untyped-def]
    """The distance between the box of node i and a closed rectangle; 0 where they overlap, and only there.

    A side that is open ends one step of a float earlier: a rectangle that only touches it is not reached.
    """
    last_l, last_r = np.nextafter(z.east[i], -INF), np.nextafter(z.north[i], -INF)
    dl = z.west[i] - east if z.west[i] > east else west - last_l if west > last_l else 0.0
    dr = z.south[i] - north if z.south[i] > north else south - last_r if south > last_r else 0.0
    return math.hypot(dl, dr)


@inner_kernel
def overlaps(z, i, west, east, south, north):  # type: ignore[no-untyped-def]
    """Does the box of node i, open in the east and north, hold a point of the closed rectangle?"""
    return (z.west[i] <= east) & (west < z.east[i]) & (z.south[i] <= north) & (south < z.north[i])


@lean_kernel
def approach(net, start, west, east, south, north, tally):  # type: ignore[no-untyped-def]
    """The zone at which a message from zone `start` enters the closed rectangle; its steps are added to the tally."""
    z = net.zones
    here = start
    while not overlaps(z, z.node[here], west, east, south, north):
        best, least = -1, INF
        for i in range(z.first[here], z.first[here + 1]):
            there = z.near[i]
            far = gap(z, z.node[there], west, east, south, north)
            if far < least:
                best, least = there, far
        tally[OVERLAY] += 1
        tally[STEPS] += 1
        tally[IP] += net.ip[here, best]
        here = best
    return here


@lean_kernel
def spread(net, entry, west, east, south, north, tally):  # type: ignore[no-untyped-def]
    """Take a message from zone `entry` to all zones that overlap the closed rectangle; returns their number.

    They are left in `net.reached`, in order of their numbers, with their senders in `net.sender`.
    """
    z = net.zones
    e = z.node[entry]
    l, r = max(west, z.west[e]), max(south, z.south[e])
    n = 0
    i = 0
    while i < len(z.zone):
        inside = overlaps(z, i, west, east, south, north)
        if inside and z.zone[i] >= 0:
            here = z.zone[i]
            sender = np.int32(-1)
            if here != entry:
                sender = zone_towards(z, i, l, r, west, east, south, north)
                tally[OVERLAY] += 1
                tally[IP] += net.ip[sender, here]
            net.reached[n], net.sender[n] = here, sender
            n += 1
        i = i + 1 if inside else z.after[i]
    tally[ZONES] += n
    return n


@inner_kernel
def zone_towards(z, i, l, r, west, east, south, north):  # type: ignore[no-untyped-def]
    """The zone of the rectangle that comes before that of node i on the way from the entry (l, r)."""
    lo, hi = max(west, z.west[i]), z.east[i]
    bottom, top = max(south, z.south[i]), z.north[i]
    # The own point nearest to the entry; just below a side that is open.
    q = min(max(r, bottom), np.nextafter(top, -INF))
    if l < lo:
        p = np.nextafter(lo, -INF)
    elif l >= hi:
        p = hi
    else:
        p = l
        q = np.nextafter(bottom, -INF) if r < bottom else top
    return zone_of(z, p, q)


@lean_kernel
def send(net, start, l_outer, l_inner, r_inner, r_outer, tally):  # type: ignore[no-untyped-def]
    """A message for the subscriptions of a tile, from zone `start`; returns the number of zones it reached."""
    west, north = np.nextafter(l_outer, INF), np.nextafter(r_outer, -INF)
    entry = approach(net, start, west, l_inner, r_inner, north, tally)
    return spread(net, entry, west, l_inner, r_inner, north, tally)
