"""Ids for what came without one."""

from __future__ import annotations

import secrets

import pyarrow as pa
import pyarrow.compute as pc


def named(ids: pa.StringArray) -> pa.StringArray:
    """Ids with made-up ones, random and numbered, in place of nulls."""
    if ids.null_count == 0:
        return ids
    prefix = secrets.token_hex(8)
    names = pa.array([f"s-{prefix}-{n}" for n in range(ids.null_count)], pa.string())
    return pc.replace_with_mask(ids, ids.is_null(), names)
