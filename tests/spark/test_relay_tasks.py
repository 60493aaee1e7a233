"""The tasks of a relay's rebuild without Spark: parts of an image, and the image that they are joined to."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from formats.folder import Damaged, Folder
from formats.parts import read_image, write_image
from indexes.relays.config import RelayConfig
from indexes.relays.layout import parts_of
from indexes.relays.packing import unpack_indexes
from indexes.relays.relations import Known
from indexes.relays.state import engine_of
from spark_jobs.common.parts import read_part
from spark_jobs.rebuild.relay_tasks import pack
from spark_jobs.rebuild.relays import LAYOUT
from tests.oracles.relay_http import least
from tests.spark.boards import LSN, contents
from tests.spark.relays import LINKS, NAMES, make, packed_here, snapshot

CONFIGS = [
    RelayConfig(NAMES[:1]),
    RelayConfig(NAMES, links=LINKS),
    RelayConfig(NAMES, k=3, index="zorder", links=LINKS),
    RelayConfig(NAMES, index="zorder"),
    RelayConfig(NAMES, index="linear", links=LINKS),
    RelayConfig(NAMES, "G*", links=LINKS),
    RelayConfig(NAMES, "poset", index="zorder"),
]


def called(config: RelayConfig) -> str:
    return f"{config.graph}-{config.k}-{config.index}-{len(config.links)}"


def built(root: Path, about: dict, target: Path, config: RelayConfig) -> None:
    """Write the image of the relay "market" as the job does, parts in another order."""
    source, pieces = Folder.at(root) / "snapshots" / str(LSN), Folder.at(root) / "pieces"
    assert LAYOUT.rows(about) == about["subscriptions"]
    numbers = range(len(parts_of(config)))
    tasks = [iter([pa.record_batch({"id": [number]})]) for number in reversed(numbers)]
    told = [pack(task, source.system, source.path, "market", about, pieces.path) for task in tasks]
    names = {row["number"]: row["name"] for task in told for batch in task for row in batch.to_pylist()}
    packed = LAYOUT.join(about, [pieces / names[number] for number in numbers])
    write_image(Folder.at(target), "relays/market", LSN, packed)


@pytest.mark.parametrize("n", [0, 1, 200])
@pytest.mark.parametrize("config", CONFIGS, ids=called)
def test_the_image_has_the_bytes_of_the_services_own(tmp_path: Path, config: RelayConfig, n: int) -> None:
    about = snapshot(tmp_path, {"market": make(3, n, config)})["relays/market"]
    packed_here(tmp_path, "market", tmp_path / "wanted")
    built(tmp_path, about, tmp_path / "image", config)
    assert contents(tmp_path / "image") == contents(tmp_path / "wanted")


@pytest.mark.parametrize("config", CONFIGS[:5], ids=called)
def test_the_smallest_set_to_be_forwarded_is_what_no_edge_leads_to(tmp_path: Path, config: RelayConfig) -> None:
    about = snapshot(tmp_path, {"market": make(5, 120, config)})["relays/market"]
    one = packed_here(tmp_path, "market", tmp_path / "wanted")
    built(tmp_path, about, tmp_path / "image", config)
    packed = read_image(Folder.at(tmp_path / "image"))
    assert packed is not None
    found = unpack_indexes(config, one.relay, packed).relations
    assert sorted(found) == (sorted(config.links) or [""])
    relay = engine_of(one).relay
    for number, name in enumerate(sorted(found)):
        relations = found[name]
        assert isinstance(relations, Known)
        mine = [i for i, link in enumerate(one.relay.link.tolist()) if link != number or not config.links]
        boxes = {str(i): list(zip(-one.relay.points[i, 0::2], one.relay.points[i, 1::2], strict=True)) for i in mine}
        smallest = sorted(map(int, least(boxes)))
        assert 0 < len(smallest) < len(mine)
        assert [i for i in mine if relations.graph.degree[i] == 0] == smallest
        assert relay.forwarded_count(name) > (len(smallest), 0), "that is fewer than are forwarded"


def test_a_file_that_is_another_is_told_by_name(tmp_path: Path) -> None:
    about = snapshot(tmp_path, {"market": make(4, 50, CONFIGS[1])})["relays/market"]
    with pytest.raises(Damaged, match=r"subscriptions.parquet holds other rows"):
        built(tmp_path, {**about, "subscriptions": 49}, tmp_path / "image", CONFIGS[1])


def test_a_part_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(Folder.at(tmp_path / "part"), "part 0", 0, {})
    monkeypatch.setattr("formats.parts.LAYOUT", "another")
    with pytest.raises(Damaged, match="another version"):
        read_part(Folder.at(tmp_path / "part"))
