"""The paper's Figures 14, 17 and 20 on their own axes, beside what a service with zones, NATS and gateways sends.

The scan of the paper has captions, axes and the text about these figures, but no point of their curves: what stands
under "the paper says" is what its text states. The paper's approaches are run again over its broker network, hop by
hop, with messages of 36 bytes; ours are the messages of the publisher, JSON with the object's values.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from app.demo.flights import load_arrivals
from app.rendering.boards import board_json
from app.zones.table import ZoneTable
from bench.boards import owners, stage, trace
from bench.boards.plays import SPARSE
from bench.boards.workload import make_ranges
from bench.compare import Claim, claims
from bench.network.owners import share_out
from bench.report import Report, count
from indexes.boards.commands import UPDATE, UPSERT, AddSubscriptions, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import ranges
from indexes.boards.zones import Cut, cut_zones
from indexes.core.arrays import Floats, Rows

ENVELOPE = len('{"seq":1000000,"prev":1000000,"tiles":[]}')
"""Bytes of a message besides its tiles."""

SAMPLE = 200_000
"""Subscriptions by which the plane is cut."""


class Size(NamedTuple):
    """How much is run: the paper's network and workload (Figure 14), its trace (17), its owners (20); zones and
    gateways of ours, and list lengths at which painting is timed."""

    network: stage.Size = stage.Size(events=2_000)
    flights: trace.Size = trace.Size(events=10_000)
    spread: owners.Size = owners.Size(events=500)
    zones: int = 1_000
    gateways: int = 16
    painted: tuple[int, ...] = (10, 100)


QUICK = Size(
    stage.Size(1_000, 20_000, (20_000,), 200, (1, 5), 200, 20, (2,)),
    trace.Size(200, 400, 5_000, (1, 5), 200, 20),
    owners.Size(10_000, 100, 50, (10, 100)),
    50,
    4,
    (10,),
)


class World(NamedTuple):
    """Objects with their first y, events (whose y, and the new one), and the ends of subscriptions."""

    x: Floats
    y: Floats
    row: Rows
    new: Floats
    l: Floats
    r: Floats


class Sent(NamedTuple):
    """Averages an event: messages to zones, bytes from the service to NATS, and from there to gateways that have the
    readers of a zone each to themselves, or readers at random."""

    messages: float
    bytes: float
    by_zone: float
    anywhere: float

    @property
    def links(self) -> float:
        """Bytes on all links, with readers by zone."""
        return self.bytes + self.by_zone


def publish(world: World, k: int, zones: int, gateways: int) -> Sent:
    """The messages of a board of this world, whose subscriptions all have this k, under Paint-Sparse."""
    n, m = len(world.x), len(world.l)
    board = BoardEngine(BoardConfig(("x",), "y", ks=(k,), zones=1))
    ids = [f"o{i}" for i in range(n)]
    board.replay(Events(np.full(n, UPSERT, np.uint8), ids, world.x.copy(), world.y.copy()))
    names = pa.array(np.arange(m)).cast(pa.string())
    board.replay(AddSubscriptions(names, ranges(world.l, world.r), np.full(m, k, np.int32)))
    step = max(1, m // SAMPLE)
    cut = cut_zones(world.l[::step], world.r[::step], zones)
    table, write = ZoneTable(Cut(1, 0, cut)), board_json(("x",), "y")
    events = len(world.row)
    rows = world.row.tolist()
    _, slices = board.apply(
        Events(np.full(events, UPDATE, np.uint8), [ids[i] for i in rows], np.full(events, np.nan), world.new.copy())
    )
    messages: set[tuple[int, int]] = set()
    size = 0
    for painted in (one for part in slices for one in part.painted):
        texts = [len(write.tile(view)) for _, view in painted.rows.views()]
        for row, zone in table.touched(painted.rows.numbers[:, :4]):
            seq = painted.first_seq + painted.rows.event[row]
            size += texts[row] + (0 if (seq, zone) in messages else ENVELOPE)
            messages.add((seq, zone))
    total = size / events
    return Sent(len(messages) / events, total, total, total * gateways)


def show(report: Report, size: Size) -> None:
    """Add the figures."""
    report.heading("The paper's Figures 14, 17 and 20", 2)
    report.text(
        "What could be read of them in the scan: of Figure 14 the caption (traffic in the broker network per event, by",
        "k, for overlay and IP) and its text; of Figure 17 the legend, the ticks of k (1, 2, 5, 10, 15, 20), those of",
        "bytes (1E+09 and 1E+10 for the overlay, 1E+10 and 1E+11 for IP, sums over the trace) and",
        "its text; of Figure 20",
        "the caption (length of traversal, 100 servers, 100,000 objects), the ticks of k from 10 to",
        "100,000 and its text.",
        "No point of a curve could be read, so that the paper has no columns: its approaches are run again here, with",
        "messages of 36 bytes from broker to broker. Ours are messages of JSON to zones, over two",
        "links: from the service",
        "to NATS, and from there to the one gateway that has the readers of a zone; with readers at",
        "random gateways every",
        "gateway takes every message.",
    )
    _figure_14(report, size)
    _figure_17(report, size)
    _figure_20(report, size)


def _figure_14(report: Report, size: Size) -> None:
    report.progress("figure 14")
    report.heading("Figure 14: bytes an event by k", 3)
    at = size.network
    played = stage.Stage(at)
    made, events = played.world(1), played.events(1)
    l, r = make_ranges(at.m)
    world = World(made.x, made.y, events.row, events.y, l, r)
    report.text(
        f"{at.n:,} objects, {at.m:,} subscriptions, {at.events:,}",
        f"events (the paper has 50,000); {at.brokers:,} brokers",
        f"on {at.nodes:,} nodes for the paper's approaches, {size.zones:,} zones and {size.gateways}",
        "gateways for ours.",
    )
    rows, lead = [], 0.0
    relaxed = played.relaxed()
    for k in at.ks:
        unicast, sparse = played.unicasts(k), played.played(SPARSE, k, sending=True)
        ours = publish(world, k, size.zones, size.gateways)
        rows.append(_row(k, (unicast.overlay, unicast.ip), (sparse.overlay, sparse.ip), relaxed.overlay, ours))
        lead = math.log10(unicast.overlay / max(ours.links, 1e-9))
    report.table(_HEAD, rows)
    _said(report, 14, 1.0, "Paint-Sparse leads Unicast by an order of magnitude", lead, at.ks[-1])


def _figure_17(report: Report, size: Size) -> None:
    report.progress("figure 17")
    report.heading("Figure 17: bytes an event by k, a trace", 3)
    at = size.flights
    replay = trace.Replay(trace.flights(load_arrivals(), at.objects, at.events), at)
    flown, (l, r) = replay.trace, replay.ends
    world = World(flown.x, flown.y, flown.events.row, flown.events.y, l, r)
    report.text(
        "The paper's trace of stocks is not public; in its place are the flights of the demo, as in",
        f"[the boards' results](boards.md): {len(flown.x):,} flights, {len(flown.events.row):,}",
        "arrivals (the paper has",
        f"121,860 events), {at.m:,} uniform subscriptions.",
    )
    rows, lead = [], 0.0
    relaxed = replay.relaxed()
    for k in at.ks:
        unicast, sparse = replay.unicasts(k), replay.played(SPARSE, k)
        ours = publish(world, k, size.zones, size.gateways)
        rows.append(_row(k, (unicast.overlay, unicast.ip), (sparse.overlay, sparse.ip), relaxed.overlay, ours))
        lead = math.log10(unicast.overlay / max(ours.links, 1e-9))
    report.table(_HEAD, rows)
    _said(report, 17, 2.0, "Paint-Sparse is two orders of magnitude below Unicast", lead, at.ks[-1])


_HEAD = (
    "k", "Unicast, overlay", "Unicast, IP", "Paint-Sparse, overlay", "Paint-Sparse, IP", "CN-Relax, overlay",
    "ours: messages to zones", "ours: service to NATS", "ours: all links", "ours: readers at random gateways",
)  # fmt: skip


def _row(
    k: int, unicast: tuple[float, float], sparse: tuple[float, float], relaxed: float, ours: Sent
) -> tuple[str, ...]:
    numbers = (*unicast, *sparse, relaxed, ours.messages, ours.bytes, ours.links, ours.bytes + ours.anywhere)
    return (f"{k:,}", *map(count, numbers))


def _said(report: Report, figure: int, paper: float, text: str, ours: float, k: int) -> None:
    claims(
        report,
        [
            Claim(
                f"Figure {figure}: {text}; ours: all links below Unicast at k = {k}, orders of magnitude",
                paper,
                paper,
                ours,
                "JSON of some 140 bytes a tile in place of 36, over two links whatever the zone",
            )
        ],
    )  # fmt: skip


def _figure_20(report: Report, size: Size) -> None:
    report.progress("figure 20")
    report.heading("Figure 20: owners asked by k", 3)
    at = size.spread
    draw = np.random.default_rng(1)
    x, y = np.sort(draw.random(at.n)), draw.random(at.n)
    d = share_out(x, y, at.owners)
    objects = draw.integers(at.n, size=at.events)
    half = np.full(at.events, float(np.median(y)))
    rows = []
    for k in at.ks:
        random, middle = owners.measure(d, objects, y[objects], k), owners.measure(d, objects, half, k)
        spent = _painting(x, y, k, at.events) if k in size.painted else None
        numbers = (2 * k * at.owners / at.n, middle.first_k, random.first_k, random.min_y)
        rows.append((f"{k:,}", *map(count, numbers), "0", "" if spent is None else f"{spent * 1e6:.0f}"))
    report.table(
        (
            "k",
            "the paper's 2 k s / n",
            "first_k, half are better",
            "first_k, a random object",
            "min_y, a random object",
            "ours",
            "ours: us to paint an event",
        ),
        rows,
    )  # fmt: skip
    report.text(
        f"{at.n:,} objects over {at.owners} owners along the diagonal, {at.events:,} random objects.",
        "In the service, and in",
        "each partition of `spark_jobs.dissemination`, all objects are in one range tree, which asks nobody: what is",
        "spread is the plane of subscriptions. The last column is what painting takes there in its",
        "place, one event after",
        "the other by Paint-Dense on one core, for the first of these k.",
    )


def _painting(x: Floats, y: Floats, k: int, events: int) -> float:
    """Seconds to paint an event, the fastest of three runs."""
    draw = np.random.default_rng(3)
    n = len(x)
    board = BoardEngine(BoardConfig(("x",), "y", ks=(k,), algorithm="dense", zones=1))
    ids = [f"o{i}" for i in range(n)]
    board.replay(Events(np.full(n, UPSERT, np.uint8), ids, x.copy(), y.copy()))
    spent = []
    for _ in range(3):
        rows, new = draw.integers(n, size=events), draw.random(events)
        command = Events(
            np.full(events, UPDATE, np.uint8), [ids[i] for i in rows.tolist()], np.full(events, np.nan), new
        )
        plan = board.prepare(command)
        began = time.perf_counter()
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
        spent.append((time.perf_counter() - began) / events)
    return min(spent)
