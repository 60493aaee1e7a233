"""A map's answers as text: column by column as field by field."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.rendering.maps import map_json, zone
from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig, Score, Skyline, Top
from indexes.maps.results import CircleOf, ObjectView, QueryView, Rows, ShownObject, SkylineAnswer, TopAnswer
from tests.oracles.service import covers, number

CONFIG = MapConfig((Attribute("price"), Attribute("rating", True, (0.0, 5.0))), (0.0, 0.0, 9.0, 9.0))
SUM = Score("weighted_sum", (("price", 1.0), ("distance", 0.5)))

numbers = st.one_of(
    st.floats(-1e300, 1e300),
    st.integers(-(2**53), 2**53).map(float),
    st.sampled_from([-0.0, 0.1, 5e-324, 10.0, -100.0, 1e15, 2.0**53, 1e16, 1e22]),
)
ids = st.text("abcXYZ019._:-", min_size=1, max_size=6)
payloads = st.sampled_from([None, None, b"[1]", '{"a":"ü"}'.encode()])
objects = st.lists(
    st.tuples(ids, numbers, numbers, numbers, numbers, st.integers(0, 10**9), payloads, numbers), max_size=5
)


def rows(found: list[Any]) -> Rows:
    objects = [
        ShownObject(id, [x, y], [price, rating], created, payload)
        for id, x, y, price, rating, created, payload, _ in found
    ]
    return Rows(objects, [distance for *_, distance in found])


def shown(found: list[Any]) -> list[dict[str, Any]]:
    listed = []
    for id, x, y, price, rating, created, payload, distance in found:
        entry = {
            "id": id,
            "location": [number(x), number(y)],
            "values": {"price": number(price), "rating": number(rating)},
            "created": created,
            "distance": number(distance),
        }
        listed.append(entry if payload is None else {**entry, "payload": json.loads(payload)})
    return listed


@given(
    st.lists(
        st.one_of(
            objects.flatmap(
                lambda found: st.tuples(
                    st.just(found),
                    st.lists(st.one_of(st.none(), numbers), min_size=len(found), max_size=len(found)),
                    st.integers(0, len(found)),
                    st.one_of(st.none(), st.floats(0, 1e300)),
                )
            ),
            objects,
        ),
        max_size=5,
    )
)
def test_answers_of_any_kinds_are_what_the_columns_say(drawn: list[Any]) -> None:
    answers: list[TopAnswer | SkylineAnswer] = []
    wanted: list[Any] = []
    for one in drawn:
        if isinstance(one, tuple):
            found, scores, members, radius = one
            answers.append(TopAnswer(Top(3, SUM), (1.5, 2.0), rows(found), scores, members, (1.0, -0.0), radius))
            scored = zip(shown(found), scores, strict=True)
            candidates = [{**entry, "score": None if score is None else number(score)} for entry, score in scored]
            listed = [{"rank": rank, **entry} for rank, entry in enumerate(candidates[:members], 1)]
            circle = {"center": [1, 0], "radius": None if radius is None else number(radius)}
            wanted.append({"list": listed, "candidates": candidates, "zone": circle})
        else:
            answers.append(SkylineAnswer(Skyline(), (1.5, 2.0), rows(one), None))
            wanted.append({"skyline": shown(one), "zone": None})
    texts = map_json(CONFIG).results(answers)
    for text, want in zip(texts, wanted, strict=True):
        got = json.loads(f"{{{text}}}")
        assert got == want
        # Whole numbers up to 2^53 are integers; beyond, either says the same.
        assert covers(json.loads(text_of_integers(got)), json.loads(text_of_integers(want)))


def text_of_integers(value: Any) -> str:
    def plain(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: plain(inner) for key, inner in one.items()}
        if isinstance(one, list):
            return [plain(inner) for inner in one]
        return float(one) if isinstance(one, int | float) and abs(one) > 2**53 else one

    return json.dumps(plain(value))


def test_zones_are_written_as_geojson_or_circles() -> None:
    holed = {
        "type": "Polygon",
        "coordinates": [
            [[0.0, 0.5], [9.0, -0.0], [9.0, 9.0], [0.0, 0.5]],
            [[4.0, 4.0], [5.0, 4.0], [5.0, 5.0], [4.0, 4.0]],
        ],
    }
    assert json.loads(zone(holed)) == holed
    assert "-0" not in zone(holed)
    several = {"type": "MultiPolygon", "coordinates": [holed["coordinates"], holed["coordinates"]]}
    assert json.loads(zone(several)) == several
    assert zone(CircleOf((0.5, 2.0), 0.0)) == '{"center":[0.5,2],"radius":0}'
    assert zone(CircleOf((0.5, 2.0), None)) == '{"center":[0.5,2],"radius":null}'
    assert zone(None) == "null"


def test_a_query_is_written_as_it_can_be_asked() -> None:
    write = map_json(CONFIG)
    scores = {
        SUM: {"kind": "weighted_sum", "weights": {"price": 1, "distance": 0.5}},
        Score("weighted_product", (("rating", 1.0),), 2.0, 0.5): {
            "kind": "weighted_product",
            "weights": {"rating": 1},
            "scale": 2,
            "shift": 0.5,
        },
        Score("waspas", (("rating", 1.0),), blend=0.25): {"kind": "waspas", "weights": {"rating": 1}, "lambda": 0.25},
        Score("expression", expression='distance + "é'): {"kind": "expression", "expression": 'distance + "é'},
    }
    for score, said in scores.items():
        view = QueryView("q", Top(3, score, 2, True), (1.0, 2.5), 60.0, None)
        assert json.loads(write.query(view, '"seq":4,')) == {
            "seq": 4,
            "id": "q",
            "kind": "top",
            "location": [1, 2.5],
            "k": 3,
            "m": 2,
            "ordered": True,
            "score": said,
            "ttl": 60,
        }
    sky = QueryView("s", Skyline(), (1.0, 2.5), None, SkylineAnswer(Skyline(), (1.0, 2.5), rows([]), None))
    assert json.loads(write.query(sky)) == {
        "id": "s",
        "kind": "skyline",
        "location": [1, 2.5],
        "skyline": [],
        "zone": None,
    }


def test_an_object_has_its_payload_where_there_is_one() -> None:
    write = map_json(MapConfig((), (0.0, 0.0, 1.0, 1.0)))
    assert (
        write.object(ObjectView("a", (1.0, -0.0), [], 0, None)) == '{"id":"a","location":[1,0],"values":{},"created":0}'
    )
    assert json.loads(write.object(ObjectView("a", (1.0, 0.5), [], 0, b"[1]"), '"seq":1,'))["payload"] == [1]
