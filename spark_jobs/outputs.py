"""What jobs share that ask a snapshot about rows that users bring: the image, and the folder for the result, which ends
up with part-00000.parquet, ..., and last _SUCCESS, which says what it is.

A run that was killed leaves no _SUCCESS, and the next one takes away what it left.
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
from spark_jobs.command import Failed, Order, Place
from spark_jobs.parts import Packed
from spark_jobs.progress import Progress
from spark_jobs.session import SparkFailed

OUTPUT = Place("output", "the folder for the result, which must not hold anything yet: a local path or a URL")

DONE = "_SUCCESS"
_PARTS = "_parts-"
"""What the tasks write to, below the output; with a random name, since those of a driver that was killed live on."""


def make_room(output: Folder) -> Folder:
    """Take away what runs that were killed have left, and make a folder for parts. Raises `Failed` where there is
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
    """Move the named parts to where they belong, in order, and say what the result is."""
    for number, name in enumerate(names):
        output.system.move(f"{parts.path}/{name}", f"{output.path}/part-{number:05}.parquet")
    with output.system.open_output_stream(f"{output.path}/{DONE}") as out:
        out.write(json.dumps(fields).encode() + b"\n")


@contextmanager
def writing(folder: Folder) -> Iterator[None]:
    """What goes wrong with writing there, in one sentence."""
    try:
        yield
    except OSError as error:
        raise Failed(f"{folder} cannot be written: {error.strerror or error}") from error


def image_of(order: Order, parts: Folder, progress: Progress, lay_out: Callable[[], Packed]) -> Folder:
    """An image of the resource at that very row: the one that is there, or one among the parts."""
    image = order.folder("images") / order.resource
    if image.whole:
        with suppress(Damaged):
            if read_image(image) is not None and image.manifest()["lsn"] == order.lsn:
                return image
    progress.step(0.05, "laying out the indexes")
    own = parts / "image"
    packed = lay_out()
    with writing(own):
        write_image(own, order.resource, order.lsn, packed)
    return own


@contextmanager
def telling(kind: type[Exception]) -> Iterator[None]:
    """A row that cannot be is the user's to mend: say what a worker said with an error of this kind, and nothing of
    Spark."""
    try:
        yield
    except SparkFailed as failed:
        _, found, reason = str(failed).partition(f"{kind.__name__}: ")
        if found:
            raise Failed(reason) from failed
        raise
