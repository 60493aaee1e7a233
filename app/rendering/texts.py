"""Texts that kernels write one behind the other."""

from __future__ import annotations

from itertools import pairwise

from indexes.core.arrays import Bytes, Ints


def cut(written: Bytes, ends: Ints) -> list[bytes]:
    """The texts between 0 and the first of the ends, and between each end and the next.

    >>> import numpy as np
    >>> cut(np.frombuffer(b"onetwo....", np.uint8), np.array([3, 3, 6]))
    [b'one', b'', b'two']
    """
    bounds = [0, *ends.tolist()]
    whole = written[: bounds[-1]].tobytes()
    return [whole[begin:end] for begin, end in pairwise(bounds)]
