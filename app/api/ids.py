"""Generated ids."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc


def named(ids: pa.StringArray, letter: str = "s") -> pa.StringArray:
    """Ids with generated ones in place of nulls: a letter, a random prefix and a number."""
    if ids.null_count == 0:
        return ids
    names = pa.array(list(islice(_generated(letter), ids.null_count)), pa.string())
    return pc.replace_with_mask(ids, ids.is_null(), names)


def named_all(ids: Sequence[str | None], letter: str) -> list[str]:
    """As `named`, for a list."""
    if None not in ids:
        return cast("list[str]", ids)
    names = _generated(letter)
    return [next(names) if id is None else id for id in ids]


def _generated(letter: str) -> Iterator[str]:
    prefix = secrets.token_hex(8)
    return (f"{letter}-{prefix}-{n}" for n in count())
