"""What the tasks of `spark_jobs.matchers` do: lay out parts of a matcher's indexes; and how the parts are joined.

A part is a folder of a random name, written and checked as an image is. Its task reports the name when it has ended,
and only reported ones are used: a task that is run twice leaves one folder more, which goes with the run's.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from formats.folder import Damaged, Folder
from formats.matchers import config_of, read_dimension, read_state
from formats.parts import read_image, write_image
from indexes.matchers.layout import WHOLE, Indexes, build_part, join_parts, parts_of
from indexes.matchers.model import MatcherConfig
from indexes.matchers.packing import pack_indexes, unpack_indexes
from indexes.matchers.table import record

Batches = Iterator[pa.RecordBatch]

SPARK_PARTS = "number long, name string"


def lay_out(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Lay out the parts whose numbers come in, places among `parts_of`, of a matcher that the manifest says `about`."""
    config = config_of(about["config"])
    for batch in batches:
        for number in batch["id"].to_pylist():
            indexes = lay_out_part(Folder(system, snapshot), name, about, parts_of(config)[number])
            folder = Folder(system, f"{pieces}/{uuid.uuid4().hex}")
            try:
                write_image(folder, f"part {number}", 0, pack_indexes(indexes))
            except OSError as error:
                raise OSError(f"{folder} cannot be written: {error.strerror or error}") from error
            told = folder.path.rpartition("/")[2]
            yield pa.record_batch({"number": pa.array([number], pa.int64()), "name": pa.array([told])})


def lay_out_part(snapshot: Folder, name: str, about: dict[str, Any], part: int) -> Indexes:
    """A part of the indexes of a matcher in a snapshot. Reads the columns that it needs."""
    if part == WHOLE:
        found = read_state(snapshot, name, about).subscriptions
    else:
        found = read_dimension(snapshot, name, about, part)
    rows = np.arange(len(found.lo), dtype=np.int32)
    return build_part(config_of(about["config"]), part, record(*found), rows)


def join(config: MatcherConfig, parts: Sequence[Folder]) -> Indexes:
    """The indexes of parts in the order of `parts_of`. Raises `Damaged`."""
    found = []
    for folder in parts:
        packed = read_image(folder)
        if packed is None:
            raise Damaged(f"{folder} was laid out by another version of the code")
        found.append(unpack_indexes(packed))
    return join_parts(config, found)
