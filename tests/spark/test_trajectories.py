"""Following clients without Spark: rows as they are read, what a task writes, and the command up to Spark's start."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.folder import Folder
from formats.map_fields import question_fields
from indexes.maps.config import MapConfig, Score, Skyline, Top
from spark_jobs.common import command
from spark_jobs.common.command import Failed
from spark_jobs.history import trajectories, trajectory_tasks
from spark_jobs.history.outputs import OUTPUT
from spark_jobs.history.points import PointError, read_points
from spark_jobs.history.questions import CANDIDATES, read_question
from spark_jobs.history.trajectory_tasks import follow, result_schema
from tests.spark import walks
from tests.spark.boards import LSN
from tests.spark.maps import FOOD, make, packed_here, snapshot

Run = Callable[..., tuple[int, list[dict[str, Any]]]]

QUESTIONS = [
    walks.TOP,
    {**walks.TOP, "ordered": True},
    {"kind": "top", "k": 2, "score": {"kind": "waspas", "weights": {"price": 1, "distance": 1}}},
    {"kind": "top", "k": 50, "score": walks.SCORE},
    {"kind": "skyline"},
]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    trajectory_tasks._loaded.clear()


def followed(root: Path, config: MapConfig, question: dict[str, Any], points: Path, cut: int = 2) -> pa.Table:
    """What tasks write that get the rows as Spark gives them: some clients each, in order, in batches."""
    about = Folder.at(root / f"snapshots/{LSN}").manifest()["resources"]["maps/food"]
    kinds, pieces = trajectories.cut(Folder.at(points))
    system = Folder.at(root).system
    numbers = iter([pa.record_batch({"id": list(range(len(pieces)))})])
    read = pa.Table.from_batches(list(read_points(numbers, system, pieces, config.metric == "great-circle")))
    rows = read.sort_by([("client", "ascending"), ("t", "ascending"), ("row", "ascending")])
    clients = sorted(set(rows["client"].to_pylist()))
    out = root / "out"
    out.mkdir(exist_ok=True)
    places = ((system, str(root / name)) for name in (f"snapshots/{LSN}", "image", "out"))
    snapshot_place, image, output = places
    asked = question_fields(read_question(json.dumps(question), config))
    tables = []
    for part in range(cut):
        mine = pa.array(clients[part::cut], rows["client"].type)
        some = rows.filter(pa.compute.is_in(rows["client"], mine))
        some = some.append_column("part", pa.array([part] * len(some), pa.int32()))
        batches = some.to_batches(7)
        told = list(follow(iter(batches), snapshot_place, "food", about, image, asked, tuple(kinds), output))
        assert len(told) == (1 if len(some) else 0)
        for batch in told:
            (row,) = batch.to_pylist()
            tables.append(pq.read_table(out / row["name"]))
            assert (row["number"], row["clients"], row["points"]) == (part, len(mine), len(some))
            assert row["changes"] == len(tables[-1]) and 0 < row["searches"] <= len(some)
    whole = pa.concat_tables(tables)
    return whole.take(np.argsort(pa.compute.rank(whole["client"], tiebreaker="first")))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: str(question.get("k", "skyline")))
def test_every_answer_is_right_until_the_next_change(tmp_path: Path, question: dict[str, Any]) -> None:
    state, points = make(5, 40, FOOD), walks.trajectories(6, 6, 40)
    snapshot(tmp_path, {"food": state})
    packed_here(tmp_path, "food", tmp_path / "image")
    pq.write_table(points, tmp_path / "points.parquet", row_group_size=50)
    found = followed(tmp_path, FOOD, question, tmp_path / "points.parquet")
    assert found.schema.equals(result_schema((pa.string(), pa.int64()), question["kind"] == "top"))
    changes = walks.check(state, question, points, found)
    assert (changes == 0) if question.get("k") == 50 else changes > 20
    assert len(trajectory_tasks._loaded) == 1


@pytest.mark.parametrize("metric", ["manhattan", "great-circle"])
@pytest.mark.parametrize("question", [walks.TOP, {"kind": "skyline"}], ids=["top", "skyline"])
def test_other_metrics(tmp_path: Path, metric: Any, question: dict[str, Any]) -> None:
    config = replace(FOOD, metric=metric)
    state, points = make(7, 30, config), walks.trajectories(8, 3, 25)
    if question["kind"] == "top" and metric == "great-circle":
        score = {**walks.SCORE, "weights": {"distance": 5e-6, "price": 0.25, "rating": 0.1}}
        question = {**question, "score": score}
    snapshot(tmp_path, {"food": state})
    packed_here(tmp_path, "food", tmp_path / "image")
    pq.write_table(points, tmp_path / "points.parquet")
    found = followed(tmp_path, config, question, tmp_path / "points.parquet", 1)
    assert walks.check(state, question, points, found) > 5


def test_what_clients_and_times_are_called_stays(tmp_path: Path) -> None:
    snapshot(tmp_path, {"food": make(5, 9, FOOD)})
    packed_here(tmp_path, "food", tmp_path / "image")
    at = [datetime(2026, 5, 1, 8, i, tzinfo=UTC) for i in (3, 2, 1)]
    for number, (client, t) in enumerate(
        [
            (pa.array([7, 7, -1], pa.int16()), pa.array(at, pa.timestamp("ms", "UTC"))),
            (pa.array(["b", "b", "a"]).dictionary_encode(), pa.array([2.5, 1.5, 0.0], pa.float32())),
            (pa.array(["b", "b", "a"], pa.large_string()), pa.array([3, 2, 1], pa.uint8())),
        ]
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"client": client, "t": t, "x": pa.array([8, 0, 1]), "y": [8.0, 0.0, 1.0]}), path)
        found = followed(tmp_path, FOOD, {"kind": "top", "k": 1, "score": walks.SCORE}, path, 1)
        client = client.dictionary_decode() if pa.types.is_dictionary(client.type) else client
        assert found["client"].type == client.type and found["t"].type == t.type
        pairs = list(zip(client.to_pylist(), t.to_pylist(), strict=True))
        assert list(zip(found["client"].to_pylist(), found["t"].to_pylist(), strict=True)) == pairs[::-1]
        assert found["change"].to_pylist() == ["first", "first", "members"]


def test_rows_that_cannot_be_are_told_by_file_and_column(tmp_path: Path) -> None:
    path, system = tmp_path / "points.parquet", Folder.at(tmp_path).system
    good: dict[str, Any] = {"client": ["a", "b"], "t": [1.0, 2.0], "x": [0.0, 0.0], "y": [0.0, 0.0]}

    def told(on_sphere: bool = False, **columns: Any) -> str:
        pq.write_table(pa.table({**good, **columns}), path, row_group_size=1)
        numbers = iter([pa.record_batch({"id": [0, 1]})])
        with pytest.raises(PointError) as error:
            list(read_points(numbers, system, [(str(path), 0, 0, 1, 0), (str(path), 1, 0, 1, 1)], on_sphere))
        return str(error.value).removeprefix(f"{path}")

    assert told(client=[1.5, 2.5]) == ": the column client must be of texts or whole numbers, not double"
    assert told(t=["1", "2"]) == ": the column t must be of numbers or timestamps, not string"
    assert told(x=[[1.0], [2.0]]).startswith(": the column x must be of numbers, not list")
    assert told(client=pa.array([1, 2], pa.uint64())).endswith("not uint64")
    assert told(client=["a", None]) == ": client of row 1 is null"
    assert told(y=[None, 1.0]) == ": y of row 0 is null"
    assert told(t=[1.0, float("nan")]) == ": t of row 1 is nan and must be at most 1e+300 in size"
    assert told(x=[1.0, float("inf")]) == ": x of row 1 is inf and must be at most 1e+300 in size"
    assert told(True, y=[90.0, 90.5]) == ": y of row 1 is 90.5 and must be at most 90 in size"
    pq.write_table(pa.table({"client": ["a"]}), path)
    with pytest.raises(Failed, match=r"points.parquet has no column t"):
        trajectories.cut(Folder.at(path))


def test_questions_are_those_of_standing_queries() -> None:
    def read(**fields: Any) -> Any:
        return read_question(json.dumps({"kind": "top", "k": 3, "score": walks.SCORE, **fields}), FOOD)

    weights = (("price", 0.25), ("rating", 0.1), ("distance", 0.5))
    assert read() == Top(3, Score("weighted_sum", weights), CANDIDATES)
    score: dict[str, Any] = {"kind": "waspas", "weights": {"price": 1}, "lambda": 0.25, "shift": 1, "scale": 2}
    assert read(m=2, ordered=True, score=score) == Top(3, Score("waspas", (("price", 1),), 2.0, 1.0, 0.25), 2, True)
    text = {"kind": "expression", "expression": "distance * 2 + price"}
    assert read(score=text).score == Score("expression", (), expression="distance * 2 + price")
    assert read_question('{"kind": "skyline"}', FOOD) == Skyline()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "nearest"}, "kind is 'nearest'; it has to be top or skyline"),
        ({"kind": "skyline", "k": 3}, "k does not belong here, where kind may be said"),
        ({"location": [1, 2]}, "location does not belong here, where kind, k, m, ordered, score may be said"),
        ({"k": 0}, "k is 0; it has to be a whole number, at least 1"),
        ({"m": True}, "m is true; it has to be a whole number, at least 1"),
        ({"ordered": 1}, "ordered is 1; it has to be true or false"),
        ({"score": 3}, "score is 3; it has to be an object"),
        ({"score": {"weights": {}}}, "score.kind is required"),
        ({"score": {"kind": "best"}}, "score.kind is 'best'; it has to be one of weighted_sum"),
        ({"score": {"kind": "weighted_sum"}}, "score.weights is required"),
        ({"score": {**walks.SCORE, "shift": 1}}, "score.shift does not belong here"),
        ({"score": {**walks.SCORE, "scale": "1"}}, 'score.scale is "1"; it has to be a number'),
        ({"score": {**walks.SCORE, "scale": 0}}, "score.scale"),
        ({"score": {"kind": "weighted_sum", "weights": {"stars": 1}}}, "score.weights.stars does not belong here"),
        ({"score": {"kind": "weighted_sum", "weights": {"price": 0}}}, "score.weights"),
        ({"score": {"kind": "expression", "expression": "0 - distance"}}, "score.expression"),
    ],
)
def test_what_is_no_question_is_told_in_a_sentence(fields: dict[str, Any], reason: str) -> None:
    given = {"kind": "top", "k": 3, "score": walks.SCORE, **fields}
    if fields.get("kind") == "skyline":
        del given["score"]
    with pytest.raises(Failed) as error:
        read_question(json.dumps(given), FOOD)
    assert str(error.value).startswith(f"--question: {reason}") and "\n" not in str(error.value)
    for text in ("{", "3"):
        with pytest.raises(Failed, match="--question"):
            read_question(text, FOOD)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """`run(*arguments)`: the exit code and the lines on stdout, for a snapshot of one map."""
    handler = signal.getsignal(signal.SIGTERM)
    snapshot(tmp_path, {"food": make(7, 10, FOOD)})
    pq.write_table(walks.trajectories(1, 1, 2), tmp_path / "points.parquet")
    whole = ["--storage", tmp_path, "--lsn", LSN, "--resource", "maps/food", "--points", tmp_path / "points.parquet"]
    whole += ["--output", tmp_path / "out", "--question", '{"kind": "skyline"}']

    def start(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
        out = io.StringIO()
        monkeypatch.setattr(command, "own_stdout", lambda: out)
        places = [trajectories.POINTS, OUTPUT]
        with pytest.raises(SystemExit) as end:
            command.main(
                "history.trajectories", "", trajectories.walk, [*map(str, (*whole, *arguments))],
                places=places, kind="maps", texts=[trajectories.QUESTION],
            )  # fmt: skip
        assert isinstance(end.value.code, int)
        return end.value.code, [json.loads(line) for line in out.getvalue().splitlines()]

    yield start
    signal.signal(signal.SIGTERM, handler)


def test_what_cannot_be_done_is_told_before_spark_starts(run: Run, tmp_path: Path) -> None:
    def told(*arguments: object) -> str:
        code, lines = run(*arguments)
        assert code == 1 and list(lines[-1]) == ["error"]
        return str(lines[-1]["error"])

    assert told("--resource", "boards/food") == "--resource is 'boards/food'; it has to be maps/NAME"
    assert "has no maps/drink/objects.parquet" in told("--resource", "maps/drink")
    assert told("--question", "{").startswith("--question is no JSON: ")
    assert told("--points", "none.parquet").startswith("there are no points in")
    assert told("--output", tmp_path / "points.parquet").endswith("points.parquet, which is a file")
    assert not (tmp_path / "out").exists()


def test_the_map_is_packed_where_there_is_no_image_of_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Failed("so far")

    monkeypatch.setattr(trajectories, "session", stop)
    code, lines = run()
    assert (code, lines[-1]) == (1, {"error": "so far"})
    assert {line["step"] for line in lines[:-1]} == {"checking the files", "laying out the indexes", "starting Spark"}


def test_help_shows_what_it_takes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.history.trajectories", "--help"], capture_output=True, text=True, check=True
    )
    assert "--resource maps/food --points POINTS --output OUTPUT --question QUESTION" in done.stdout
    assert "--question JSON" in done.stdout and "the map, as maps/NAME" in done.stdout
