"""`rankcast map` and `rankcast plot map`: options, what is sent, what is shown, and pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import shapely
import typer
from typer.testing import CliRunner, Result

from app.cli.drawing.geojson import features, ring
from app.cli.main import cli
from app.cli.map import map_attribute, places_of
from app.cli.questions import QuestionOptions, point, zone_in_words
from rankcast_client import (
    Circle,
    MapAttribute,
    MapInfo,
    Place,
    Rankcast,
    Skyline,
    SkylineAnswer,
    Top,
    TopAnswer,
)
from tests.oracles import top_k as oracle
from tests.support.pictures import need_matplotlib

INFO = {
    "seq": 3,
    "name": "food",
    "attributes": {"price": "low", "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 100, 100],
    "metric": "euclidean",
    "objects": 2,
    "queries": 0,
}
A = {"id": "a", "location": [11, 10], "values": {"price": 3, "rating": 4}, "created": 0, "payload": {"name": "A"}}
B = {"id": "b", "location": [14, 10], "values": {"price": 1, "rating": 5}, "created": 1}
NEAR = {**A, "distance": 1, "score": 3.5}
HOLED = {
    "type": "Polygon",
    "coordinates": [
        [[5, 5], [15, 5], [15, 15], [5, 15], [5, 5]],
        [[7, 7], [7, 8], [8, 8], [8, 7], [7, 7]],
    ],
}
TOP = {"seq": 3, "list": [{"rank": 1, **NEAR}], "candidates": [NEAR], "zone": {"center": [10, 10], "radius": 2}}
SKY: dict[str, Any] = {"seq": 3, "skyline": [{**A, "distance": 1}, {**B, "distance": 4}], "zone": HOLED}

MAP = MapInfo("food", {"price": MapAttribute(), "rating": MapAttribute("high", (0, 5))}, (0, 0, 100, 100))
SKY_ANSWER = SkylineAnswer(3, (10, 10), tuple(map(Place.from_json, SKY["skyline"])), HOLED)

Asked = list[tuple[str, str, Any]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What commands ask of a service that answers."""
    heard: Asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v1/maps/food")
        kind = request.headers.get("content-type", "")
        heard.append((request.method, path, json.loads(request.content) if kind.endswith("json") else request.content))
        data: Any = {"": INFO, "/top": TOP, "/skyline": SKY}.get(path)
        if path == "/objects":
            data = {"items": [A, B], "next": None} if request.method == "GET" else {"seq": 2, "applied": 2}
        return httpx.Response(200, json=data)

    begin: Callable[..., None] = Rankcast.__init__

    def made(self: Rankcast, *given: Any, **more: Any) -> None:
        begin(self, *given, **{**more, "transport": httpx.MockTransport(answer)})

    monkeypatch.setattr(Rankcast, "__init__", made)
    return heard


def said(*arguments: str, code: int = 0, given: str | None = None) -> Result:
    found = CliRunner().invoke(cli, list(arguments), input=given, env={"COLUMNS": "200"})
    assert found.exit_code == code, found.output
    return found


# --- options ----------------------------------------------------------------------------------------------------------


def question_of(k: Any, m: int, ordered: bool, weight: Any, expression: Any, score: Any, skyline: bool) -> Any:
    return QuestionOptions(weight, expression, score, k, m, ordered, skyline).read_question()


def test_options_become_questions() -> None:
    weighted = question_of(5, 2, True, ["distance=0.5", "price=2"], None, None, False)
    assert weighted == Top(5, {"kind": "weighted_sum", "weights": {"distance": 0.5, "price": 2}}, 2, True)
    assert question_of(1, 1, False, None, "distance", None, False) == Top(
        1, {"kind": "expression", "expression": "distance"}
    )
    any_ = question_of(1, 1, False, None, None, '{"kind": "waspas", "weights": {"price": 1}, "lambda": 0.2}', False)
    assert any_ == Top(1, {"kind": "waspas", "weights": {"price": 1}, "lambda": 0.2})
    assert question_of(None, 1, False, None, None, None, True) == Skyline()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((None, 1, False, None, None, None, False), "ask for --skyline, or with -k"),
        ((3, 1, False, ["price=1"], None, None, True), "--skyline goes without"),
        ((3, 1, False, None, None, None, False), "say by which score"),
        ((3, 1, False, ["price=1"], "distance", None, False), "say by which score"),
        ((3, 1, False, ["price"], None, None, False), "'price' is no weight"),
        ((3, 1, False, ["price=x"], None, None, False), "'price=x' is no weight"),
        ((3, 1, False, ["price=1", "price=2"], None, None, False), "two weights for price"),
        ((3, 1, False, None, None, "{", False), "--score is not JSON"),
        ((3, 1, False, None, None, "[]", False), "a JSON object with a kind"),
    ],
)
def test_options_that_ask_nothing_are_refused(options: Any, why: str) -> None:
    with pytest.raises(typer.BadParameter, match=why):
        question_of(*options)


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "nan,1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no place"):
        point(text)


def test_attributes_are_read() -> None:
    assert map_attribute("price=low") == ("price", MapAttribute("low"))
    assert map_attribute("rating=high:0:5") == ("rating", MapAttribute("high", (0, 5)))
    for text in ("price", "price=best", "price=low:1", "price=low:a:b"):
        with pytest.raises(typer.BadParameter, match="is no attribute"):
            map_attribute(text)


def test_places_are_rows_of_two_numbers() -> None:
    assert list(places_of(["x,y\n", "1,2\n", "\n", " 3 , -4.5\n"])) == [(1, 2), (3, -4.5)]
    with pytest.raises(Exception, match="row 2 is no place"):
        list(places_of(["1,2", "1,a"]))


# --- commands ---------------------------------------------------------------------------------------------------------


def test_a_map_is_put_and_shown(asked: Asked) -> None:
    out = said("map", "put", "food", "--bounds", "0,0,100,100", "-a", "price=low", "-a", "rating=high:0:5").output
    assert json.loads(out)["objects"] == 2
    assert asked[0] == ("PUT", "", {name: INFO[name] for name in ("attributes", "bounds", "metric")})
    assert "are no bounds" in said("map", "put", "food", "--bounds", "0,0,1", code=2).output


def test_answers_are_lines_tables_or_geojson(asked: Asked) -> None:
    weights = ("-k", "1", "-w", "distance=0.5", "-w", "price=1")
    lines = said("map", "top", "food", "--at", "10,10", *weights, "-m", "3").output
    assert lines == '1\ta\t11\t10\t1\t3.5\t3\t4\t{"name":"A"}\n'
    score = {"kind": "weighted_sum", "weights": {"distance": 0.5, "price": 1}}
    assert asked[-1] == ("POST", "/top", {"location": [10, 10], "k": 1, "m": 3, "score": score})
    assert said("map", "skyline", "food", "--at", "10,10").output.splitlines()[1] == "2\tb\t14\t10\t4\t-\t1\t5\t-"
    found = json.loads(said("map", "skyline", "food", "--at", "10,10", "--geojson").output)
    assert found == features(MAP, SKY_ANSWER)


def test_rows_are_loaded_as_columns(asked: Asked, tmp_path: Path) -> None:
    import pyarrow as pa

    file = tmp_path / "places.csv"
    file.write_text("key,lon,lat,cost,rating,name\na,1,2,3,4,A\nb,5,6,7,5,B\n")
    load = ("map", "load", "food", str(file), "--id", "key", "--x", "lon", "--y", "lat", "--value")
    less = said(*load, "price=cost", "--from-row", "2")
    assert pa.ipc.open_stream(asked[-1][2]).read_all().column("id").to_pylist() == ["b"]
    assert less.stderr.splitlines()[-1] == "columns left out: name. As payload: --payload name"
    assert "2 of 2 rows are on food" in said(*load, "price=cost", "--payload", "name").output
    rows = pa.ipc.open_stream(asked[-1][2]).read_all().to_pylist()
    assert rows[1] == {"id": "b", "x": 5, "y": 6, "price": 7, "rating": 5, "payload": '{"name":"B"}'}
    out = said(*load, "speed=cost", code=2).output
    assert "no attribute 'speed', only price, rating" in out, out
    assert "names no column" in said(*load, "price", code=2).output
    own = '{"id": "c", "location": [1, 2], "values": {"price": 1, "rating": 2}, "payload": 5}\n'
    said("map", "load", "food", "-", "--format", "ndjson", given=own)
    rows = pa.ipc.open_stream(asked[-1][2]).read_all().to_pylist()
    assert rows == [{"id": "c", "x": 1, "y": 2, "price": 1, "rating": 2, "payload": "5"}]
    bad = said("map", "load", "food", "-", "--format", "ndjson", given='{"id": "c", "values": {"price": 1}}\n', code=1)
    assert "row 1: x is missing" in bad.output


def test_watches_and_walks_say_what_they_lack() -> None:
    nowhere = ("--url", "http://127.0.0.1:1")
    for arguments, why in (
        (("watch", "food"), "say where"),
        (("watch", "food", "--id", "q", "--at", "1,1"), "--id follows what is there"),
        (("walk", "food", "-k", "1", "-w", "price=1"), "give a FILE of places, or --from and --to"),
        (("walk", "food", "x.csv", "--from", "0,0", "--to", "1,1", "--skyline"), "give a FILE of places"),
        (("walk", "food", "--from", "0,0", "--skyline"), "give a FILE of places"),
    ):
        assert why in said("map", *arguments, *nowhere, code=2).output
    assert "none.csv" in said("map", "walk", "food", "none.csv", "--skyline", *nowhere, code=1).output


# --- zones ------------------------------------------------------------------------------------------------------------


def test_zones_in_words() -> None:
    def top(radius: float | None) -> TopAnswer:
        return TopAnswer(1, (1, 2), (), (), Circle((1, 2), radius))

    assert [zone_in_words(top(radius)) for radius in (None, 0, 2.5)] == [
        "everywhere",
        "at this place only",
        "within 2.5 of 1,2",
    ]
    assert zone_in_words(SKY_ANSWER) == "within a polygon of 4 edges, 1 more rings"
    assert zone_in_words(SkylineAnswer(1, (1, 2), (), None)) == "at this place only"


@pytest.mark.parametrize(("metric", "radius"), [("euclidean", 3.0), ("manhattan", 3.0), ("great-circle", 2e5)])
def test_the_corners_of_a_circle_are_that_far_away(metric: Any, radius: float) -> None:
    info = MapInfo("food", {}, (0, 0, 1, 1), metric)
    center = 10.0, 50.0
    corners = ring(info, Circle(center, radius))
    assert corners[0] == corners[-1] and shapely.Polygon(corners).exterior.is_ccw
    for x, y in corners:
        assert math.isclose(oracle.distance(metric, center, (x, y)), radius, rel_tol=1e-9)


def test_geojson_has_the_zone_the_place_and_the_objects() -> None:
    zone, place, first, second = features(MAP, SKY_ANSWER)["features"]
    assert zone["geometry"] == HOLED and zone["properties"] == {"kind": "zone", "seq": 3}
    assert place["geometry"] == {"type": "Point", "coordinates": [10, 10]}
    assert first["properties"] == {
        "kind": "object", "rank": 1, "id": "a", "price": 3, "rating": 4, "distance": 1, "payload": {"name": "A"},
    }  # fmt: skip
    assert second["geometry"]["coordinates"] == [14, 10]
    everywhere = TopAnswer(1, (1, 2), (), (), Circle((1, 2), None))
    about = features(MAP, everywhere)["features"][0]
    assert about["geometry"] is None and about["properties"]["radius"] is None


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_a_picture_and_geojson_are_written(asked: Asked, tmp_path: Path) -> None:
    need_matplotlib()
    picture, data = tmp_path / "new" / "zone.svg", tmp_path / "zone.geojson"
    plot = ("plot", "map", "food", "--at", "10,10", "-o", str(picture))
    out = said(*plot, "--skyline", "--geojson", str(data)).output
    assert "2 objects, holds within a polygon of 4 edges" in out
    assert json.loads(data.read_text()) == features(MAP, SKY_ANSWER)
    first = picture.read_bytes()
    assert b'id="zone"' in first
    said(*plot, "--skyline")
    assert picture.read_bytes() == first, "the same picture is the same file"
    assert "within 2 of 10,10" in said(*plot, "-k", "1", "-w", "price=1").output


def test_geojson_alone_needs_no_picture(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.plot.find_spec", lambda name: None)
    out = said("plot", "map", "food", "--at", "10,10", "--skyline", "--geojson", "-").output
    assert json.loads(out) == features(MAP, SKY_ANSWER)
    assert [path for _, path, _ in asked] == ["", "/skyline"]
    assert "pip install" in said("plot", "map", "food", "--at", "10,10", "--skyline", code=1).output
    assert "must end in" in said("plot", "map", "food", "--at", "1,1", "--skyline", "-o", "a.gif", code=2).output


def test_the_picture_has_the_zone_with_its_holes_and_the_answer() -> None:
    need_matplotlib()
    from app.cli.drawing.maps import figure

    others = [Place.from_json(B), Place("c", (6, 6), {}, 2)]
    (frame,) = figure(MAP, SKY_ANSWER, others, "food", "here").axes
    (zone,) = frame.patches
    path = zone.get_path()
    assert path.contains_point((10, 10)) and not path.contains_point((16, 10))
    outer, hole = path.to_polygons()
    assert shapely.Polygon(outer).exterior.is_ccw != shapely.Polygon(hole).exterior.is_ccw
    assert [text.get_text() for text in frame.texts] == ["1 a", "2 b"]
    dots, members = (collection.get_offsets().tolist() for collection in frame.collections)
    assert dots == [[6, 6]] and members == [[11, 10], [14, 10]]
    low, high = frame.get_xlim()
    assert low < 5 and high > 15


def test_both_ways_to_plot_a_board_are_understood() -> None:
    for form in (["plot", "delays", "a"], ["plot", "board", "delays", "a"], ["plot", "-o", "a.gif", "delays", "a"]):
        found = said(*form, "-o", "event.gif", "--url", "http://127.0.0.1:1", code=2)
        assert "event.gif must end in" in found.output
    assert "board" in said("plot", "--help").output
