"""The cut of subscription space, the index of zones, and what a board with zones says of its events."""

from __future__ import annotations

import numpy as np
import pytest

from app.gateway.lists import INF, KeptList, Ranking
from app.gateway.readers import Readers
from app.zones.table import ZoneTable
from formats import board_commands, boards
from indexes.boards.commands import DELETE, UPDATE, UPSERT, Configure, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.lists import ObjectView, net_entries
from indexes.boards.regions import between
from indexes.boards.results import TileView
from indexes.boards.zones import Cut, Zone, counts_of, cut_zones, fields_of_zones, imbalance, zone_of, zones_of_fields
from indexes.core.commands import Refused


def points(seed: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    l = np.round(draw.random(m) * 100)
    r = l + np.round(draw.random(m) * 50)
    l[draw.random(m) < 0.1], r[draw.random(m) < 0.1] = -np.inf, np.inf
    return l, r


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64])
def test_zones_cover_the_plane_once_and_are_balanced(n: int) -> None:
    l, r = points(n, 4000)
    zones = cut_zones(l, r, n)
    assert len(zones) == n
    counts = counts_of(zones, l, r)
    assert sum(counts) == 4000 and imbalance(counts, n) < 1.6
    for a, b in [*zip(l[:300].tolist(), r[:300].tolist(), strict=True), (-INF, INF), (1e300, 1e300), (-1e300, -1e300)]:
        assert [i for i, zone in enumerate(zones) if zone_of([zone, *zones], a, b) == 0] == [zone_of(zones, a, b)]
    assert zones_of_fields(fields_of_zones(zones)) == zones


def test_equal_points_cannot_be_parted() -> None:
    same = np.full(100, 5.0)
    assert len(cut_zones(same, same, 8)) == 1
    assert len(cut_zones(np.full(4, -np.inf), np.array([np.inf, np.inf, 3.0, 3.0]), 8)) == 2
    assert len(cut_zones(same[:0], same[:0], 8)) == 1


def test_a_tile_is_found_in_the_zones_that_have_who_it_reaches() -> None:
    l, r = points(3, 3000)
    table = ZoneTable(Cut(1, 0, cut_zones(l, r, 32)))
    draw = np.random.default_rng(4)
    sides = np.sort(np.round(draw.random((200, 4)) * 150), 1)
    sides[draw.random(200) < 0.2, 0] = np.inf  # an infinite side has no sign in columns
    sides[draw.random(200) < 0.2, 3] = np.inf
    found: dict[int, set[int]] = {}
    for row, zone in table.touched(sides):
        found.setdefault(row, set()).add(zone)
    for row, (l_outer, l_inner, r_inner, r_outer) in enumerate(sides.tolist()):
        west = -np.inf if np.isinf(l_outer) else l_outer
        reached = (
            ((l > west) | np.isinf(l_outer)) & (l <= l_inner) & (r >= r_inner) & ((r < r_outer) | np.isinf(r_outer))
        )
        wanted = {table.zone_of(a, b) for a, b in zip(l[reached].tolist(), r[reached].tolist(), strict=True)}
        assert wanted <= found.get(row, set())


def board(zones: int | None) -> BoardEngine:
    return BoardEngine(BoardConfig(("x",), "y", ks=(2,), algorithm="dense", zones=zones))


def test_a_board_with_zones_says_all_tiles_and_versions_go_up() -> None:
    engine = board(4)
    assert engine.config.cut == Cut(1, 0, (Zone(-INF, INF, -INF, INF),))
    ids, x, y = ["a", "b", "c"], np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    plan, slices = engine.apply(Events(np.full(3, UPSERT, np.uint8), ids, x, y))
    tiles = [
        (one.first_seq + event, view) for part in slices for one in part.painted for event, view in one.rows.views()
    ]
    assert {seq for seq, _ in tiles} == {1, 2, 3} and len(tiles) == plan.response_fields()["tile_count"]
    zones = (Zone(-INF, 2.0, -INF, INF), Zone(2.0, INF, -INF, INF))
    _, slices = engine.apply(Configure(cut=zones))
    assert [part.recut for part in slices] == [True] and engine.config.cut == Cut(2, 4, zones)
    engine.apply(Configure(zones=0))
    assert engine.config.cut is None
    engine.apply(Configure(zones=2))
    assert engine.config.cut is not None and engine.config.cut.version > 2
    nothing, _ = engine.apply(Configure(zones=2))
    assert nothing.count == 0
    with pytest.raises(Refused):
        board(None).prepare(Configure(cut=zones))
    assert boards.config_of(boards.config_fields(engine.config)) == engine.config
    rows = [(part.name, part.payload) for part in board_commands.encode(Configure(cut=zones), 1)]
    assert board_commands.decode(rows) == Configure(cut=zones)


@pytest.mark.parametrize("batch", [False, True])
def test_lists_kept_by_tiles_alone_are_the_boards(batch: bool) -> None:
    draw = np.random.default_rng(7)
    engine, ranking = board(3), Ranking("x", "y", 1)

    class Point:
        def __init__(self, l: float, r: float) -> None:
            self.l, self.r, self.k = l, r, 2
            self.kept = KeptList(2)

    readers: Readers[Point] = Readers()
    for l, r in [(-INF, INF), *np.sort(draw.integers(0, 20, (40, 2)), 1).astype(float).tolist()]:
        readers.add(Point(l, r))
    known: set[str] = set()
    for _ in range(60):
        ids = [f"o{i}" for i in draw.choice(12, 4, replace=False).tolist()]
        op = np.array([UPSERT if id not in known else draw.choice([UPDATE, DELETE]) for id in ids], np.uint8)
        known = (known | set(ids)) - {id for id, one in zip(ids, op.tolist(), strict=True) if one == DELETE}
        numbers = draw.integers(0, 20, (2, 4)).astype(float)
        numbers[:, op == DELETE] = np.nan
        _, slices = engine.apply(Events(op, ids, numbers[0], numbers[1], batch=batch))
        for part in slices:
            for painted in part.painted:
                for number, (_, view) in enumerate(painted.rows.views()):
                    assert isinstance(view, TileView)
                    tile = ranking.tile(number, said(view))
                    for point in readers.reached(tile):
                        before = point.kept.items.copy()
                        assert point.kept.apply(tile) == net_entries(before, point.kept.items)
        for point in readers:
            wanted = [(one.id, one.x, one.y) for one in engine.top(between(point.l, point.r), 2)]
            assert [(one.id, one.x, one.y) for one in point.kept.items] == wanted
    for point in list(readers):
        readers.remove(point)
    assert len(readers) == 0


def said(view: TileView) -> dict[str, object]:
    item: ObjectView = view.object
    sides = {name: getattr(view, name) for name in ("l_outer", "l_inner", "r_inner", "r_outer")}
    values = {"x": item.x, "y": item.y}
    return {
        "k": view.k,
        **sides,
        "object": {"id": item.id, "values": values, "created": item.created, "gone": view.gone},
    }
