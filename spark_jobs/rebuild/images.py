"""The folders that a rebuild writes: the image of a resource, and a folder for the pieces that its tasks write.

A run that was killed leaves no valid image, and the next one deletes its pieces.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from formats.folder import Damaged, Folder
from spark_jobs.common.command import Failed

_PIECES = "~pieces-"
"""Between the name of a resource and a random one of the run; names of resources have no ~."""


def pieces_of(images: Folder, resource: str) -> Folder:
    """A folder for the pieces of a run, with a unique name."""
    return images / f"{resource}{_PIECES}{uuid.uuid4().hex[:12]}"


def make_room(images: Folder, resource: str, pieces: Folder) -> None:
    """Delete an existing image and the pieces of runs that were killed, and create the folder for new pieces."""
    (images / resource).delete()
    kind, _, name = resource.partition("/")
    for other in (images / kind).names():
        if other.startswith(f"{name}{_PIECES}"):
            (images / kind / other).delete()
    pieces.system.create_dir(pieces.path, recursive=True)


@contextmanager
def storing(image: Folder) -> Iterator[None]:
    """Turn errors of the storage into `Failed`, with one sentence."""
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            image.delete()
        raise Failed(f"the image in {image} cannot be written: {error.strerror or error}") from error
    except Damaged as error:
        raise Failed(f"{error}; every worker has to reach the storage, and no other run may be at it") from error
