"""Tasks of `spark_jobs.history.trajectories`: the changes of the answers of some clients.

A worker loads the map once, over the memory of its image, which the workers of a machine share.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from formats.folder import Damaged, Folder
from formats.map_fields import config_of, question_of
from formats.maps import read_names
from formats.parts import read_image
from indexes.maps.config import MapConfig, Question, Skyline
from indexes.maps.object_index import PlaceIndex
from indexes.maps.packing import unpack_index
from indexes.maps.paths import Change, Follower, SkylineWalk, TopWalk
from indexes.maps.questions import scoring_of

SPARK_WALKED = "number int, name string, clients long, points long, changes long, searches long"

ENTRIES = 1 << 18
"""Objects of answers that a task buffers."""

Place = tuple[fs.FileSystem, str]
"""A folder as an argument of tasks, which are unpickled before the project's classes can be imported."""


class Loaded(NamedTuple):
    """A map, and the ids of its slots."""

    config: MapConfig
    objects: PlaceIndex
    ids: pa.LargeStringArray


def result_schema(kinds: tuple[pa.DataType, pa.DataType], scored: bool) -> pa.Schema:
    """The columns of the result, with these types of `client` and `t`."""
    member = [pa.field("id", pa.string()), pa.field("distance", pa.float64())]
    member += [pa.field("score", pa.float64())] if scored else []
    columns = {"client": kinds[0], "t": kinds[1], "x": pa.float64(), "y": pa.float64(), "change": pa.string()}
    return pa.schema({**columns, "answer": pa.list_(pa.struct(member))})


def walk_of(loaded: Loaded, question: Question) -> TopWalk | SkylineWalk:
    """The walk that answers a question along paths."""
    config, index = loaded.config, loaded.objects
    if isinstance(question, Skyline):
        return SkylineWalk(index, np.array(config.bounds), config.metric)
    n = max(1, len(index))
    scoring = scoring_of(config, question.score)
    return TopWalk(index, min(question.k, n), min(question.m, n), scoring, question.ordered)


class Writer:
    """A Parquet file of a random name with the changes of some clients."""

    def __init__(self, output: Place, ids: pa.LargeStringArray, schema: pa.Schema) -> None:
        self.name, self.changes = f"{uuid.uuid4().hex}.parquet", 0
        self._ids, self._schema = ids, schema
        self._out = output[0].open_output_stream(f"{output[1]}/{self.name}")
        self._file = pq.ParquetWriter(self._out, schema, compression="zstd")
        self._rows: list[pa.RecordBatch] = []
        self._found: list[Change] = []
        self._held = 0

    def write(self, rows: pa.RecordBatch, found: list[Change]) -> None:
        """Buffer changes at places of these rows."""
        self._rows.append(rows.take(pa.array([change.at for change in found], pa.int64())))
        self._found += found
        self._held += sum(len(change.members.slots) for change in found)
        if self._held >= ENTRIES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()
        self._out.close()

    def _flush(self) -> None:
        if not self._found:
            return
        found, rows = self._found, pa.Table.from_batches(self._rows)
        columns = [rows[field.name].cast(field.type) for field in self._schema if field.name in rows.schema.names]
        kinds = pa.array([change.kind for change in found])
        self._file.write_table(pa.table([*columns, kinds, self._answers()], schema=self._schema))
        self.changes += len(found)
        self._rows, self._found, self._held = [], [], 0

    def _answers(self) -> pa.ListArray:
        members = [change.members for change in self._found]
        ends = np.cumsum([0, *(len(some.slots) for some in members)]).astype(np.int32)
        slots, far = (np.concatenate([some[i] for some in members]) for i in (0, 1))
        fields = {"id": self._ids.take(pa.array(slots)).cast(pa.string()), "distance": pa.array(far)}
        scores = [some.scores for some in members if some.scores is not None]
        if scores:
            numbers = np.concatenate(scores)
            fields["score"] = pa.array(numbers, mask=~np.isfinite(numbers))
        return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(list(fields.values()), list(fields)))


def follow(
    batches: Iterator[pa.RecordBatch],
    snapshot: Place,
    name: str,
    about: dict[str, Any],
    image: Place,
    question: dict[str, Any],
    kinds: tuple[pa.DataType, pa.DataType],
    output: Place,
) -> Iterator[pa.RecordBatch]:
    """Write the changes of clients to a file; `batches` have their rows in order of client, t and row."""
    writer: Writer | None = None
    clients = points = 0
    last: Any = None
    for batch in batches:
        if not len(batch):
            continue
        if writer is None:
            number, loaded = batch["part"][0].as_py(), load(snapshot, name, about, image)
            asked = question_of(question)
            walk = walk_of(loaded, asked)
            follower = Follower(walk)
            writer = Writer(output, loaded.ids, result_schema(kinds, not isinstance(asked, Skyline)))
        points += len(batch)
        # Kernels are compiled for writable arrays.
        x, y = (batch[column].to_numpy().copy() for column in ("x", "y"))
        found: list[Change] = []
        for client, first, end in runs(batch["client"]):
            if clients == 0 or client != last:
                follower.begin()
                clients, last = clients + 1, client
            found += (change._replace(at=first + change.at) for change in follower.along(x[first:end], y[first:end]))
        writer.write(batch, found)
    if writer is not None:
        writer.close()
        counts = {"clients": clients, "points": points, "changes": writer.changes, "searches": walk.searches}
        columns = {"number": pa.array([number], pa.int32()), "name": [writer.name]}
        yield pa.record_batch({**columns, **{key: [value] for key, value in counts.items()}})


def runs(column: pa.Array) -> Iterator[tuple[Any, int, int]]:
    """Runs of equal values: the value, the first and the end of each."""
    codes = column.dictionary_encode()
    which = codes.indices.to_numpy()
    firsts = np.flatnonzero(np.append(True, which[1:] != which[:-1])).tolist()
    for first, end in zip(firsts, [*firsts[1:], len(which)], strict=True):
        yield column[first].as_py(), first, end


_loaded: dict[str, Loaded] = {}
"""What this worker has loaded, by the path of the image: at most one."""


def load(snapshot: Place, name: str, about: dict[str, Any], image: Place) -> Loaded:
    """Load the map of a snapshot, with this entry in the manifest, over its image; once a process."""
    key = image[1]
    if key not in _loaded:
        _loaded.clear()
        try:
            packed = read_image(Folder(*image))
            ids, created = read_names(Folder(*snapshot), name, about)
        except Damaged as error:
            raise ValueError(str(error)) from error
        if packed is None:
            raise ValueError(f"{image[1]} was laid out by another version of the code")
        index = PlaceIndex(unpack_index(packed), created, len(created))
        _loaded[key] = Loaded(config_of(about["config"]), index, ids)
    return _loaded[key]
