"""A matcher on disk: its part of a snapshot, a Parquet file; its image is parts (`formats.parts`).

A snapshot holds what the matcher is (`MatcherState`), in order of id; `docs/operations.md` names the columns. An image
holds its indexes laid out afresh. Room for changes is made when it is taken up, so most of it is copied then.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from formats.columns import joined, read_table, strings, write_table
from formats.folder import Damaged, Draft, Folder
from indexes.core.ids import Packed
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.state import MatcherState

RESOURCE = "matchers/"


def subscription_schema(config: MatcherConfig) -> pa.Schema:
    """The columns of subscriptions: `row` counts by age; `lo<j>`, `hi<j>` are the ends in dimension j, counted from 0,
    and `score` or `weight<j>` the scores."""
    d = len(config.dimensions)
    names = [*score_names(config), *(f"{end}{j}" for end in ("lo", "hi") for j in range(d))]
    return pa.schema(
        [
            pa.field("row", pa.int32(), nullable=False),
            pa.field("id", pa.large_string(), nullable=False),
            pa.field("ttl", pa.float64()),
            *(pa.field(name, pa.float64(), nullable=False) for name in names),
        ]
    )


def score_names(config: MatcherConfig) -> list[str]:
    """The names of the columns of scores."""
    return [f"weight{j}" for j in range(len(config.dimensions))] if config.relaxed else ["score"]


def config_fields(config: MatcherConfig) -> dict[str, Any]:
    """A configuration as a manifest or the log holds it."""
    return asdict(config)


def config_of(fields: dict[str, Any]) -> MatcherConfig:
    """The configuration in a manifest or in the log."""
    return MatcherConfig(**{**fields, "dimensions": tuple(fields["dimensions"])})


def columns_of(subscriptions: Subscriptions) -> list[np.ndarray[Any, Any]]:
    """The columns of scores and ends, in the order of the schema."""
    lo, hi, scores = subscriptions
    return [*scores.T, *lo.T, *hi.T]


def subscriptions_of(config: MatcherConfig, table: pa.Table) -> Subscriptions:
    """The inverse of `columns_of`, from a table with these columns."""
    d = len(config.dimensions)

    def stacked(names: list[str]) -> np.ndarray[Any, Any]:
        return np.column_stack([table[name].to_numpy() for name in names])

    ends = [stacked([f"{end}{j}" for j in range(d)]) for end in ("lo", "hi")]
    return Subscriptions(ends[0], ends[1], stacked(score_names(config)))


def write_state(draft: Draft, name: str, state: MatcherState) -> dict[str, Any]:
    """Write a matcher's part of a snapshot; returns its entry in the manifest."""
    ttl = pa.array(state.ttl, pa.float64(), mask=np.isnan(state.ttl))
    columns = [state.ids.row, strings(state.ids), ttl, *columns_of(state.subscriptions.take(state.ids.row))]
    write_table(draft, subscriptions_at(name), subscription_schema(state.config), columns)
    return {"seq": state.seq, "config": config_fields(state.config), "subscriptions": len(state.ttl)}


def read_state(folder: Folder, name: str, about: dict[str, Any]) -> MatcherState:
    """Read a matcher's part of a snapshot; `about` is its entry in the manifest. Raises `Damaged`."""
    config, place = config_of(about["config"]), subscriptions_at(name)
    table = read_table(folder, place, subscription_schema(config))
    by_age = _by_age(folder, place, table, about)
    return MatcherState(
        config,
        about["seq"],
        Packed(*joined(table["id"]), table["row"].to_numpy().copy()),
        subscriptions_of(config, table).take(by_age),
        table["ttl"].to_numpy(),
    )


def read_dimension(folder: Folder, name: str, about: dict[str, Any], j: int) -> Subscriptions:
    """The subscriptions of a snapshot in dimension j alone, in order of creation: their ends, and their scores or
    weights in that dimension, in columns of shape (n, 1). Raises `Damaged`."""
    config, place = config_of(about["config"]), subscriptions_at(name)
    names = [f"lo{j}", f"hi{j}", f"weight{j}" if config.relaxed else "score"]
    schema = subscription_schema(config)
    table = read_table(folder, place, pa.schema([schema.field(key) for key in ("row", *names)]), only=True)
    by_age = _by_age(folder, place, table, about)
    return Subscriptions(*(table[key].to_numpy()[by_age, None] for key in names))


def subscriptions_at(name: str) -> str:
    """The path in a snapshot of the subscriptions of a matcher."""
    return f"{RESOURCE}{name}/subscriptions.parquet"


def _by_age(folder: Folder, place: str, table: pa.Table, about: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The places of subscriptions in order of creation. Raises `Damaged`."""
    rows, n = table["row"].to_numpy(), about["subscriptions"]
    by_age = np.argsort(rows)
    if not np.array_equal(rows[by_age], np.arange(n)):
        raise Damaged(f"{folder}/{place} holds other rows than its manifest says")
    return by_age
