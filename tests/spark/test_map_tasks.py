"""The tasks of a map's rebuild without Spark: objects are read, slabs laid out, and joined to an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.folder import Folder
from formats.maps import objects_at, place_names
from formats.parts import write_image
from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig
from indexes.maps.kernels.rtree import fanout_of, slab_of
from indexes.maps.packing import pack_index
from spark_jobs.common.inputs import row_groups
from spark_jobs.rebuild.map_tasks import SLAB, join_slabs, lay_slabs, read_objects
from tests.spark.boards import LSN, contents
from tests.spark.maps import FOOD, make, packed_here, snapshot

NAMELESS = MapConfig((), FOOD.bounds)
MANY = MapConfig(tuple(Attribute(f"a{j}", j % 2 == 1) for j in range(5)), FOOD.bounds, "manhattan")


@pytest.mark.parametrize("n", [0, 1, 56, 57, 700])
@pytest.mark.parametrize("config", [FOOD, NAMELESS, MANY], ids=["two", "none", "five"])
def test_the_image_has_the_bytes_of_the_services_own(tmp_path: Path, config: MapConfig, n: int) -> None:
    state, d = make(3, n, config), len(config.attributes)
    about = snapshot(tmp_path, {"food": state})["maps/food"]
    packed_here(tmp_path, "food", tmp_path / "wanted")
    source, name, columns = Folder.at(tmp_path / f"snapshots/{LSN}"), objects_at("food"), place_names(config)
    place = tmp_path / f"snapshots/{LSN}" / name
    pq.write_table(pq.read_table(place), place, row_group_size=90)
    groups = row_groups(source, name, ["row", *columns], about["objects"])
    assert groups == max(1, -(-n // 90))
    signs = [1.0, 1.0, *(-1.0 if attribute.high else 1.0 for attribute in config.attributes)]
    numbers = iter([pa.record_batch({"id": list(range(groups))})])
    read = list(read_objects(numbers, source.system, source.path, name, columns, signs))
    parts: list[Any] = []
    if n:
        objects, slab = pa.Table.from_batches(read), slab_of(n, 2 + d, fanout_of(d))
        order = np.lexsort((objects["slot"], objects["key"]))
        position = np.argsort(order)  # of each row as it was read: a partition's rows come in any order
        cut = objects.append_column(SLAB, pa.array(position // slab, pa.int32()))
        for number in reversed(range(-(-n // slab))):
            mine = cut.filter(pa.array(position // slab == number)).to_batches(40)
            told = list(lay_slabs(iter(mine), source.system, str(tmp_path / "pieces"), n, d))
            assert [row["number"] for batch in told for row in batch.to_pylist()] == [number]
            parts.insert(0, Folder.at(tmp_path / "pieces" / told[0]["name"][0].as_py()))
    assert (len(parts) > 1) == (n > fanout_of(d))
    write_image(Folder.at(tmp_path / "image"), "maps/food", LSN, pack_index(join_slabs(d, parts)))
    assert contents(tmp_path / "image") == contents(tmp_path / "wanted")


def test_a_partition_is_one_slab(tmp_path: Path) -> None:
    system = Folder.at(tmp_path).system
    assert list(lay_slabs(iter([]), system, str(tmp_path), 9, 0)) == []
    columns = {"key": [1.0, 2.0], "slot": pa.array([0, 1], pa.int32()), "c0": [1.0, 2.0], "c1": [1.0, 2.0]}
    batch = pa.record_batch({**columns, SLAB: pa.array([0, 1], pa.int32())})
    with pytest.raises(ValueError, match="slab 0 holds objects of others"):
        list(lay_slabs(iter([batch]), system, str(tmp_path), 9, 0))
