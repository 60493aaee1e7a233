"""`rankcast bench zones`: a cluster of 1,000,000,000 subscriptions over n zones, simulated from costs measured here.

The events and objects are the paper's (V). So many subscriptions are dense, so tiles are those of Paint-Dense, which
need none in memory; where they lie is a sample, by which the plane is cut and by which the lists that a tile reaches
are counted. Costs of a message and of a delivery are measured with the code of the publisher and of the gateway.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from app.gateway.lists import KeptList, Ranking, Tile
from app.rendering.boards import board_json
from app.rendering.lists import ListJson
from app.zones.table import ZoneTable
from bench.report import RESULTS, Report, count, page
from bench.zones import figures
from indexes.boards.commands import UPDATE, UPSERT, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.results import TileRows, TileView
from indexes.boards.zones import Cut, Zone, counts_of, cut_zones, imbalance
from indexes.core.arrays import Floats

PAGE = RESULTS / "zones.md"
K = 10
CLUSTERS, SPREAD = 10, 0.05


class Size(NamedTuple):
    """Objects, events, subscriptions in all and in the sample, and numbers of zones."""

    objects: int = 10_000
    events: int = 4_000
    all: int = 1_000_000_000
    sample: int = 400_000
    zones: tuple[int, ...] = (16, 64, 256, 1_024)
    gateways: int = 16
    figures: figures.Size = figures.Size()


QUICK = Size(500, 100, 1_000_000_000, 10_000, (4, 16), 4, figures.QUICK)


class Painted(NamedTuple):
    """The tiles of all events, each with the number of its event."""

    event: Floats
    rows: list[TileRows]
    sides: Floats


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Simulate; with `out` the page is written there."""
    size = QUICK if quick else Size()
    with page("Zones: a cluster of a thousand million subscriptions", "zones", quick, out, say) as report:
        report.text(
            f"{size.objects:,} objects, {size.events:,} events, k = {K}; tiles of Paint-Dense, since {size.all:,}",
            f"subscriptions leave no gap. The plane is cut by a sample of {size.sample:,} of them. A message is what",
            "one event publishes to one zone. Balance is the largest zone's share, 1 where all are",
            "equal. Zones are dealt",
            f"to {size.gateways} gateways, neighbours together (to fewer where there are fewer",
            "zones), and readers are sent",
            "to the gateway of their zone: what the busiest one takes from NATS is in the last columns.",
        )
        for name, (l, r) in (("uniform", _uniform(size.sample)), ("clustered", _clustered(size.sample))):
            report.progress(name)
            _one(report, size, name, l, r)
        figures.show(report, size.figures)
    return report


def _one(report: Report, size: Size, name: str, l: Floats, r: Floats) -> None:
    painted = _paint(size)
    report.heading(f"{name.capitalize()} subscriptions", 2)
    reached = _reached(painted, l, r)
    share = reached.sum() / size.events / len(l)
    texts = [len(text) for text in _texts(painted)]
    unicast = share * size.all * float(np.mean(texts))
    weight = _weights(painted, l, r)
    rows = []
    for n in size.zones:
        by_count, by_rate = cut_zones(l, r, n), cut_zones(l, r, n, weight)
        for how, zones in (("subscriptions", by_count), ("rate", by_rate)):
            rows.append(_row(size, n, how, zones, painted, texts, l, r))
    report.table(
        (
            "zones", "cut by", "messages an event", "bytes an event", "balance of subscriptions", "balance of messages",
            "largest zone, subscriptions", "busiest gateway, messages", "busiest gateway, bytes",
        ),
        rows,
    )  # fmt: skip
    make, deliver = _publisher_cost(painted, cut_zones(l, r, size.zones[-1])), _delivery_cost(painted)
    deliveries = share * size.all
    n = size.zones[-1]
    largest = imbalance(counts_of(cut_zones(l, r, n), l, r), n) / n
    report.table(
        (
            "subscriptions", "lists reached by an event", "told one by one, bytes", f"largest of {n:,} zones",
            "cores of gateways at an event a second",
        ),
        [
            (
                f"{m:,}", count(share * m), count(share * m * float(np.mean(texts))), count(largest * m),
                count(share * m * deliver),
            )
            for m in (size.all // 1_000, size.all // 100, size.all // 10, size.all)
        ],
    )  # fmt: skip
    report.text(
        f"An event reaches {share:.3%} of the lists: {count(deliveries)} of {size.all:,}. Told one by one that is",
        f"{count(unicast)} bytes an event. To make the messages of an event for {size.zones[-1]:,} zones takes",
        f"{make * 1e3:.2f} ms of one core, so one service publishes {count(1 / make)} events a second with one; a",
        f"delivery at a gateway takes {deliver * 1e6:.1f} us, so an event a second takes {count(deliveries * deliver)}",
        "cores of gateways where every list is read. A gateway takes the messages of the zones that its readers are",
        "in: with readers spread by zone each message goes to the gateways of its zone alone.",
    )


def _uniform(m: int) -> tuple[Floats, Floats]:
    ends = np.sort(np.random.default_rng(7).random((m, 2)), 1)
    return ends[:, 0].copy(), ends[:, 1].copy()


def _clustered(m: int) -> tuple[Floats, Floats]:
    draw = np.random.default_rng(8)
    centers = np.sort(draw.random((CLUSTERS, 2)), 1)[draw.integers(CLUSTERS, size=m)]
    ends = np.sort(np.clip(centers + draw.normal(0, SPREAD, (m, 2)), 0, 1), 1)
    return ends[:, 0].copy(), ends[:, 1].copy()


def _paint(size: Size) -> Painted:
    """The tiles of the paper's events on a board."""
    draw = np.random.default_rng(1)
    n = size.objects
    board = BoardEngine(BoardConfig(("x",), "y", ks=(K,), algorithm="dense", zones=1))
    ids = [f"o{i}" for i in range(n)]
    y = draw.random(n)
    board.replay(Events(np.full(n, UPSERT, np.uint8), ids, draw.random(n), y.copy()))
    chosen, up, u = draw.integers(n, size=size.events), draw.random(size.events) < 0.5, draw.random(size.events)
    new = np.empty(size.events)
    for e, i in enumerate(chosen.tolist()):
        y[i] = new[e] = y[i] * u[e] if up[e] else y[i] + (1 - y[i]) * u[e]
    command = Events(
        np.full(size.events, UPDATE, np.uint8), [ids[i] for i in chosen.tolist()], np.full(size.events, np.nan), new
    )
    _, slices = board.apply(command)
    found = [painted for part in slices for painted in part.painted]
    rows = [one.rows for one in found]
    event = np.concatenate([np.array(one.event) for one in rows])
    sides = np.concatenate([one.numbers[:, :4] for one in rows])
    west = sides[:, :2]
    west[np.isinf(west)] = -np.inf
    return Painted(event, rows, sides)


def _inside(sides: Floats, l: Floats, r: Floats) -> Floats:
    l_outer, l_inner, r_inner, r_outer = sides
    return (l > l_outer) & (l <= l_inner) & (r >= r_inner) & (r < r_outer)


def _reached(painted: Painted, l: Floats, r: Floats) -> Floats:
    """How many of the sample each tile reaches."""
    order = np.argsort(l)
    l, r = l[order], r[order]
    first = np.searchsorted(l, painted.sides[:, 0], "right")
    last = np.searchsorted(l, painted.sides[:, 1], "right")
    found = [
        np.count_nonzero((r[a:b] >= lo) & (r[a:b] < hi))
        for a, b, lo, hi in zip(first, last, painted.sides[:, 2], painted.sides[:, 3], strict=True)
    ]
    return np.array(found, np.float64)


def _weights(painted: Painted, l: Floats, r: Floats) -> Floats:
    """How many tiles reach each of the sample, and a little, so that none weighs nothing."""
    order = np.argsort(l)
    sorted_l, sorted_r = l[order], r[order]
    first = np.searchsorted(sorted_l, painted.sides[:, 0], "right")
    last = np.searchsorted(sorted_l, painted.sides[:, 1], "right")
    sorted_weight = np.full(len(l), 0.01)
    for a, b, lo, hi in zip(first, last, painted.sides[:, 2], painted.sides[:, 3], strict=True):
        sorted_weight[a:b] += (sorted_r[a:b] >= lo) & (sorted_r[a:b] < hi)
    weight = np.empty(len(l))
    weight[order] = sorted_weight
    return weight


def _texts(painted: Painted) -> list[str]:
    write = board_json(("x",), "y")
    return [write.tile(view) for rows in painted.rows for _, view in rows.views()]


def _row(
    size: Size, n: int, how: str, zones: tuple[Zone, ...], painted: Painted, texts: list[int], l: Floats, r: Floats
) -> tuple[str, ...]:
    table = ZoneTable(Cut(1, 0, zones))
    pairs = set()
    per_zone, sizes = np.zeros(len(zones)), np.zeros(len(zones))
    for row, zone in table.touched(painted.sides):
        sizes[zone] += texts[row]
        pair = int(painted.event[row]), zone
        if pair not in pairs:
            pairs.add(pair)
            per_zone[zone] += 1
            sizes[zone] += figures.ENVELOPE
    gateways = min(size.gateways, len(zones))
    gateway = np.arange(len(zones)) * gateways // len(zones)
    taken, read = (np.bincount(gateway, weights=one).max() / size.events for one in (per_zone, sizes))
    share = imbalance(counts_of(zones, l, r), n) / n
    return (
        f"{n:,}",
        how,
        f"{len(pairs) / size.events:.2f}",
        count(sizes.sum() / size.events),
        f"{share * n:.2f}",
        f"{per_zone.max() * len(zones) / max(1.0, per_zone.sum()):.2f}",
        count(share * size.all),
        f"{taken:.3f}",
        count(read),
    )


def _publisher_cost(painted: Painted, zones: tuple[Zone, ...]) -> float:
    """Seconds to make the messages of one event."""
    table, write = ZoneTable(Cut(1, 0, zones)), board_json(("x",), "y")
    n = len(set(painted.event.tolist()))
    began = time.perf_counter()
    for rows in painted.rows:
        views, events = list(rows.views()), rows.event.tolist()
        texts: dict[int, str] = {}
        found: dict[tuple[int, int], list[str]] = {}
        for row, zone in table.touched(rows.numbers[:, :4]):
            text = texts.get(row) or texts.setdefault(row, write.tile(views[row][1]))
            found.setdefault((events[row], zone), []).append(text)
        for tiles in found.values():
            f'{{"seq":1,"prev":0,"tiles":[{",".join(tiles)}]}}'.encode()
    return (time.perf_counter() - began) / n


def _delivery_cost(painted: Painted, lists: int = 2_000) -> float:
    """Seconds to apply one tile to one list of a gateway and to write the change."""
    ranking, write = Ranking("x", "y", 1), ListJson("x", "y")
    views = [view for rows in painted.rows for _, view in rows.views() if isinstance(view, TileView)][:lists]
    tiles = [Tile(0, K, 0.0, 1.0, 0.0, 1.0, view.object, ranking.key(view.object), view.gone) for view in views]
    kept = KeptList(K)
    began = time.perf_counter()
    for tile in tiles:
        entries = kept.apply_all([tile], 0)
        f'{{"seq":1,"changes":{write.changes(entries)}}}'.encode()
    return (time.perf_counter() - began) / len(tiles)
