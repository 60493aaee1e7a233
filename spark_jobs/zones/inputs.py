"""What a folder gives in place of a service's log: events, subscriptions and the configuration of a board.

Events have the columns `id`, the board's range attribute and rank attribute by their names, and optionally `op`
("upsert", the default, "update" or "delete") and `payload`, JSON text. Subscriptions have `id`, `l` and `r` (null:
unbounded), and optionally `k`; an id must not be there twice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from formats.board_commands import encode
from formats.boards import RESOURCE, subscription_schema, write_state
from formats.commands import joined
from formats.folder import Folder
from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.state import BoardState, state_of
from indexes.boards.zones import MOST_ZONES, Zone, cut_zones
from indexes.core.arrays import Floats
from spark_jobs.zones.bases import BATCH, KIND
from spark_jobs.zones.source import EVENTS
from spark_jobs.zones.steps import CommandRow

OPS = {"upsert": UPSERT, "update": UPDATE, "delete": DELETE}

SAMPLE = 200_000
"""Subscriptions by which the plane is cut, as in the service."""

MOST_K = 1_000

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Unfit(ValueError):
    """An invalid table or configuration; the message is one sentence."""


def config_of_wire(text: str) -> BoardConfig:
    """A configuration from the body of `PUT /v1/boards/NAME`. Raises `Unfit`."""
    try:
        fields = json.loads(text)
        (attribute,) = map(str, fields["range_attributes"])
        rank = fields["rank"]
        order, algorithm = rank.get("order", "asc"), fields.get("algorithm", "sparse")
        ks = tuple(sorted({int(k) for k in fields.get("ks", [10])}))
        zones = int(fields["zones"])
        if order not in ("asc", "desc") or algorithm not in ("sparse", "dense"):
            raise ValueError("order is asc or desc, and algorithm sparse or dense")
        if not ks or not 1 <= ks[0] <= ks[-1] <= MOST_K or not 1 <= zones <= MOST_ZONES:
            raise ValueError(f"ks are from 1 to {MOST_K}, and zones from 1 to {MOST_ZONES}")
        return BoardConfig((attribute,), str(rank["attribute"]), order, ks, algorithm, zones=zones)
    except KeyError as error:
        raise Unfit(f"--config has no {error.args[0]}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise Unfit(f"--config cannot be read: {error}") from error


def empty_state(config: BoardConfig, seq: int) -> BoardState:
    """A board without objects and subscriptions."""
    plan = BoardEngine(config, seq).capture()
    while not plan.done:
        plan.execute(1.0)
        plan.publish()
    assert plan.captured is not None
    return state_of(plan.captured)


def rows_of(rows: list[tuple[Any, ...]], config: BoardConfig) -> Iterator[CommandRow]:
    """Rows of a source in order of lsn, where events of a folder become commands. Raises `Unfit`."""
    for row in rows:
        if row[3] != EVENTS:
            yield CommandRow(*row)
            continue
        command = events_of(joined([row[4]]), config)
        for part in encode(command, len(command)):
            yield CommandRow(row[0], 0, 0, part.name, part.payload)


def events_of(table: pa.Table, config: BoardConfig) -> Events:
    """The events of a table. Raises `Unfit`."""
    ops = _texts(table, "op", "upsert") if "op" in table.column_names else ["upsert"] * len(table)
    if not set(ops) <= set(OPS):
        raise Unfit(f"op is {', '.join(OPS)}")
    payload: dict[int, bytes | None] = {}
    if "payload" in table.column_names:
        for i, text in enumerate(table["payload"].to_pylist()):
            if text is not None:
                payload[i] = _compact(text)
    x, y = (_numbers(table, name) for name in (config.range_attributes[0], config.rank_attribute))
    return Events(np.array([OPS[op] for op in ops], np.uint8), _ids(table), x, y, payload, skip=True)


def write_subscriptions(folder: Folder, name: str, config: BoardConfig, place: str | None) -> tuple[Zone, ...]:
    """Write a base of a board without objects, with the subscriptions of a file; returns the zones that they are cut
    into. Holds one batch, and the sample that is cut. Raises `Unfit` and OSError."""
    folder.delete()
    resource, schema, total = RESOURCE + name, subscription_schema(1), 0
    with folder.draft() as draft:
        about = write_state(draft, name, empty_state(config, 0))
        with draft.file(f"{resource}/subscriptions.parquet") as out, pq.ParquetWriter(out, schema) as writer:
            for table in _tables(place):
                writer.write_table(_subscriptions(table, config, total).cast(schema))
                total += len(table)
        about |= {"subscriptions": total, "subscription_rows": total}
        draft.publish({"kind": KIND, "lsn": 0, "resources": {resource: about}})
    step = max(1, -(-total // SAMPLE))
    sampled: list[tuple[Floats, Floats]] = []
    first = 0
    with folder.open(f"{resource}/subscriptions.parquet") as file:
        for batch in pq.ParquetFile(file).iter_batches(BATCH, columns=["l", "r"]):
            at = slice(-first % step, None, step)
            sampled.append((batch["l"].to_numpy()[at], batch["r"].to_numpy()[at]))
            first += len(batch)
    l, r = (np.concatenate([one[side] for one in sampled]) if sampled else np.empty(0) for side in (0, 1))
    assert config.zones is not None
    return cut_zones(l, r, config.zones)


def _tables(place: str | None) -> Iterator[pa.Table]:
    """The batches of a file, Parquet or NDJSON."""
    if place is None:
        return
    folder, _, name = place.rpartition("/")
    try:
        with Folder.at(folder or ".").open(name) as file:
            if name.endswith(".parquet"):
                for batch in pq.ParquetFile(file).iter_batches(BATCH):
                    yield pa.Table.from_batches([batch])
            else:
                for batch in pj.open_json(file):
                    yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise Unfit(f"{place} cannot be read: {str(error).splitlines()[0]}") from error


def _subscriptions(table: pa.Table, config: BoardConfig, first: int) -> pa.Table:
    n = len(table)
    l, r = (_numbers(table, name) for name in ("l", "r"))
    l, r = np.where(np.isnan(l), -math.inf, l), np.where(np.isnan(r), math.inf, r)
    k = _numbers(table, "k") if "k" in table.column_names else np.full(n, float(config.ks[0]))
    if not np.isin(k, config.ks).all():
        raise Unfit(f"k of a subscription is one of {', '.join(map(str, config.ks))}")
    if (l > r).any():
        raise Unfit("l of a subscription is at most r")
    columns = {
        "sid": np.arange(first, first + n).astype(np.int32), "id": pa.array(_ids(table)), "l": l, "r": r,
        "k": k.astype(np.int32), "ttl": pa.nulls(n, pa.float64()), "offset": np.zeros(n, np.int32),
    }  # fmt: skip
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def _ids(table: pa.Table) -> list[str]:
    ids = _texts(table, "id", None)
    wrong = next((id for id in ids if id is None or not _ID.fullmatch(id)), None)
    if None in ids or wrong is not None:
        raise Unfit(f"an id is {wrong!r}: it has 1 to 128 letters, digits and . _ : -")
    return ids


def _texts(table: pa.Table, name: str, filler: str | None) -> list[str]:
    if name not in table.column_names:
        raise Unfit(f"there is no column {name}")
    column = table[name]
    if not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_integer(column.type)
    ):
        raise Unfit(f"the column {name} has texts")
    column = column.cast(pa.string())
    found: list[str] = (column if filler is None else pc.fill_null(column, filler)).to_pylist()
    return found


def _numbers(table: pa.Table, name: str) -> Floats:
    """A column as floats, NaN where it is null. Raises `Unfit` where a value is no finite number."""
    if name not in table.column_names:
        raise Unfit(f"there is no column {name}")
    try:
        column = table[name].cast(pa.float64())
    except pa.ArrowException as error:
        raise Unfit(f"the column {name} has numbers") from error
    given = column.drop_null().to_numpy()
    if not np.isfinite(given).all():
        raise Unfit(f"{name} is a finite number")
    return np.array(column.to_numpy(), np.float64)


def _compact(text: Any) -> bytes:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Unfit("payload is JSON text") from error
