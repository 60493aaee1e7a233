"""Texts that kernels write one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from indexes.core.arrays import Bytes


def cut(written: Bytes, ends: Sequence[int], skip: int = 0) -> list[bytes]:
    """The texts between 0 and the first of the ends, and between each end and the next, each without its first `skip`
    bytes.

    >>> import numpy as np
    >>> cut(np.frombuffer(b",one,two....", np.uint8), [4, 8], 1)
    [b'one', b'two']
    """
    bounds = [0, *ends]
    whole = written[: bounds[-1]].tobytes()
    return [whole[begin + skip : end] for begin, end in pairwise(bounds)]
