"""Tasks of `spark_jobs.rebuild.matchers`: pack and join parts of a matcher's indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyarrow import fs

from formats.folder import Folder
from formats.matchers import config_of, read_dimension, read_state
from indexes.matchers.config import MatcherConfig
from indexes.matchers.kernels.table import record
from indexes.matchers.layout import WHOLE, Indexes, build_part, join_parts, parts_of
from indexes.matchers.packing import PackedMatcher, pack_indexes, unpack_indexes
from spark_jobs.common.parts import Batches, read_part, write_parts


def pack(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Write the parts with the numbers in `batches`, indexes in `parts_of`; `about` is the matcher's manifest entry."""
    config, source = config_of(about["config"]), Folder(system, snapshot)

    def packed(number: int) -> PackedMatcher:
        return pack_indexes(part_of(source, name, about, parts_of(config)[number]))

    yield from write_parts(batches, Folder(system, pieces), packed)


def part_of(snapshot: Folder, name: str, about: dict[str, Any], part: int) -> Indexes:
    """A part of the indexes of a matcher in a snapshot, from the columns that it needs."""
    if part == WHOLE:
        found = read_state(snapshot, name, about).subscriptions
    else:
        found = read_dimension(snapshot, name, about, part)
    rows = np.arange(len(found.lo), dtype=np.int32)
    return build_part(config_of(about["config"]), part, record(*found), rows)


def join(config: MatcherConfig, parts: Sequence[Folder]) -> Indexes:
    """Join parts in the order of `parts_of` to indexes. Raises `Damaged`."""
    return join_parts(config, [unpack_indexes(read_part(folder)) for folder in parts])
