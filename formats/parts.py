"""Images of indexes that are parts of arrays and numbers (`indexes.core.packing`): an Arrow file each, and a manifest.

An image is of use only to the very code that laid it out: `LAYOUT` names its sources. Another version builds its own,
which takes seconds for millions of subscriptions.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from formats.columns import read_arrays, write_arrays
from formats.folder import Damaged, Folder
from indexes.core.packing import PackedPart
from indexes.core.sources import sources

LAYOUT = sources(__name__)
"""A hash of all sources that lay out and write indexes."""


def write_image(folder: Folder, resource: str, lsn: int, packed: Mapping[str, PackedPart]) -> int:
    """Write an image; returns its size in bytes."""
    with folder.draft() as draft:
        parts = {}
        for name, part in packed.items():
            write_arrays(draft, f"{name}.arrow", part.arrays)
            parts[name] = {"shapes": part.shapes, "numbers": part.numbers}
        draft.publish({"kind": "image", "lsn": lsn, "resource": resource, "layout": LAYOUT, "parts": parts})
    return draft.bytes


def read_image(folder: Folder) -> dict[str, PackedPart] | None:
    """An image; None where another version wrote it.

    Raises `Damaged` when a file is not what the manifest says, or the folder is no such image.
    """
    about = folder.verify()
    try:
        if about["layout"] != LAYOUT:
            return None
        parts = about["parts"].items()
        return {name: PackedPart(read_arrays(folder, f"{name}.arrow"), **part) for name, part in parts}
    except (LookupError, ValueError, TypeError, AttributeError, OSError, pa.ArrowException) as error:
        raise Damaged(f"{folder} is no image of parts") from error
