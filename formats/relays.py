"""A relay on disk: its part of a snapshot, Parquet files; its image is parts (`formats.parts`).

A snapshot holds what the relay is (`indexes.relays.state.State`): its subscriptions in order of key, the queue of each
link, and in the manifest both ends of the links with all else that is short; `docs/operations.md` names the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formats import commands as rows
from formats.columns import joined, read_table, strings, write_table
from formats.folder import Damaged, Draft, Folder
from formats.links import link_fields, link_of
from indexes.core.ids import Packed, find_packed
from indexes.relays.config import UPSTREAM, RelayConfig
from indexes.relays.inbox import Inbox
from indexes.relays.kernels.points import as_boxes, as_points
from indexes.relays.outbox import Chunk, OutboxState
from indexes.relays.relay import RelayState
from indexes.relays.state import State

RESOURCE = "relays/"

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]


def subscription_schema(config: RelayConfig) -> pa.Schema:
    """The columns of subscriptions: `row` counts by age; `lo<j>`, `hi<j>` are the ends in attribute j, counted from 0;
    `link` is the number of the link that it came over, in order of name, or -1; `forwarded<i>` says whether it was
    forwarded to neighbour i; and `doubtful` whether the neighbour has not repeated it since a reset."""
    neighbours = len(config.links) or 1
    return pa.schema(
        [
            pa.field("row", pa.int32(), nullable=False),
            pa.field("id", pa.large_string(), nullable=False),
            pa.field("ttl", pa.float64()),
            pa.field("link", pa.int32(), nullable=False),
            pa.field("doubtful", pa.bool_(), nullable=False),
            *(pa.field(f"forwarded{i}", pa.bool_(), nullable=False) for i in range(neighbours)),
            *(pa.field(name, pa.float64(), nullable=False) for name in _ends(config)),
        ]
    )


def queue_schema(config: RelayConfig) -> pa.Schema:
    """The columns of a queue, see `indexes.relays.outbox.Chunk`."""
    return pa.schema(
        [
            pa.field("op", pa.uint8(), nullable=False),
            pa.field("key", pa.large_string(), nullable=False),
            pa.field("values", pa.list_(pa.float64(), 2 * len(config.attributes)), nullable=False),
            pa.field("payload", pa.large_binary()),
            pa.field("mark_epoch", pa.large_string()),
            pa.field("mark", pa.int64(), nullable=False),
            pa.field("follow", pa.int64(), nullable=False),
        ]
    )


def config_fields(config: RelayConfig) -> dict[str, Any]:
    """A configuration as a manifest or the log holds it, with the keys of links."""
    links = {name: link_fields(link) for name, link in config.links.items()}
    return {
        "attributes": config.attributes,
        "graph": config.graph,
        "k": config.k,
        "index": config.index,
        "links": links,
    }


def config_of(fields: dict[str, Any]) -> RelayConfig:
    """The configuration in a manifest or in the log."""
    links = {name: link_of(link) for name, link in fields["links"].items()}
    return RelayConfig(**{**fields, "attributes": tuple(fields["attributes"]), "links": links})


def write_state(draft: Draft, name: str, state: State) -> dict[str, Any]:
    """Write a relay's part of a snapshot; returns its entry in the manifest."""
    relay, by_id = state.relay, state.relay.ids.row
    ttl = np.full(len(by_id), np.nan)
    places = relay.ids._replace(row=np.arange(len(by_id), dtype=np.int32))
    for key, seconds in state.ttl.items():
        ttl[find_packed(places, key)] = seconds
    lo, hi = as_boxes(relay.points[by_id])
    columns = [
        by_id,
        strings(relay.ids),
        pa.array(ttl, pa.float64(), mask=np.isnan(ttl)),
        relay.link[by_id],
        relay.doubtful[by_id],
        *relay.forwarded[by_id].T,
        *lo.T,
        *hi.T,
    ]
    write_table(draft, subscriptions_at(name), subscription_schema(state.config), columns)
    queues = {}
    for i, link in enumerate(relay.links):
        box = state.outboxes[link]
        values = rows.matrix(box.chunk.values)
        write_table(draft, _at(name, f"queue{i}"), queue_schema(state.config), box.chunk._replace(values=values))
        numbers = {"epoch": box.epoch, "stale": box.stale, "first": box.first, "marked": box.marked}
        queues[link] = {**numbers, "messages": box.chunk.size}
    return {
        "seq": state.seq,
        "config": config_fields(state.config),
        "subscriptions": len(by_id),
        "queues": queues,
        "received": {link: inbox._asdict() for link, inbox in state.inboxes.items()},
    }


def read_state(folder: Folder, name: str, about: dict[str, Any]) -> State:
    """Read a relay's part of a snapshot; `about` is its entry in the manifest. Raises `Damaged`."""
    config, place = config_of(about["config"]), subscriptions_at(name)
    table = read_table(folder, place, subscription_schema(config))
    by_age = _by_age(folder, place, table, about)
    links = tuple(sorted(config.links))
    neighbours = links or (UPSTREAM,)
    relay = RelayState(
        links,
        Packed(*joined(table["id"]), table["row"].to_numpy().copy()),
        _points(config, table, by_age),
        table["link"].to_numpy()[by_age],
        _stacked(table, [f"forwarded{i}" for i in range(len(neighbours))], by_age),
        table["doubtful"].to_numpy()[by_age],
    )
    limited = table.filter(table["ttl"].is_valid())
    return State(
        config,
        about["seq"],
        relay,
        dict(zip(limited["id"].to_pylist(), limited["ttl"].to_pylist(), strict=True)),
        {link: _queue(folder, config, _at(name, f"queue{i}"), about["queues"][link]) for i, link in enumerate(links)},
        {link: _inbox(**about["received"][link]) for link in links},
    )


def read_boxes(folder: Folder, name: str, about: dict[str, Any]) -> tuple[Float64, Int32]:
    """The subscriptions of a snapshot in order of creation: their points, and the numbers of the links that they came
    over. No other columns are read. Raises `Damaged`."""
    config, place = config_of(about["config"]), subscriptions_at(name)
    schema = subscription_schema(config)
    needed = [field for field in schema if field.name in {"row", "link", *_ends(config)}]
    table = read_table(folder, place, pa.schema(needed), only=True)
    by_age = _by_age(folder, place, table, about)
    return _points(config, table, by_age), table["link"].to_numpy()[by_age]


def subscriptions_at(name: str) -> str:
    """The path in a snapshot of the subscriptions of a relay."""
    return _at(name, "subscriptions")


def _ends(config: RelayConfig) -> list[str]:
    return [f"{end}{j}" for end in ("lo", "hi") for j in range(len(config.attributes))]


def _by_age(folder: Folder, place: str, table: pa.Table, about: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The places of subscriptions in order of creation. Raises `Damaged`."""
    rows = table["row"].to_numpy()
    by_age = np.argsort(rows)
    if not np.array_equal(rows[by_age], np.arange(about["subscriptions"])):
        raise Damaged(f"{folder}/{place} holds other rows than its manifest says")
    return by_age


def _stacked(table: pa.Table, names: list[str], by_age: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = np.column_stack([table[key].to_numpy() for key in names])[by_age]
    return found


def _points(config: RelayConfig, table: pa.Table, by_age: np.ndarray[Any, Any]) -> Float64:
    d, ends = len(config.attributes), _ends(config)
    return as_points(*(_stacked(table, names, by_age) for names in (ends[:d], ends[d:])))


def _queue(folder: Folder, config: RelayConfig, place: str, about: dict[str, Any]) -> OutboxState:
    table = read_table(folder, place, queue_schema(config))
    if len(table) != about["messages"]:
        raise Damaged(f"{folder}/{place} holds other messages than its manifest says")
    columns = {name: rows.one_array(table[name]) for name in ("key", "payload", "mark_epoch")}
    numbers = {name: table[name].to_numpy() for name in ("op", "mark", "follow")}
    values = rows.matrix_of(table, "values")
    chunk = Chunk(values=values, **columns, **numbers)
    return OutboxState(about["epoch"], about["stale"], about["first"], about["marked"], chunk)


def _inbox(epoch: str | None, next: int, past: list[str], left: int, heard: list[list[Any]]) -> Inbox:
    return Inbox(epoch, next, tuple(past), left, tuple((epoch, n) for epoch, n in heard))


def _at(name: str, part: str) -> str:
    return f"{RESOURCE}{name}/{part}.parquet"
