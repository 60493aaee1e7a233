"""What the tasks of `spark_jobs.relays` do: lay out parts of a relay's indexes."""

from __future__ import annotations

from typing import Any

from pyarrow import fs

from formats.folder import Folder
from formats.relays import config_of, read_boxes
from indexes.relays.layout import lay_out_part, parts_of
from indexes.relays.packing import PackedRelay
from spark_jobs.parts import Batches, write_parts


def lay_out(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Lay out the parts whose numbers come in, places among `parts_of`, of a relay that the manifest says `about`."""
    config, source = config_of(about["config"]), Folder(system, snapshot)

    def laid_out(number: int) -> PackedRelay:
        return lay_out_part(config, parts_of(config)[number], *read_boxes(source, name, about))

    yield from write_parts(batches, Folder(system, pieces), laid_out)
