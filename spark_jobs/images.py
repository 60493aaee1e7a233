"""Where a job that rebuilds writes: the image of a resource, and beside it the folder for what its tasks leave.

A run that was killed leaves nothing that counts, and the next one takes away what it left.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from formats.folder import Damaged, Folder
from spark_jobs.command import Failed

_PIECES = "~pieces-"
"""Between the name of a resource and a run's random one: no name of a resource has a ~."""


def pieces_of(images: Folder, resource: str) -> Folder:
    """A folder for the pieces of a run; nobody else has its name."""
    return images / f"{resource}{_PIECES}{uuid.uuid4().hex[:12]}"


def make_room(images: Folder, resource: str, pieces: Folder) -> None:
    """Take away the image that is there and the pieces of runs that were killed, and make the folder for new ones."""
    (images / resource).delete()
    kind, _, name = resource.partition("/")
    for other in (images / kind).names():
        if other.startswith(f"{name}{_PIECES}"):
            (images / kind / other).delete()
    pieces.system.create_dir(pieces.path, recursive=True)


@contextmanager
def storing(image: Folder) -> Iterator[None]:
    """What goes wrong with the storage, in one sentence."""
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            image.delete()
        raise Failed(f"the image in {image} cannot be written: {error.strerror or error}") from error
    except Damaged as error:
        raise Failed(f"{error}; every worker has to reach the storage, and no other run may be at it") from error
