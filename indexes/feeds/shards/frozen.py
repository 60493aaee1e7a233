"""A shard as arrays and a few numbers, and back: a version of a partition's state.

Nothing is rebuilt: the arrays are the shard's own, and a shard over them continues where the other one stopped. They
may be mapped from a file, as long as they are writable. Only the code that froze a shard may thaw it, since the layout
is that of memory; the service's snapshots outlive versions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.feeds.config import FeedConfig
from indexes.feeds.kernels.arena import Arena
from indexes.feeds.kernels.buffers import new_evaluation
from indexes.feeds.kernels.cells import Cells
from indexes.feeds.kernels.owners import Owners
from indexes.feeds.kernels.postings import Postings
from indexes.feeds.kernels.scratch import TURN
from indexes.feeds.kernels.subscriptions import WITHIN, Subscribers, within
from indexes.feeds.kernels.weights import CountEpochs, SpanEpochs
from indexes.feeds.kernels.window import Window
from indexes.feeds.shards.shard import FeedShard
from indexes.feeds.subscription_index import OrderedIndex
from indexes.feeds.theta import Limits

Arrays = dict[str, NDArray[Any]]


class Frozen(NamedTuple):
    """Values for JSON, and arrays by name."""

    about: dict[str, Any]
    arrays: Arrays


def freeze(shard: FeedShard) -> Frozen:
    """The shard's own memory, which changes with it. O(runs given back)."""
    arrays: Arrays = {}
    _lay(arrays, "window", shard.window)
    _lay(arrays, "table", shard.table.arrays)
    for name in WITHIN:
        del arrays[f"table.{name}"]  # the memory of table.row
    _lay(arrays, "owners", shard.parts[0].owners)
    _lay(arrays, "limits", shard.buffering.limits)
    index = shard.subscription_index
    if isinstance(index, OrderedIndex):
        _lay(arrays, "cells", index.cells)
        _lay(arrays, "ordered", index.arrays)
    for name, arena in _arenas(shard).items():
        lengths = [length for length, free in arena._free.items() for _ in free]
        arrays[f"free.{name}"] = np.array([lengths, [at for free in arena._free.values() for at in free]], np.int64)
    arrays["epoch.df"] = shard._epoch_df
    epochs = shard._epochs
    config = shard.config
    about = {
        "config": [list(config.bounds), config.posts, config.span, config.tfidf, config.buffer],
        "given": shard.given,
        "now": shard.now,
        "numbers": shard.numbers.count,
        "unknown": shard._unknown,
        "most_k": shard._most_k,
        "turn": int(shard.scratch.size[TURN]),
        "begun": shard.epochs,
        "epoch": shard._epoch_posts,
        "worn": shard._churned,
        "epochs": [epochs.last] if isinstance(epochs, CountEpochs) else [epochs.last, epochs.expired, epochs.last_at],
        "kinds": list(shard.buffering._kind.items()),
        "count": [shard.table.count, shard.table.terms],
        "ends": {name: arena.end for name, arena in _arenas(shard).items()},
        "built": index.built if isinstance(index, OrderedIndex) else 0,
    }
    return Frozen(about, arrays)


def thaw(frozen: Frozen) -> FeedShard:
    """A shard over these arrays, which it changes. O(runs given back)."""
    about, arrays = frozen
    bounds, posts, span, tfidf, buffer = about["config"]
    x0, y0, x1, y1 = bounds
    shard = FeedShard(FeedConfig((x0, y0, x1, y1), posts, span, tfidf, buffer), about["given"])
    shard.now, shard.numbers.count, shard.epochs = about["now"], about["numbers"], about["begun"]
    shard._unknown = about["unknown"]
    shard._epoch_posts, shard._epoch_df = about["epoch"], arrays["epoch.df"]
    shard._churned = about["worn"]
    shard.window = Window(*_taken(arrays, "window", Window._fields))
    row = arrays["table.row"]
    columns = {name: arrays[f"table.{name}"] for name in Subscribers._fields if name not in WITHIN}
    shard.table.arrays = Subscribers(**within(row), **columns)
    shard.table.count, shard.table.terms = about["count"]
    for name, arena in _arenas(shard).items():
        arena.end = about["ends"][name]
        for length, at in arrays[f"free.{name}"].T.tolist():
            arena._free.setdefault(length, []).append(at)
    (part,) = shard.parts
    part.owners = Owners(*_taken(arrays, "owners", Owners._fields))
    shard.buffering.limits = Limits(*_taken(arrays, "limits", Limits._fields))
    shard.buffering._kind.update(dict(about["kinds"]))
    shard._allow(np.array([about["most_k"]]))
    index = shard.subscription_index
    if isinstance(index, OrderedIndex):
        index.cells = Cells(*_taken(arrays, "cells", Cells._fields))
        index.arrays = Postings(*_taken(arrays, "ordered", Postings._fields))
        index.built = about["built"]
    epochs = shard._epochs
    if isinstance(epochs, SpanEpochs):
        epochs.last, epochs.expired, epochs.last_at = about["epochs"]
    else:
        (epochs.last,) = about["epochs"]
    part.scratch.size[TURN] = part.scratch.turn[0] = about["turn"]
    part.evaluation = new_evaluation(max(64, len(shard.window.x)), shard._most_k)
    return shard


def _arenas(shard: FeedShard) -> dict[str, Arena]:
    table = shard.table
    return {"slots": table._slots, "terms": table._terms, "entries": table._entries}


def _lay(arrays: Arrays, name: str, tuple_: Any) -> None:
    arrays.update({f"{name}.{field}": getattr(tuple_, field) for field in tuple_._fields})


def _taken(arrays: Arrays, name: str, fields: tuple[str, ...]) -> list[NDArray[Any]]:
    return [arrays[f"{name}.{field}"] for field in fields]
