"""Tasks of `spark_jobs.rebuild.relays`: pack parts of a relay's indexes."""

from __future__ import annotations

from typing import Any

from pyarrow import fs

from formats.folder import Folder
from formats.relays import config_of, read_boxes
from indexes.relays.layout import lay_out_part, parts_of
from indexes.relays.packing import PackedRelay
from spark_jobs.common.parts import Batches, write_parts


def pack(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Write the parts with the numbers in `batches`, indexes in `parts_of`; `about` is the relay's manifest entry."""
    config, source = config_of(about["config"]), Folder(system, snapshot)

    def packed(number: int) -> PackedRelay:
        return lay_out_part(config, parts_of(config)[number], *read_boxes(source, name, about))

    yield from write_parts(batches, Folder(system, pieces), packed)
