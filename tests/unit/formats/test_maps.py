"""A map's part of a snapshot and its image, there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats import maps, parts
from formats.folder import Damaged, Folder
from indexes.maps.attributes import Attribute
from indexes.maps.commands import AddQueries, DeleteObjects, DeleteQueries, PutObjects
from indexes.maps.config import MapConfig, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.packing import pack_index, unpack_index
from indexes.maps.state import MapState, engine_of, state_of, tree_of

PRICE, RATING = Attribute("price", False, (0.0, 9.0)), Attribute("rating", True)
CONFIGS = [
    MapConfig((PRICE,), (0.0, 0.0, 1.0, 1.0)),
    MapConfig((PRICE, RATING), (-1.0, 0.0, 1.0, 2.5)),
    MapConfig((RATING, PRICE), (0.0, 0.0, 1.0, 1.0), "manhattan"),
    MapConfig((PRICE, RATING), (0.0, 0.0, 1.0, 1.0), "great-circle"),
]
SCORES = [
    Score("weighted_sum", (("price", 0.1), ("distance", 2.0))),
    Score("waspas", (("price", 1.0),), 3.0, 0.5, 0.25),
    Score("expression", expression="distance + price / 3"),
]


def engine(config: MapConfig, n: int = 120) -> MapEngine:
    rng, d = np.random.default_rng(4), len(config.attributes)
    made = MapEngine(config, 3)
    keys = [f"o{i}" for i in rng.permutation(n)]
    payload: dict[int, bytes | None] = {1: b'{"a":1}', 7: b"2"} if n else {}
    made.apply(PutObjects(pa.array(keys, pa.string()), rng.random((n, 2)), rng.random((n, d)).round(1), payload))
    made.apply(DeleteObjects(keys[5::7]))
    questions: list[Skyline | Top] = [Skyline(), *(Top(3, score, m, m == 2) for m, score in enumerate(SCORES, 1))]
    asked = [questions[i % 4] for i in range(min(n, 12))]
    some = pa.array([f"q{i}" for i in range(len(asked))], pa.string())
    made.apply(AddQueries(some, asked, rng.random((len(asked), 2)), {2: 5.0} if n else {}))
    made.apply(DeleteQueries(["q1", "q5"]))
    return made


def state(made: MapEngine) -> MapState:
    plan = made.capture()
    plan.execute(10.0)
    plan.publish()
    assert plan.captured is not None
    return state_of(plan.captured)


def written(folder: Folder, one: MapState) -> dict[str, Any]:
    with folder.draft() as draft:
        about = maps.write_state(draft, "food", one)
        draft.publish({"about": about})
    told: dict[str, Any] = folder.manifest()["about"]
    return told


def same_answers(a: MapEngine, b: MapEngine) -> None:
    places = np.random.default_rng(1).random((5, 2))
    assert a.objects(None, 10**6) == b.objects(None, 10**6)
    assert a.queries(None, 10**6) == b.queries(None, 10**6)
    for question in (Skyline(), Top(3, SCORES[0], 2)):
        assert a.answer(question, places) == b.answer(question, places)
    for view in a.queries(None, 100):
        assert a.query(view.id, True) == b.query(view.id, True)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.metric} {len(config.attributes)}")
def test_a_state_and_an_image_make_the_same_map(config: MapConfig, tmp_path: Path) -> None:
    made = engine(config)
    one = state(made)
    about = written(Folder.at(tmp_path / "a"), one)
    read = maps.read_state(Folder.at(tmp_path / "a"), "food", about)
    for mine, other in ((one.points, read.points), (one.statics, read.statics)):
        assert np.array_equal(mine.view(np.int64), other.view(np.int64))
    points, statics = maps.read_places(Folder.at(tmp_path / "a"), "food", about)
    assert np.array_equal(points, one.points) and np.array_equal(statics, one.statics)
    image = Folder.at(tmp_path / "image")
    parts.write_image(image, "maps/food", 5, pack_index(tree_of(one)))
    packed = parts.read_image(image)
    assert packed is not None
    for tree in (None, unpack_index(packed)):
        again = engine_of(read, tree)
        assert again.wake() and not again.wake()
        again.check()
        assert (again.seq, again.ttl, again.table.next_created) == (made.seq, made.ttl, made.table.next_created)
        same_answers(made, again)
        plan, _ = again.apply(DeleteObjects([f"o{i}" for i in range(40)]))
        assert plan.count > 20
        again.check()


def test_an_empty_map_comes_back(tmp_path: Path) -> None:
    one = state(engine(CONFIGS[1], 0))
    about = written(Folder.at(tmp_path / "a"), one)
    image = Folder.at(tmp_path / "image")
    parts.write_image(image, "maps/food", 5, pack_index(tree_of(one)))
    packed = parts.read_image(image)
    assert packed is not None
    again = engine_of(maps.read_state(Folder.at(tmp_path / "a"), "food", about), unpack_index(packed))
    assert not again.wake()
    again.check()
    assert again.object_count == 0 and not again.answer(Skyline(), [(0.0, 0.0)])[0].rows.ids


def test_an_image_of_another_version_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack_index(tree_of(state(engine(CONFIGS[0]))))
    with monkeypatch.context() as other:
        other.setattr(parts, "LAYOUT", "another")
        parts.write_image(Folder.at(tmp_path / "image"), "maps/food", 5, packed)
    assert parts.read_image(Folder.at(tmp_path / "image")) is None


def test_a_damaged_image_is_told(tmp_path: Path) -> None:
    image = Folder.at(tmp_path / "image")
    parts.write_image(image, "maps/food", 5, pack_index(tree_of(state(engine(CONFIGS[1])))))
    (tmp_path / "image" / "objects.arrow").write_bytes(b"ARROW1")
    with pytest.raises(Damaged, match=r"objects\.arrow"):
        parts.read_image(image)


@pytest.mark.parametrize("counted", ["objects", "queries"])
def test_a_snapshot_with_other_rows_is_damaged(counted: str, tmp_path: Path) -> None:
    about = written(Folder.at(tmp_path / "a"), state(engine(CONFIGS[1])))
    with pytest.raises(Damaged, match=rf"{counted}\.parquet holds other"):
        maps.read_state(Folder.at(tmp_path / "a"), "food", {**about, counted: 4})


def test_a_question_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    about = written(Folder.at(tmp_path / "a"), state(engine(CONFIGS[1])))
    place = tmp_path / "a" / maps.queries_at("food")
    table = pq.read_table(place)
    pq.write_table(table.set_column(1, table.schema.field(1), pa.array([b"\x81"] * len(table), pa.binary())), place)
    with pytest.raises(Damaged, match="a question that cannot be read"):
        maps.read_state(Folder.at(tmp_path / "a"), "food", about)
