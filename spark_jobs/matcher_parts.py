"""What the tasks of `spark_jobs.matchers` do: lay out parts of a matcher's indexes; and how the parts are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyarrow import fs

from formats.folder import Folder
from formats.matchers import config_of, read_dimension, read_state
from indexes.matchers.layout import WHOLE, Indexes, build_part, join_parts, parts_of
from indexes.matchers.model import MatcherConfig
from indexes.matchers.packing import PackedMatcher, pack_indexes, unpack_indexes
from indexes.matchers.table import record
from spark_jobs.parts import Batches, read_part, write_parts


def lay_out(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Lay out the parts whose numbers come in, places among `parts_of`, of a matcher that the manifest says `about`."""
    config, source = config_of(about["config"]), Folder(system, snapshot)

    def laid_out(number: int) -> PackedMatcher:
        return pack_indexes(lay_out_part(source, name, about, parts_of(config)[number]))

    yield from write_parts(batches, Folder(system, pieces), laid_out)


def lay_out_part(snapshot: Folder, name: str, about: dict[str, Any], part: int) -> Indexes:
    """A part of the indexes of a matcher in a snapshot. Reads the columns that it needs."""
    if part == WHOLE:
        found = read_state(snapshot, name, about).subscriptions
    else:
        found = read_dimension(snapshot, name, about, part)
    rows = np.arange(len(found.lo), dtype=np.int32)
    return build_part(config_of(about["config"]), part, record(*found), rows)


def join(config: MatcherConfig, parts: Sequence[Folder]) -> Indexes:
    """The indexes of parts in the order of `parts_of`. Raises `Damaged`."""
    return join_parts(config, [unpack_indexes(read_part(folder)) for folder in parts])
