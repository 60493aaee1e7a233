"""Matching a history without Spark: how it is cut, what each task writes, and the command up to where Spark starts."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.folder import Folder
from indexes.matchers.config import MatcherConfig
from spark_jobs.common import command
from spark_jobs.common.command import Failed
from spark_jobs.history import match, match_tasks
from spark_jobs.history.match import cut
from spark_jobs.history.match_tasks import match_slices
from spark_jobs.history.outputs import OUTPUT
from tests.spark.boards import LSN
from tests.spark.histories import history, wanted
from tests.spark.matchers import NAMES, make, packed_here, snapshot

Run = Callable[..., tuple[int, list[dict[str, Any]]]]

CONFIGS = [
    MatcherConfig(NAMES[:1], "exact"),
    MatcherConfig(NAMES, "exact"),
    MatcherConfig(NAMES, "relaxed"),
    MatcherConfig(NAMES, "relaxed", "product", "ir"),
    MatcherConfig(NAMES, "exact", index="segment"),
    MatcherConfig(NAMES, "exact", index="sopt-r"),
]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    match_tasks._loaded.clear()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small histories, too."""
    monkeypatch.setattr(match, "_LEAST_PER_TASK", 7)
    monkeypatch.setattr(match, "_TASKS", 3)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.mode}-{config.index}")
def test_tasks_write_the_events_with_their_winners(tmp_path: Path, small: None, config: MatcherConfig) -> None:
    state, table = make(5, 200, config), history(6, 40, config.dimensions)
    about = snapshot(tmp_path, {"ads": state})["matchers/ads"]
    packed_here(tmp_path, "ads", tmp_path / "image")
    pq.write_table(table, tmp_path / "visits.parquet", row_group_size=25)
    slices = cut(Folder.at(tmp_path / "visits.parquet"), config.dimensions, 4)
    assert [piece[1:] for piece in slices] == [(0, 0, 14, 0), (0, 14, 11, 14), (1, 0, 14, 25), (1, 14, 1, 39)]
    system, places = Folder.at(tmp_path).system, [str(tmp_path / p) for p in (f"snapshots/{LSN}", "image", "out")]
    (tmp_path / "out").mkdir()
    snapshot_place, image, output = ((system, place) for place in places)
    numbers = iter([pa.record_batch({"id": [0, 1]}), pa.record_batch({"id": [2, 3]})])
    told = pa.Table.from_batches(
        match_slices(numbers, snapshot_place, "ads", about, image, system, slices, output, 4)
    ).to_pylist()
    assert [row["number"] for row in told] == [0, 1, 2, 3]
    parts = [pq.read_table(tmp_path / "out" / row["name"]) for row in told]
    assert [len(part) for part in parts] == [row["events"] for row in told]
    found = pa.concat_tables(parts)
    assert found.drop(["winners"]).equals(table)
    assert found["winners"].to_pylist() == wanted(state, table, 4)
    assert sum(map(len, found["winners"].to_pylist())) == sum(row["winners"] for row in told) > 5
    assert len(match_tasks._loaded) == 1


def test_histories_are_cut_within_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "visits"
    folder.mkdir()
    for name, n in (("b.parquet", 3_000), ("a.parquet", 2_500), ("_tmp.parquet", 9), ("c.parquet", 0)):
        pq.write_table(pa.table({"age": pa.array(range(n), pa.int64())}), folder / name, row_group_size=2_000)
    (folder / "_SUCCESS").touch()
    found = [(Path(path).name, *rest) for path, *rest in cut(Folder.at(folder), ("age",), 20)]
    assert found == [
        ("a.parquet", 0, 0, 1000, 0), ("a.parquet", 0, 1000, 1000, 1000), ("a.parquet", 1, 0, 500, 2000),
        ("b.parquet", 0, 0, 1000, 0), ("b.parquet", 0, 1000, 1000, 1000), ("b.parquet", 1, 0, 1000, 2000),
    ]  # fmt: skip
    monkeypatch.setattr(match, "_WINNERS_PER_TASK", 40_000)
    assert max(rows for _, _, _, rows, _ in cut(Folder.at(folder), ("age",), 100)) == 400


def test_a_history_without_events_is_a_slice_of_none(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"age": pa.array([], pa.float64())}), path)
    assert cut(Folder.at(path), ("age",), 20) == [(str(path), -1, 0, 0, 0)]


def test_what_is_no_history_is_told_in_a_sentence(tmp_path: Path) -> None:
    def told(name: str) -> str:
        with pytest.raises(Failed) as error:
            cut(Folder.at(tmp_path / name), ("age",), 20)
        assert "\n" not in str(error.value)
        return str(error.value)

    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_text("age\n1\n")
    pq.write_table(pa.table({"winners": [1], "age": [1]}), tmp_path / "again.parquet")
    pq.write_table(pa.table({"name": ["x"]}), tmp_path / "other.parquet")
    (tmp_path / "mixed").mkdir()
    pq.write_table(pa.table({"age": [1]}), tmp_path / "mixed" / "a.parquet")
    pq.write_table(pa.table({"age": [1.5]}), tmp_path / "mixed" / "b.parquet")
    assert told("nothing") == f"there are no events in {tmp_path}/nothing"
    assert told("empty") == f"{tmp_path}/empty holds no .parquet files"
    assert told("text.parquet").startswith(f"{tmp_path}/text.parquet cannot be read: ")
    assert told("other.parquet") == f"{tmp_path}/other.parquet has no column age, nor age_min and age_max"
    assert told("again.parquet") == f"{tmp_path}/again.parquet has a column winners, which is what the result is called"
    assert told("mixed") == f"{tmp_path}/mixed/b.parquet has other columns than {tmp_path}/mixed/a.parquet"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """`run(*arguments)`: the exit code and the lines on stdout, for a snapshot of one matcher."""
    handler = signal.getsignal(signal.SIGTERM)
    snapshot(tmp_path, {"ads": make(7, 10, MatcherConfig(("age",), "exact"))})
    pq.write_table(pa.table({"age": [1, 2]}), tmp_path / "visits.parquet")
    whole = ["--storage", tmp_path, "--lsn", LSN, "--resource", "matchers/ads", "--events", tmp_path / "visits.parquet"]
    whole += ["--output", tmp_path / "out"]

    def start(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
        out = io.StringIO()
        monkeypatch.setattr(command, "own_stdout", lambda: out)
        options: dict[str, Any] = {"numbers": [match.K], "places": [match.EVENTS, OUTPUT]}
        with pytest.raises(SystemExit) as end:
            command.main(
                "history.match", "", match.match, [*map(str, (*whole, *arguments))], **options, kind="matchers"
            )
        assert isinstance(end.value.code, int)
        return end.value.code, [json.loads(line) for line in out.getvalue().splitlines()]

    yield start
    signal.signal(signal.SIGTERM, handler)


def test_what_cannot_be_done_is_told_before_spark_starts(run: Run, tmp_path: Path) -> None:
    def told(*arguments: object) -> str:
        code, lines = run(*arguments)
        assert code == 1 and list(lines[-1]) == ["error"]
        return str(lines[-1]["error"])

    assert told("--resource", "boards/ads") == "--resource is 'boards/ads'; it has to be matchers/NAME"
    assert "has no matchers/jobs/subscriptions.parquet" in told("--resource", "matchers/jobs")
    assert "there is no snapshot in" in told("--lsn", 13)
    assert told("--k", 0) == "--k is 0; it has to be at least 1"
    assert told("--events", "none.parquet").startswith("there are no events in")
    assert "cannot be used as storage" in told("--output", "nowhere://x")
    assert told("--output", tmp_path / "visits.parquet").endswith("visits.parquet, which is a file")
    assert told("--output", tmp_path).endswith("which holds snapshots already")
    assert not (tmp_path / "out").exists()


def test_what_a_killed_run_left_is_taken_away(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / "out" / "_parts-0"
    left.mkdir(parents=True)
    (left / "half.parquet").write_bytes(b"half")

    def stop(*_: object, **__: object) -> None:
        raise Failed("so far")

    monkeypatch.setattr(match, "session", stop)
    code, lines = run()
    assert (code, lines[-1]) == (1, {"error": "so far"})
    assert {line["step"] for line in lines[:-1]} == {"checking the files", "laying out the indexes", "starting Spark"}
    assert list((tmp_path / "out").iterdir()) == []


def test_help_shows_what_it_takes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.history.match", "--help"], capture_output=True, text=True, check=True
    )
    assert "--resource matchers/ads --events EVENTS --output OUTPUT" in done.stdout
    assert "the matcher, as matchers/NAME" in done.stdout
