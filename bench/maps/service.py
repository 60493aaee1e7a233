"""The service over HTTP: requests for zones, and standing queries among objects that change.

Measured against `rankcast serve` in a process of its own with its durable log, by a load generator in another. Answers
are compared with a scan before anything is said of their speed, and standing ones again when the objects have changed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.closed_loop import RATE_COLUMNS, Result, closed_loop, rate_columns, rates
from bench.maps.live import MOVED
from bench.maps.workload import WIDTH, World, make_world
from bench.process import NDJSON, OURS, Checkout, Failed, Server, run_job, service
from bench.report import Report, count
from indexes.core.arrays import Floats

MAP = "bench"
PATH = f"/v1/maps/{MAP}"
NAMES = ("a", "b")
SCORE = {"kind": "weighted_sum", "weights": {"distance": 0.4, "a": 0.3, "b": 0.3}}

TOPS_WANTED, SKYLINES_WANTED, CHANGES_WANTED = 5_000.0, 1_200.0, 1_000.0

CONNECTIONS, BATCH, CHECKED = 32, 100, 50

SOME = 25
"""Skylines a request where there are many: with their zones that is some hundred kilobytes, which come in one piece."""


class Size(NamedTuple):
    """Objects and top-k asked for; k and m; skylines asked for; rounds; objects, standing top-k and skylines, those
    followed, changes a second and a request, and seconds."""

    n: int = 100_000
    asks: int = 20_000
    k: int = 10
    m: int = 10
    skylines: int = 3_000
    rounds: int = 3
    live_n: int = 1_000_000
    standing: int = 100_000
    standing_skylines: int = 1_000
    followed: int = 10_000
    pace: int = 1_000
    batch: int = 50
    seconds: int = 20


QUICK = Size(5_000, 500, 5, 5, 100, 2, 5_000, 300, 30, 100, 200, 20, 2)


def show(report: Report, size: Size) -> None:
    """Run everything. Raises `Failed` for a wrong answer."""
    report.progress("zones over HTTP")
    show_zones(report, size)
    for kind, standing, followed in (
        ("top", size.standing, size.followed),
        ("skyline", size.standing_skylines, size.standing_skylines),
    ):
        report.progress(f"standing queries: {kind}")
        _show_standing(report, size, kind, standing, followed)


def show_zones(report: Report, size: Size, checkout: Checkout = OURS) -> dict[str, float]:
    """Ask the service of a checkout for zones of top-k and of skylines, one and some a request; zones a second by kind
    of request."""
    world = make_world(size.n, 2, True, "uniform", size.asks, 1)
    places = world.walks[:, 0].tolist()
    with tempfile.TemporaryDirectory() as folder, service(Path(folder), checkout=checkout) as server:
        seconds = register(server, world)
        _compare_tops(server, size, world.points, world.statics, places[:CHECKED])
        runs = (
            ("top-k, one a request", "top", [top_body(size, location=place) for place in places], 1, CONNECTIONS),
            (
                f"top-k, {BATCH} a request",
                "top",
                [top_body(size, locations=places[i : i + BATCH]) for i in range(0, len(places), BATCH)],
                BATCH,
                2,
            ),
            (
                "skylines, one a request",
                "skyline",
                [json.dumps({"location": place}) for place in places[: size.skylines]],
                1,
                CONNECTIONS,
            ),
            (
                f"skylines, {SOME} a request",
                "skyline",
                [json.dumps({"locations": places[i : i + SOME]}) for i in range(0, size.skylines, SOME)],
                SOME,
                2,
            ),
        )
        rows, middles = [], {}
        for name, path, bodies, each, connections in runs:
            results = closed_loop(server, f"{PATH}/{path}", bodies, size.rounds, connections)
            middles[name], row = _row(results, each)
            rows.append((name, str(connections), *row))
        resident = server.resident()
    report.text(
        f"{size.n:,} objects with 2 values, clustered, sent as one Arrow stream in {seconds:.1f} s; k = {size.k}, m = "
        f"{size.m}, weighted sum; clients near objects. {size.rounds} rounds, each connection sends the next request "
        f"when the last is answered. {CHECKED} answers were compared with a scan. The service takes "
        f"{resident / 1e6:,.0f} MB."
    )
    head = ("", "connections", "zones/s", *RATE_COLUMNS, "server CPU, us a zone", "bytes")
    report.table(head, rows)
    best = max(middles[runs[0][0]], middles[runs[1][0]])
    report.verdict(f"{TOPS_WANTED:,.0f} top-k zones/s over HTTP", f"{best:,.0f} zones/s", best >= TOPS_WANTED)
    best = max(middles[runs[2][0]], middles[runs[3][0]])
    report.verdict(f"{SKYLINES_WANTED:,.0f} skyline zones/s over HTTP", f"{best:,.0f} zones/s", best >= SKYLINES_WANTED)
    return middles


def _show_standing(report: Report, size: Size, kind: str, standing: int, followed: int) -> None:
    world = make_world(size.live_n, 2, True, "uniform", standing, 1)
    rng = np.random.default_rng(7)
    places, points = world.walks[:, 0], world.points.copy()
    bodies = []
    for _ in range(size.pace * size.seconds // size.batch):
        slots = rng.choice(size.live_n, size.batch, replace=False)
        points[slots] += rng.normal(0, MOVED / WIDTH, (size.batch, 2))
        objects = [{"id": f"o{i}", "location": points[i].tolist()} for i in slots.tolist()]
        bodies.append(json.dumps({"objects": objects}, separators=(",", ":")))
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as server:
        register(server, world)
        ids = [f"q{i}" for i in range(standing)]
        asked = add_queries(server, size, kind, ids, places)
        job = {
            "map": MAP,
            "path": f"{PATH}/objects",
            "bodies": bodies,
            "pace": size.pace / size.batch,
            "follow": ids[:: standing // followed],
            "port": server.port,
            "pid": server.pid,
        }
        result = run_job("bench.maps.load", job)
        if set(result["statuses"]) != {"200"}:
            raise Failed(f"changes were answered {result['statuses']}")
        _compare_standing(server, size, kind, points, world.statics, ids, places)
        resident = server.resident()
    changes = len(bodies) * size.batch
    rate = changes / result["elapsed"]
    report.text(
        f"{standing:,} standing queries ({kind}) over {size.live_n:,} objects, made by one request in {asked:.1f} s; "
        f"{changes:,} random objects move by about {MOVED:.0f} m, {size.batch} a request, {size.pace:,} a second. A "
        f"WebSocket follows {followed:,} of the queries. {CHECKED} of them were compared with a scan afterwards."
    )
    head = "changes/s", "ms a request p50", "p99", "longest", "server CPU", "pushed", "pushed a change", "resident, MB"
    row = (
        f"{rate:,.0f}",
        count(result["ms"]["p50"]),
        count(result["ms"]["p99"]),
        count(result["ms"]["max"]),
        f"{100 * result['server_cpu'] / result['elapsed']:.0f}%",
        f"{result['results']:,}",
        f"{result['results'] / changes:.3f}",
        f"{resident / 1e6:,.0f}",
    )
    report.table(head, [row])
    if kind == "top":
        kept = rate >= 0.98 * size.pace and size.pace >= CHANGES_WANTED
        wanted = f"{standing:,} standing top-k under {CHANGES_WANTED:,.0f} changed objects a second over HTTP"
        report.verdict(wanted, f"{rate:,.0f} changes/s, as sent", kept)


def register(server: Server, world: World) -> float:
    """Make the map and send all objects in one request; the seconds that took."""
    config = {"attributes": {name: {"order": "low", "range": [0, 1]} for name in NAMES}, "bounds": [0, 0, 1, 1]}
    server.ask("PUT", PATH, json.dumps(config).encode())
    columns = {"x": world.points[:, 0], "y": world.points[:, 1]}
    columns |= {name: world.statics[:, j] for j, name in enumerate(NAMES)}
    ids = pa.array([f"o{i}" for i in range(len(world.points))])
    seconds = server.send_table(f"{PATH}/objects", pa.table({"id": ids, **columns}))
    server.expect(PATH, "objects", len(ids))
    return seconds


def top_body(size: Size, **where: Any) -> str:
    return json.dumps({**where, "k": size.k, "m": size.m, "score": SCORE}, separators=(",", ":"))


def add_queries(server: Server, size: Size, kind: str, ids: list[str], places: Floats) -> float:
    """Make the standing queries in one request; the seconds that took."""
    asks = {"kind": "top", "k": size.k, "m": size.m, "score": SCORE} if kind == "top" else {"kind": "skyline"}
    lines = [
        json.dumps({"id": id, **asks, "location": place}, separators=(",", ":"))
        for id, place in zip(ids, places.tolist(), strict=True)
    ]
    _, seconds, _ = server.send(f"{PATH}/queries?lists=false", "\n".join(lines).encode(), NDJSON)
    server.expect(PATH, "queries", len(ids))
    return seconds


def _row(results: list[Result], each: int) -> tuple[float, tuple[str, ...]]:
    zones = sum(one["requests"] for one in results) * each
    answered = sum(one["answer_bytes"] for one in results) / zones
    return median(rates(results, each)), (*rate_columns(results, each, 0), f"{answered:,.0f}")


def _best(size: Size, points: Floats, statics: Floats, place: list[float]) -> list[str]:
    """The k best by a scan."""
    weights = SCORE["weights"]
    assert isinstance(weights, dict)
    total = weights["a"] * statics[:, 0] + weights["b"] * statics[:, 1]
    score = total + weights["distance"] * np.hypot(points[:, 0] - place[0], points[:, 1] - place[1])
    return [f"o{i}" for i in np.lexsort((np.arange(len(score)), score))[: size.k].tolist()]


def _skyline(points: Floats, statics: Floats, place: list[float]) -> set[str]:
    """The skyline by a scan in order of distance."""
    dx, dy = points[:, 0] - place[0], points[:, 1] - place[1]
    far = dx * dx + dy * dy
    left = np.lexsort((statics.sum(axis=1), far))
    rows = np.column_stack([statics, far])[left]
    found: list[int] = []
    while len(left):
        found.append(int(left[0]))
        dominated = (rows >= rows[0]).all(axis=1) & (rows > rows[0]).any(axis=1)
        dominated[0] = True
        left, rows = left[~dominated], rows[~dominated]
    return {f"o{i}" for i in found}


def _compare_tops(server: Server, size: Size, points: Floats, statics: Floats, places: list[list[float]]) -> None:
    results = server.ask("POST", f"{PATH}/top", top_body(size, locations=places).encode())["results"]
    for place, result in zip(places, results, strict=True):
        if [one["id"] for one in result["list"]] != _best(size, points, statics, place):
            raise Failed(f"the best at {place} are not those of a scan")


def _compare_standing(
    server: Server, size: Size, kind: str, points: Floats, statics: Floats, ids: list[str], places: Floats
) -> None:
    for i in range(0, len(ids), max(1, len(ids) // CHECKED)):
        found, place = server.ask("GET", f"{PATH}/queries/{ids[i]}"), places[i].tolist()
        if kind == "top":
            right = [one["id"] for one in found["list"]] == _best(size, points, statics, place)
        else:
            right = {one["id"] for one in found["skyline"]} == _skyline(points, statics, place)
        if not right:
            raise Failed(f"the answer of {ids[i]} is not that of a scan")
