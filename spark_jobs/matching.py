"""The worker's half of `spark_jobs.match_history`: the winners of some events of a file.

A worker takes the matcher up once, as the service does at its start, and asks it for all events that it is given. The
files that it is taken up from are the same for all workers; those on one machine share the memory of the indexes.
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
from spark_jobs.events import read_events
from spark_jobs.slices import Slice, read

WINNERS = "winners"
"""The column of the result that the events do not have."""

SPARK_MATCHED = "number long, name string, events long, winners long"

Place = tuple[fs.FileSystem, str]
"""A folder as a task takes it: tasks are unpickled before our classes can be imported."""


class Taken(NamedTuple):
    """A matcher to ask, and the ids of its rows."""

    matcher: Matcher
    ids: pa.LargeStringArray


_taken: dict[str, Taken] = {}
"""What this worker has taken up, by the place of the image: one at most."""


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
) -> Iterator[pa.RecordBatch]:
    """Write a Parquet file of a random name for each of the slices whose numbers come in: its events with the winners
    of each, best first."""
    system, folder = output
    dimensions = config_of(about["config"]).dimensions
    for batch in batches:
        for number in batch["id"].to_pylist():
            taken = take_up(snapshot, name, about, image)
            path, *_, first = slices[number]
            table = read(events, slices[number])
            won = winners(taken, read_events(path, table, dimensions, first), k)
            written = f"{uuid.uuid4().hex}.parquet"
            with system.open_output_stream(f"{folder}/{written}") as out:
                pq.write_table(table.append_column(WINNERS, won), out, compression="zstd")
            counts = {"events": [len(table)], "winners": [len(won.values)]}
            yield pa.record_batch({"number": [number], "name": [written], **counts})


def take_up(snapshot: Place, name: str, about: dict[str, Any], image: Place) -> Taken:
    """The matcher of a snapshot, whose manifest says `about` it, over its image; once in a process. O(d n)."""
    key = image[1]
    if key not in _taken:
        _taken.clear()
        try:
            state, packed = read_state(Folder(*snapshot), name, about), read_image(Folder(*image))
        except Damaged as error:
            raise ValueError(str(error)) from error
        if packed is None:
            raise ValueError(f"{image[1]} was laid out by another version of the code")
        ids = strings(state.ids).take(pa.array(np.argsort(state.ids.row)))
        _taken[key] = Taken(matcher_of(state, unpack_indexes(packed), to_change=False), ids)
    return _taken[key]


def winners(taken: Taken, events: np.ndarray[Any, Any], k: int) -> pa.ListArray:
    """The k best subscriptions for each event, best first: lists of their ids and scores."""
    found = taken.matcher.match(events, k)
    there = np.arange(k) < found.found[:, None]
    ids = taken.ids.take(pa.array(found.rows[there])).cast(pa.string())
    each = pa.StructArray.from_arrays([ids, pa.array(found.scores[there])], ["id", "score"])
    return pa.ListArray.from_arrays(np.append(0, np.cumsum(found.found)).astype(np.int32), each)
