"""Parts of an image, which tasks write and the driver reads.

A part is a folder of a random name, written and checked as an image is. A task reports the name at its end, and only
reported parts are used: a task that runs twice leaves an unused folder, which is deleted with that of the run.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from formats.folder import Damaged, Folder
from formats.parts import read_image, write_image
from indexes.core.packing import PackedPart

Batches = Iterator[pa.RecordBatch]

Packed = Mapping[str, PackedPart]

SPARK_PARTS = "number long, name string"


def write_parts(batches: Batches, pieces: Folder, lay_out: Callable[[int], Packed]) -> Batches:
    """Write the parts with the numbers in `batches`, each to a folder whose name is reported."""
    for batch in batches:
        for number in batch["id"].to_pylist():
            yield write_part(pieces, number, lay_out(number))


def write_part(pieces: Folder, number: int, packed: Packed) -> pa.RecordBatch:
    """Write a part to a folder of a random name; returns the report of its task."""
    name = uuid.uuid4().hex
    try:
        write_image(pieces / name, f"part {number}", 0, packed)
    except OSError as error:
        raise OSError(f"{pieces / name} cannot be written: {error.strerror or error}") from error
    return pa.record_batch({"number": pa.array([number], pa.int64()), "name": pa.array([name])})


def read_part(folder: Folder) -> dict[str, PackedPart]:
    """Read a part. Raises `Damaged`."""
    packed = read_image(folder)
    if packed is None:
        raise Damaged(f"{folder} was laid out by another version of the code")
    return packed
