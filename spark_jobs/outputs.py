"""The folder that a job writes its result to: part-00000.parquet, ..., and last _SUCCESS, which says what it is.

A run that was killed leaves no _SUCCESS, and the next one takes away what it left.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyarrow import fs

from formats.folder import Folder
from spark_jobs.command import Failed, Place

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
