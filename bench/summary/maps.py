"""Maps in the summary: zones beside supreme, and skylines over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.maps import service, skyline, top
from bench.maps.workload import make_world
from bench.process import OURS, Checkout
from bench.report import Report, ratio
from bench.summary.before import Target, alternated
from bench.summary.rows import NO_PROTOTYPE, Row, against, micros
from indexes.maps.object_index import PlaceIndex


class Size(NamedTuple):
    """Objects; walks and seconds of top-k and of skylines, zones that are raced, rounds; requests over HTTP; the
    checkout of the commit before."""

    n: int = 100_000
    walks: int = 40
    seconds: int = 3_600
    sky_walks: int = 100
    sky_seconds: int = 300
    zones: int = 300
    rounds: int = 7
    asks: int = 20_000
    skylines: int = 3_000
    http_rounds: int = 3
    before: Path | None = None


QUICK = Size(sky_walks=50, rounds=5, asks=2_000, skylines=1_000, http_rounds=2)

ROUNDS = 2
"""Of services, beside the commit before."""

SKYLINES = Target(5_000.0, 1_566.0, "5,000/s", rate=True)
TOP_LIMIT = "the search that supreme makes too, for m - 1 more candidates"
SKY_LIMIT = "the search that supreme makes too; what its members dominate is compared with the zone, then it is cut"
HTTP_LIMIT = "one thread that searches for zones, beside one that writes the text of members and corners"


def top_zones(size: Size) -> Iterator[Row]:
    """Zones of m = k, over supreme: ours or the prototype's search, whichever is faster."""
    sized = top.Size(size.n, size.walks, size.seconds, ms=(top.Size().k,), rounds=size.rounds, kinds=top.KINDS[:1])
    world = make_world(size.n, 2, True, "uniform", size.walks, size.seconds)
    index = PlaceIndex.build(world.points, world.statics)
    found = top.Bench(Report(lambda _: None), sized, None).measure(world, index, top.KINDS[0])
    k = sized.k
    zone = f"zone, m = {k}"
    its = {
        name.rpartition("prototype's ")[2]: value
        for name, value in found.micros.items()
        if name.startswith(f"{zone}, prototype's")
    }
    cost = found.of_supreme[zone]
    yield Row(
        "moving top-k, zones of m = k",
        f"{size.n:,} objects, k = {k}, {size.walks} walks of {size.seconds:,} s",
        "1.05 times supreme",
        f"{ratio(cost)} times, {micros(found.micros[zone])} a zone",
        cost <= 1.05,
        paper="says about 1.3 times supreme",
        prototype=against(found.micros[zone], its) or NO_PROTOTYPE,
        peer=f"supreme's search {micros(found.micros[top.SUPREME])}",
        limit=TOP_LIMIT,
    )


def skyline_zones(size: Size) -> Iterator[Row]:
    """Zones of skylines, over supreme: BBS where the skyline changes, ours or the prototype's, whichever is faster."""
    load = skyline.Load(2, True)
    sized = skyline.Size(size.n, size.sky_walks, size.sky_seconds, size.zones, size.rounds, (load,))
    found = skyline.Bench(Report(lambda _: None), sized, None).measure(load)
    mine = found.micros[skyline.TWO]
    theirs = found.micros.get(f"{skyline.TWO}, prototype's")
    its = {"two phases": theirs} if theirs is not None else {}
    yield Row(
        "skyline zones",
        f"{size.n:,} objects, {size.sky_walks} walks of {size.sky_seconds} s",
        "1.2 times supreme",
        f"{ratio(found.cost)} times, {micros(mine)} a zone",
        found.cost <= 1.2,
        paper=against(mine, {"Algorithm 2": found.micros["one pass"]}),
        prototype=against(mine, its) or NO_PROTOTYPE,
        peer=f"supreme's BBS {micros(found.micros[skyline.SUPREME])}",
        limit=SKY_LIMIT,
    )


def http(size: Size) -> Iterator[Row]:
    """Skylines with their zones over HTTP, one and some a request."""
    rates = skyline_rates(size, OURS)
    before = None
    if size.before is not None:
        theirs = Checkout.at(size.before)
        before = alternated(
            lambda: 1 / max(skyline_rates(size, theirs).values()),
            lambda: 1 / max(skyline_rates(size, OURS).values()),
            ROUNDS,
        )
    yield Row(
        "skylines over HTTP",
        f"{size.n:,} objects, {size.skylines:,} places",
        SKYLINES.said(),
        ", ".join(f"{rate:,.0f}/s {name.partition(', ')[2]}" for name, rate in rates.items()),
        SKYLINES.met(max(rates.values()), before),
        limit=HTTP_LIMIT,
        before=before.rate() if before else "",
    )


def skyline_rates(size: Size, checkout: Checkout) -> dict[str, float]:
    """Skylines a second of the service of a checkout, by kind of request."""
    sized = service.Size(size.n, size.asks, skylines=size.skylines, rounds=size.http_rounds)
    found = service.show_zones(Report(lambda _: None), sized, checkout)
    return {name: rate for name, rate in found.items() if name.startswith("skylines")}
