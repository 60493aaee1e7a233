"""A board with zones as a service has it: its log, what its publisher says, and the truth by brute force."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.rendering.boards import board_json
from app.storage.log import Log
from app.storage.rows import LogEntry
from app.zones.chain import Chain
from formats.board_commands import encode
from indexes.boards.commands import (
    DELETE,
    UPDATE,
    UPSERT,
    AddSubscriptions,
    Command,
    Configure,
    DeleteSubscriptions,
    Events,
    SetSubscription,
)
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import between, ranges
from indexes.boards.zones import cut_zones
from indexes.core.commands import Create
from spark_jobs.common.worker import Task
from spark_jobs.zones.steps import CommandRow
from tests.oracles.painting import Object, must_hear
from tests.oracles.world import Ask, World

GRID = 30
KS = (2, 4)

Key = tuple[int, int, int]
"""A version of the cut, a zone and a seq."""

Tiles = list[tuple[Any, ...]]


class ZonedService:
    """Commands go to the engine and to the brute-force world alike."""

    def __init__(self, seed: int, algorithm: Literal["sparse", "dense"], order: Literal["asc", "desc"] = "asc") -> None:
        self.rng = np.random.default_rng(seed)
        config = BoardConfig(("x",), "y", order, KS, algorithm, zones=4)
        self.engine = BoardEngine(config, 1)
        self.world = World(order)
        cut = self.engine.config.cut
        assert cut is not None
        self.chain = Chain("e", "delays", cut, board_json(("x",), "y"), 1)
        self.rows: list[LogEntry] = [self._entry(part, 1, 1) for part in encode(Create(config), 0)]
        self.affected: dict[int, int] = {}
        """By seq of an event how often a subscription has to hear of an object, as an exact algorithm tells it."""
        self.made = 0

    def _entry(self, part: Any, first: int, last: int) -> LogEntry:
        return LogEntry("boards/delays", first, last, part.name, part.payload)

    def send(self, command: Command) -> None:
        """A command is committed, and published."""
        plan, slices = self.engine.apply(command)
        for part in encode(plan.command, plan.count):
            self.rows.append(self._entry(part, plan.first_seq, plan.last_seq))
        for one in slices:
            self.chain.add(one, self.engine.config.cut, 1 << 30)
        self.chain.learn({})
        self.chain.make(1 << 20, math.inf)

    def published(self) -> dict[Key, Tiles]:
        """What the service's publisher sent, by version, zone and seq."""
        found: dict[Key, Tiles] = {}
        for message in self.chain.ready:
            said = json.loads(message.payload)
            if said["tiles"]:
                key = message.version, message.zone, said["seq"]
                assert key not in found
                found[key] = [
                    (
                        tile["k"],
                        *(tile[side] for side in ("l_outer", "l_inner", "r_inner", "r_outer")),
                        tile["object"]["id"],
                        tile["object"]["values"]["x"],
                        tile["object"]["values"]["y"],
                        tile["object"]["created"],
                        json.dumps(tile["object"].get("payload")),
                        tile["object"].get("gone", False),
                    )
                    for tile in said["tiles"]
                ]
        return found

    # --- what happens -----------------------------------------------------------------------------------------------

    def subscribe(self, n: int) -> None:
        both = np.sort(self.rng.integers(0, GRID, (n, 2)), 1).astype(float)
        l = np.where(self.rng.random(n) < 0.1, -np.inf, both[:, 0])
        r = np.where(self.rng.random(n) < 0.1, np.inf, both[:, 1])
        k = self.rng.choice(KS, n).astype(np.int32)
        ids = [f"s{self.made + i}" for i in range(n)]
        self.made += n
        self.send(AddSubscriptions(pa.array(ids, pa.string()), ranges(l, r), k))
        for id, *rest in zip(ids, l.tolist(), r.tolist(), k.tolist(), strict=True):
            self.world.asks[id] = Ask(*rest)

    def move(self) -> None:
        id = str(self.rng.choice(sorted(self.world.asks)))
        l, r = sorted(float(one) for one in self.rng.integers(0, GRID, 2))
        ask = self.world.asks[id]
        self.send(SetSubscription(id, between(l, r)))
        self.world.asks[id] = Ask(l, r, ask.k)

    def unsubscribe(self) -> None:
        ids = [str(id) for id in self.rng.choice(sorted(self.world.asks), 3, replace=False)]
        self.send(DeleteSubscriptions([*ids, "unknown"]))
        for id in ids:
            del self.world.asks[id]

    def recut(self, zones: int | None = None) -> None:
        """Cut again by the present subscriptions, as the service does."""
        subscribers = self.engine.subscribers
        rows = np.flatnonzero(subscribers.k)
        cut = cut_zones(subscribers.regions.l[rows], subscribers.regions.r[rows], zones or 4)
        self.send(Configure(zones=zones, cut=cut))

    def events(self, n: int, batch: bool = False) -> None:
        """Events, and how many subscriptions have to hear of how many objects by each of them."""
        ids, ops, x, y = [], [], [], []
        payload: dict[int, bytes | None] = {}
        wanted = []
        for i in range(n):
            id = f"o{int(self.rng.integers(0, 25))}"
            there = self.world.things.get(id)
            kind = self.rng.random()
            op = DELETE if there is not None and kind < 0.15 else UPDATE if there is not None and kind < 0.5 else UPSERT
            at = np.nan if op != UPSERT else float(self.rng.integers(0, GRID))
            rank = np.nan if op == DELETE else float(self.rng.integers(0, 12))
            if op != DELETE and self.rng.random() < 0.3:
                payload[i] = b'{"gate":"%d"}' % i
            ids.append(id)
            ops.append(op)
            x.append(at)
            y.append(rank)
            steps = [self._objects()]
            if op == DELETE:
                del self.world.things[id]
            else:
                if there is not None and not np.isnan(at) and at != there.x:
                    # A move is a deletion and an insertion.
                    steps.append([one for one in steps[0] if one.id != id])
                self.world.upsert(id, None if np.isnan(at) else at, rank)
                if i in payload:
                    self.world.things[id].payload = payload[i]
            steps.append(self._objects())
            touched = i in payload and len(steps) == 2
            asks = self.world.asks.values()
            pairs = [(old, new, ask) for old, new in pairwise(steps) for ask in asks]
            told = (must_hear(old, new, id, ask.l, ask.r, ask.k, touched) for old, new, ask in pairs)  # type: ignore[arg-type]
            wanted.append(sum(map(len, told)))
        first = self.engine.next_seq
        self.send(Events(np.array(ops, np.uint8), ids, np.array(x), np.array(y), payload, batch=batch))
        if not batch:
            self.affected |= {first + i: count for i, count in enumerate(wanted)}

    def _objects(self) -> list[Object]:
        sign = self.world.sign
        return [Object(one.id, one.x, sign * one.y, one.created) for one in self.world.things.values()]

    def run(self, steps: int) -> None:
        """Everything that can happen to a board."""
        self.subscribe(60)
        self.events(30)
        self.recut()
        for number in range(steps):
            kind = number % 6
            if kind == 1:
                self.move()
            elif kind == 3:
                self.unsubscribe()
            elif kind == 4:
                self.subscribe(5)
            else:
                self.events(int(self.rng.integers(1, 9)), batch=kind == 2)
            if number == steps // 2:
                self.recut(3)
        self.events(6)

    # --- the log ----------------------------------------------------------------------------------------------------

    def command_rows(self) -> list[CommandRow]:
        """The rows after the creation."""
        return [
            CommandRow(lsn, row.first_seq, row.last_seq, row.command, row.payload)
            for lsn, row in enumerate(self.rows, 1)
            if lsn > 1
        ]

    def write_log(self, data: Path) -> None:
        """The log as the service's data directory has it."""
        data.mkdir()
        log = Log.open(f"sqlite:///{data / 'rankcast.db'}")
        for row in self.rows:
            log.append([row])
        log.close()


def disseminated(output: Path) -> tuple[dict[Key, Tiles], dict[int, int]]:
    """What is in the files of an output, by version, zone and seq, and by seq how many subscriptions it reaches. A seq
    that a zone has twice is an error.
    """
    found: dict[Key, Tiles] = {}
    reached: dict[int, int] = {}
    for path in sorted(output.glob("version=*/zone=*/*.parquet")):
        version, zone = (int(part.partition("=")[2]) for part in path.parts[-3:-1])
        rows = pq.ParquetFile(path).read().to_pylist()
        assert [row["seq"] for row in rows] == sorted({row["seq"] for row in rows})
        for row in rows:
            key = version, zone, row["seq"]
            assert key not in found, f"{key} is there twice"
            found[key] = [(*list(tile.values())[:9], tile["payload"] or "null", tile["gone"]) for tile in row["tiles"]]
            found[key] = [(*tile[:9], json.dumps(json.loads(tile[9])), tile[10]) for tile in found[key]]
            reached[row["seq"]] = reached.get(row["seq"], 0) + sum(tile["recipients"] for tile in row["tiles"])
    return found, reached


class _Frame:
    """As much of a DataFrame as a round needs: the numbers of parts, each in a batch of its own."""

    def __init__(self, parts: int, task: Task | None = None) -> None:
        self._parts, self._task = parts, task

    def range(self, start: int, end: int, step: int, partitions: int) -> _Frame:
        assert (start, step, partitions) == (0, 1, end)
        return _Frame(end)

    def mapInArrow(self, task: Task, schema: str) -> _Frame:  # noqa: N802
        return _Frame(self._parts, task)

    def collect(self) -> Iterator[Any]:
        assert self._task is not None
        for part in range(self._parts):
            for batch in self._task(iter([pa.record_batch({"id": pa.array([part], pa.int64())})])):
                yield from batch.to_pylist()


class Here:
    """A session whose tasks run in this process."""

    spark = _Frame(0)

    def task(self, target: str, *arguments: Any) -> Task:
        return Task(target, arguments)
