"""The tasks of a matcher's rebuild without Spark: parts of an image, and the image that they are joined to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.folder import Damaged, Folder
from formats.matchers import read_dimension
from formats.parts import write_image
from indexes.matchers.config import MatcherConfig
from indexes.matchers.layout import parts_of
from indexes.matchers.packing import pack_indexes
from spark_jobs.rebuild.matcher_tasks import join, pack
from tests.spark.boards import LSN, contents
from tests.spark.matchers import NAMES, make, packed_here, snapshot

CONFIGS = [
    MatcherConfig(NAMES[:1], "exact"),
    MatcherConfig(NAMES, "exact"),
    MatcherConfig(NAMES, "relaxed", "product"),
    MatcherConfig(NAMES, "exact", index="sopt-r"),
    MatcherConfig(NAMES, "relaxed", index="ir"),
    MatcherConfig(NAMES, "relaxed", "max", "segment"),
    MatcherConfig(NAMES, "exact", index="interval"),
    MatcherConfig(NAMES, "relaxed", index="scored-r"),
]


def built(root: Path, about: dict, target: Path) -> None:
    """Write the image of the matcher "ads" as the job does, parts in another order."""
    source, pieces = Folder.at(root) / "snapshots" / str(LSN), Folder.at(root) / "pieces"
    config = MatcherConfig(**{**about["config"], "dimensions": tuple(about["config"]["dimensions"])})
    numbers = range(len(parts_of(config)))
    tasks = [iter([pa.record_batch({"id": [number]})]) for number in reversed(numbers)]
    told = [pack(task, source.system, source.path, "ads", about, pieces.path) for task in tasks]
    names = {row["number"]: row["name"] for task in told for batch in task for row in batch.to_pylist()}
    packed = pack_indexes(join(config, [pieces / names[number] for number in numbers]))
    write_image(Folder.at(target), "matchers/ads", LSN, packed)


@pytest.mark.parametrize("n", [0, 1, 400])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.mode}-{config.index}")
def test_the_image_has_the_bytes_of_the_services_own(tmp_path: Path, config: MatcherConfig, n: int) -> None:
    about = snapshot(tmp_path, {"ads": make(3, n, config)})["matchers/ads"]
    packed_here(tmp_path, "ads", tmp_path / "wanted")
    built(tmp_path, about, tmp_path / "image")
    assert contents(tmp_path / "image") == contents(tmp_path / "wanted")


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_a_dimension_is_read_alone(tmp_path: Path, mode: str) -> None:
    config = MatcherConfig(NAMES, "relaxed" if mode == "relaxed" else "exact")
    state = make(4, 50, config)
    about = snapshot(tmp_path, {"ads": state})["matchers/ads"]
    for j in range(3):
        found = read_dimension(Folder.at(tmp_path) / "snapshots" / str(LSN), "ads", about, j)
        np.testing.assert_array_equal(found.lo[:, 0], state.subscriptions.lo[:, j])
        np.testing.assert_array_equal(found.hi[:, 0], state.subscriptions.hi[:, j])
        weight = state.subscriptions.scores[:, j if config.relaxed else 0]
        np.testing.assert_array_equal(found.scores[:, 0], weight)


def test_a_file_that_is_another_is_told_by_name(tmp_path: Path) -> None:
    about = snapshot(tmp_path, {"ads": make(4, 50, CONFIGS[1])})["matchers/ads"]
    source = Folder.at(tmp_path) / "snapshots" / str(LSN)
    with pytest.raises(Damaged, match=r"subscriptions.parquet holds other rows"):
        read_dimension(source, "ads", {**about, "subscriptions": 49}, 0)
    path = tmp_path / f"snapshots/{LSN}/matchers/ads/subscriptions.parquet"
    pq.write_table(pq.read_table(path).drop(["hi1"]), path)
    with pytest.raises(Damaged, match=r"subscriptions.parquet cannot be read: .*hi1"):
        read_dimension(source, "ads", about, 1)


def test_a_part_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(Folder.at(tmp_path / "part"), "part 0", 0, {})
    monkeypatch.setattr("formats.parts.LAYOUT", "another")
    with pytest.raises(Damaged, match="another version"):
        join(CONFIGS[1], [Folder.at(tmp_path / "part")])
