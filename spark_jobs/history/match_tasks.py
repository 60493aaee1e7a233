"""Tasks of `spark_jobs.history.match`: the winners of some events of a file.

A worker loads the matcher once, as the service does at its start, and matches all its events against it. The workers of
one machine share the memory of the indexes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from formats.columns import strings
from formats.folder import Damaged, Folder
from formats.matchers import config_of, read_state
from formats.parts import read_image
from indexes.matchers.matcher import Matcher
from indexes.matchers.packing import unpack_indexes
from indexes.matchers.state import matcher_of
from spark_jobs.history.events import read_events
from spark_jobs.history.slices import Slice, read

WINNERS = "winners"
"""The column that is added to the events."""

SPARK_MATCHED = "number long, name string, events long, winners long"

Place = tuple[fs.FileSystem, str]
"""A folder as an argument of tasks, which are unpickled before the project's classes can be imported."""


class Loaded(NamedTuple):
    """A matcher, and the ids of its rows."""

    matcher: Matcher
    ids: pa.LargeStringArray


_loaded: dict[str, Loaded] = {}
"""What this worker has loaded, by the path of the image: at most one."""


def match_slices(
    batches: Iterator[pa.RecordBatch],
    snapshot: Place,
    name: str,
    about: dict[str, Any],
    image: Place,
    events: fs.FileSystem,
    slices: list[Slice],
    output: Place,
    k: int,
) -> Iterator[pa.RecordBatch]:  # nine arguments, since those of a task are plain values
    """Write a Parquet file of a random name for each of the slices with the numbers in `batches`: its events with the
    winners of each, best first."""
    system, folder = output
    dimensions = config_of(about["config"]).dimensions
    for batch in batches:
        for number in batch["id"].to_pylist():
            loaded = load(snapshot, name, about, image)
            path, *_, first = slices[number]
            table = read(events, slices[number])
            won = winners(loaded, read_events(path, table, dimensions, first), k)
            written = f"{uuid.uuid4().hex}.parquet"
            with system.open_output_stream(f"{folder}/{written}") as out:
                pq.write_table(table.append_column(WINNERS, won), out, compression="zstd")
            counts = {"events": [len(table)], "winners": [len(won.values)]}
            yield pa.record_batch({"number": [number], "name": [written], **counts})


def load(snapshot: Place, name: str, about: dict[str, Any], image: Place) -> Loaded:
    """Load the matcher of a snapshot, with this entry in the manifest, over its image; once a process. O(d n)."""
    key = image[1]
    if key not in _loaded:
        _loaded.clear()
        try:
            state, packed = read_state(Folder(*snapshot), name, about), read_image(Folder(*image))
        except Damaged as error:
            raise ValueError(str(error)) from error
        if packed is None:
            raise ValueError(f"{image[1]} was laid out by another version of the code")
        ids = strings(state.ids).take(pa.array(np.argsort(state.ids.row)))
        _loaded[key] = Loaded(matcher_of(state, unpack_indexes(packed), to_change=False), ids)
    return _loaded[key]


def winners(loaded: Loaded, events: np.ndarray[Any, Any], k: int) -> pa.ListArray:
    """The k best subscriptions for each event, best first: lists of their ids and scores."""
    found = loaded.matcher.match(events, k)
    there = np.arange(k) < found.found[:, None]
    ids = loaded.ids.take(pa.array(found.rows[there])).cast(pa.string())
    each = pa.StructArray.from_arrays([ids, pa.array(found.scores[there])], ["id", "score"])
    return pa.ListArray.from_arrays(np.append(0, np.cumsum(found.found)).astype(np.int32), each)
