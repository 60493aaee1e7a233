"""The parts of a board on Spark without Spark: their tiles by zone are what the service's publisher sends."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.folder import Damaged, Folder
from indexes.boards.commands import DELETE, UPSERT
from indexes.boards.zones import EVERYWHERE, Zone, counts_of, cut_zones
from spark_jobs import dissemination
from spark_jobs.common import command
from spark_jobs.zones import tasks
from spark_jobs.zones.bases import write
from spark_jobs.zones.inputs import Unfit, config_of_wire, empty_state, events_of, rows_of, write_subscriptions
from spark_jobs.zones.layout import Paint, layout_of, overlap
from spark_jobs.zones.source import EVENTS
from spark_jobs.zones.steps import CommandRow, DisseminationSteps, Left, Unlike
from tests.oracles.world import TileSubscriber
from tests.spark.zones import Here, ZonedService, disseminated

HERE: Any = Here()
CONFIG = '{"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [2, 4], "zones": 3}'


def opened(place: Path, paint: Paint = "auto", base_every: int = 3, held: int = 2) -> DisseminationSteps:
    return DisseminationSteps(
        Folder.at(place / "checkpoint"), Folder.at(place / "tiles"), "delays", paint, base_every, held
    )


def begun(place: Path, service: ZonedService, **options: Any) -> DisseminationSteps:
    steps = opened(place, **options)
    config = ZonedService(0, service.engine.config.algorithm, service.engine.config.order).engine.config
    first = Folder.at(place / "first")
    write(first, "delays", empty_state(config, 1))
    steps.begin(HERE, config, first, 1, 1)
    return steps


@pytest.mark.parametrize(("algorithm", "paint"), [("dense", "auto"), ("sparse", "auto"), ("dense", "plane")])
def test_tiles_are_those_of_the_publisher_and_reach_whose_lists_change(
    tmp_path: Path, algorithm: Literal["sparse", "dense"], paint: Paint
) -> None:
    service = ZonedService(3, algorithm, "desc" if paint == "plane" else "asc")
    service.run(24)
    steps = begun(tmp_path, service, paint=paint)
    rows = service.command_rows()
    for batch, first in enumerate(range(0, len(rows), 4)):
        steps.take(HERE, batch, rows[first : first + 4])
    found, reached = disseminated(tmp_path / "tiles")
    expected = service.published()
    assert found == expected and len({version for version, *_ in expected}) == 3
    wanted = {seq: count for seq, count in service.affected.items() if count}
    assert {seq: count for seq, count in reached.items() if count and seq in service.affected} == wanted
    assert sum(steps.subscriptions) == len(service.world.asks)
    assert steps.seq == service.engine.seq and steps.counts.messages == len(expected)
    assert len(steps.layout.parts) == (1 if (algorithm, paint) != ("dense", "auto") else 3)


def test_zones_that_paint_sparsely_by_themselves_reach_the_same_subscriptions(tmp_path: Path) -> None:
    service = ZonedService(4, "sparse")
    service.run(18)
    steps = begun(tmp_path, service, paint="zone")
    steps.take(HERE, 0, service.command_rows())
    found, reached = disseminated(tmp_path / "tiles")
    assert len(steps.layout.parts) == 3 and set(found) <= set(service.published())
    wanted = {seq: count for seq, count in service.affected.items() if count}
    assert {seq: count for seq, count in reached.items() if seq in service.affected} == wanted


def test_lists_kept_by_the_tiles_of_a_zone_alone_are_exact(tmp_path: Path) -> None:
    service = ZonedService(5, "dense")
    service.run(6)
    seq, cut = service.engine.seq, service.engine.config.cut
    assert cut is not None
    readers = {id: TileSubscriber(service.world, ask) for id, ask in service.world.asks.items()}
    service.events(60)
    steps = begun(tmp_path, service)
    steps.take(HERE, 0, service.command_rows())
    for path in sorted((tmp_path / "tiles").glob(f"version={cut.version}/zone=*/*.parquet")):
        zone = cut.zones[int(path.parent.name.partition("=")[2])]
        mine = [one for one in readers.values() if counts_of((zone,), np.array([one.ask.l]), np.array([one.ask.r]))[0]]
        for row in pq.ParquetFile(path).read().to_pylist():
            for reader in mine if row["seq"] > seq else []:
                for tile in row["tiles"]:
                    if _reaches(tile, reader.ask):
                        reader.apply(_Shown(tile))
    for id, reader in readers.items():
        assert [one[:4] for one in reader.shown()] == [one[:4] for one in service.world.shown(id)]


class _Shown:
    """A tile as the oracle takes it."""

    def __init__(self, tile: dict[str, Any]) -> None:
        self.object = self
        self.id, self.x, self.y, self.created = (tile[name] for name in ("id", "x", "y", "created"))
        self.payload, self.gone = tile["payload"], tile["gone"]


def _reaches(tile: dict[str, Any], ask: Any) -> bool:
    west = tile["l_outer"] is None or tile["l_outer"] < ask.l
    east = tile["r_outer"] is None or ask.r < tile["r_outer"]
    inner = (tile["l_inner"] is None or ask.l <= tile["l_inner"]) and (
        tile["r_inner"] is None or ask.r >= tile["r_inner"]
    )
    return bool(tile["k"] == ask.k and west and east and inner)


@pytest.mark.parametrize("died_at", [2, 9, 13])
def test_a_stream_that_ended_anywhere_goes_on_with_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died_at: int
) -> None:
    """The end comes within a batch: after some parts have written their files, or before the batch is committed."""
    service = ZonedService(6, "dense")
    service.run(12)
    steps, rows = begun(tmp_path, service), service.command_rows()
    batches = [rows[first : first + 3] for first in range(0, len(rows), 3)]
    calls = 0
    take = tasks._take

    def mortal(work: tasks.Work, number: int) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == died_at:
            raise KeyboardInterrupt
        return take(work, number)

    monkeypatch.setattr(tasks, "_take", mortal)

    def take_all() -> None:
        for number, batch in enumerate(batches):
            steps.take(HERE, number, batch)

    with pytest.raises(KeyboardInterrupt):
        take_all()
    done = steps.batch
    monkeypatch.setattr(tasks, "_take", take)
    tasks._held.clear()
    steps = opened(tmp_path)
    assert steps.batch == done < len(batches) - 1
    take_all()
    assert disseminated(tmp_path / "tiles")[0] == service.published()
    committed = json.loads((tmp_path / "tiles" / "_committed.json").read_text())
    assert committed == {"batch": len(batches) - 1, "lsn": len(rows) + 1, "seq": service.engine.seq,
                         "version": steps.layout.version}  # fmt: skip
    assert len(list((tmp_path / "checkpoint" / "bases").iterdir())) == 1
    assert len(list((tmp_path / "checkpoint" / "rounds").iterdir())) == steps.round - steps.base <= 3


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    service = ZonedService(7, "dense")
    steps = begun(tmp_path, service)
    with pytest.raises(Unlike, match="another way to paint: auto in place of plane"):
        opened(tmp_path, "plane")
    with pytest.raises(Left, match="deleted or made again"):
        steps.take(HERE, 0, [CommandRow(9, 9, 9, "drop", b"")])
    (tmp_path / "checkpoint" / "front.json").write_text("{}")
    with pytest.raises(Damaged, match="is damaged"):
        opened(tmp_path)


def test_a_worker_holds_no_more_parts_than_it_may(tmp_path: Path) -> None:
    service = ZonedService(8, "dense")
    service.run(8)
    tasks._held.clear()
    steps = begun(tmp_path, service, held=2)
    steps.take(HERE, 0, service.command_rows())
    assert len(steps.layout.parts) == 3 and len(tasks._held) == 2
    assert {part.plan.area for _, part in tasks._held.values()} <= {plan.area for plan in steps.layout.parts}


def test_areas_of_two_cuts_overlap_where_they_have_a_point_in_common() -> None:
    rng = np.random.default_rng(1)
    points = [np.round(rng.random(500) * 10) for _ in range(4)]
    cuts = [cut_zones(points[0], points[1], 5), cut_zones(points[2], points[3], 7)]
    lines = sorted({side + step for cut in cuts for zone in cut for side in zone for step in (-0.5, 0, 0.5)})
    grid = [(l, r) for l in lines for r in lines]
    l, r = (np.array(side) for side in zip(*grid, strict=True))
    for a in cuts[0]:
        for b in cuts[1]:
            both = any(counts_of((a,), l[i : i + 1], r[i : i + 1])[0] and counts_of((b,), l[i : i + 1], r[i : i + 1])[0]
                       for i in range(len(l)))  # fmt: skip
            assert overlap(a, b) == both == overlap(b, a)
    assert overlap(EVERYWHERE, Zone(3, 3.5, 3, 3.5))


def test_a_folder_of_events_is_a_board(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    l = rng.integers(0, 20, 300).astype(float)
    who = pa.table({"id": [f"s{i}" for i in range(300)], "l": l, "r": l + 5, "k": rng.choice([2, 4], 300)})
    pq.write_table(who, tmp_path / "who.parquet")
    config = config_of_wire(CONFIG)
    zones = write_subscriptions(Folder.at(tmp_path / "first"), "delays", config, str(tmp_path / "who.parquet"))
    assert zones == cut_zones(l, l + 5, 3)
    table = pa.table({"id": ["a", "b", "a"], "x": [1.0, 2, None], "y": [3.0, 4, None], "op": [None, "upsert", "delete"],
                      "payload": ['{ "gate": 1 }', None, None]})  # fmt: skip
    events = events_of(table, config)
    assert events.op.tolist() == [UPSERT, UPSERT, DELETE] and events.payload == {0: b'{"gate":1}'}
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    (row,) = rows_of([(5, 0, 0, EVENTS, out.getvalue())], config)
    assert (row.lsn, row.first_seq, row.command) == (5, 0, "events")
    assert len(layout_of(config, "zone").parts) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": None}, "no column x"),
        ({"x": [float("inf")]}, "x is a finite number"),
        ({"y": ["a"]}, "the column y has numbers"),
        ({"id": ["a/b"]}, "an id is 'a/b'"),
        ({"id": pa.nulls(1, pa.string())}, "an id is None"),
        ({"op": ["drop"]}, "op is upsert, update, delete"),
        ({"payload": ["{"]}, "payload is JSON text"),
    ],
)
def test_events_that_cannot_be_are_refused(changed: dict[str, Any], message: str) -> None:
    fields = {"id": ["a"], "x": [1.0], "y": [2.0], **changed}
    with pytest.raises(Unfit, match=message):
        events_of(
            pa.table({name: value for name, value in fields.items() if value is not None}), config_of_wire(CONFIG)
        )


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"k": [3]}, "one of 2, 4"), ({"l": [9.0]}, "at most r"), ({"l": [float("nan")]}, "finite"), ({"id": [""]}, "id")],
)
def test_subscriptions_that_cannot_be_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    pq.write_table(pa.table({"id": ["s"], "l": [1.0], "r": [2.0], "k": [2], **changed}), tmp_path / "who.parquet")
    with pytest.raises(Unfit, match=message):
        write_subscriptions(
            Folder.at(tmp_path / "first"), "delays", config_of_wire(CONFIG), str(tmp_path / "who.parquet")
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--storage", "{0}", "--events", "{0}"], "either --storage (or --log) or --events"),
        (["--events", "{0}"], "--events needs --config"),
        (["--events", "{0}", "--config", "{{"], "--config cannot be read"),
        (["--events", "{0}", "--config", '{{"range_attributes": ["x"]}}'], "--config has no rank"),
        (
            ["--events", "{0}", "--config", CONFIG.replace("{", "{{").replace("}", "}}").replace("3}", "0}")],
            "zones from 1",
        ),
        (["--storage", "{0}"], "cannot be read"),
        (["--storage", "{0}", "--resource", "maps/x"], "boards/NAME"),
        (["--storage", "{0}", "--held", "0"], "--held is at least 1"),
        (["--storage", "{0}", "--base-every", "0"], "--base-every is at least 1"),
        (["--storage", "{0}", "--paint", "x"], "invalid choice"),
    ],
)
def test_misuse_of_the_job_fails_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    out, handler = io.StringIO(), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(command, "own_stdout", lambda: out)
    given = [one.format(tmp_path) for one in arguments]
    try:
        with pytest.raises(SystemExit) as end:
            command.run(
                dissemination.parser(),
                dissemination.disseminate,
                ["--resource", "boards/a", "--checkpoint", str(tmp_path / "c"), *given],
            )
    finally:
        signal.signal(signal.SIGTERM, handler)
    last = json.loads(out.getvalue().splitlines()[-1])
    assert end.value.code == 1 and message in last["error"] and "\n" not in last["error"]
