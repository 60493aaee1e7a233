"""Generated ids."""

from __future__ import annotations

import secrets

import pyarrow as pa
import pyarrow.compute as pc


def named(ids: pa.StringArray, letter: str = "s") -> pa.StringArray:
    """Ids with generated ones in place of nulls: a letter, a random prefix and a number."""
    if ids.null_count == 0:
        return ids
    prefix = secrets.token_hex(8)
    names = pa.array([f"{letter}-{prefix}-{n}" for n in range(ids.null_count)], pa.string())
    return pc.replace_with_mask(ids, ids.is_null(), names)
