"""The image that a history is replayed against, and the folder for the result: part-00000.parquet, ..., and at the
end _SUCCESS, which describes it.

A run that was killed leaves no _SUCCESS, and the next one deletes its parts.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pyarrow import fs

from formats.folder import Damaged, Folder
from formats.parts import read_image, write_image
from spark_jobs.common.command import Failed, Order, Place
from spark_jobs.common.parts import Packed
from spark_jobs.common.progress import Progress

OUTPUT = Place("output", "the folder for the result, which must not hold anything yet: a local path or a URL")

DONE = "_SUCCESS"
_PARTS = "_parts-"
"""Folders that tasks write to, below the output; with random names, since tasks may outlive a driver."""


def make_room(output: Folder) -> Folder:
    """Delete the parts of runs that were killed, and create a folder for new ones. Raises `Failed` if the output holds
    anything else."""
    if output.system.get_file_info(output.path).type == fs.FileType.File:
        raise Failed(f"--output is {output}, which is a file")
    names = output.names()
    others = [name for name in names if not name.startswith(_PARTS)]
    if others:
        raise Failed(f"--output is {output}, which holds {others[0]} already")
    for name in names:
        (output / name).delete()
    parts = output / f"{_PARTS}{uuid.uuid4().hex[:12]}"
    parts.system.create_dir(parts.path, recursive=True)
    return parts


def publish(output: Folder, parts: Folder, names: Sequence[str], fields: dict[str, Any]) -> None:
    """Move the named parts into place, in order, and write _SUCCESS."""
    for number, name in enumerate(names):
        output.system.move(f"{parts.path}/{name}", f"{output.path}/part-{number:05}.parquet")
    with output.system.open_output_stream(f"{output.path}/{DONE}") as out:
        out.write(json.dumps(fields).encode() + b"\n")


@contextmanager
def writing(folder: Folder) -> Iterator[None]:
    """Turn errors of writing to a folder into `Failed`, with one sentence."""
    try:
        yield
    except OSError as error:
        raise Failed(f"{folder} cannot be written: {error.strerror or error}") from error


def image_of(order: Order, parts: Folder, progress: Progress, pack: Callable[[], Packed]) -> Folder:
    """An image of the resource at this lsn: an existing one, or one that is written among the parts."""
    image = order.folder("images") / order.resource
    if image.whole:
        with suppress(Damaged):
            if read_image(image) is not None and image.manifest()["lsn"] == order.lsn:
                return image
    progress.step(0.05, "laying out the indexes")
    own = parts / "image"
    packed = pack()
    with writing(own):
        write_image(own, order.resource, order.lsn, packed)
    return own
