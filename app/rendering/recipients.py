"""Who gets notifications as JSON text: a long answer in pieces, so that it is never there as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from indexes.relays.kernels.recipient_text import quoted
from indexes.relays.recipients import Deliveries

PIECE = 50_000
"""Ids, or notifications, in a piece."""

_TRUNCATED = ',"truncated":true'


def deliveries(found: Deliveries, heads: Sequence[str] = ()) -> str:
    """Who gets each notification, separated by commas; `heads`, one for each, come before the fields.

    >>> import pyarrow as pa
    >>> ids, one = pa.array(["a", "b"], pa.large_string()), np.array([0, 1, 1], np.int32)
    >>> deliveries(Deliveries(ids, one, np.array([2, 2, 3]), [("n",), (), ("n", "w")], np.array([False, False, True])))
    '{"subscriptions":["a","b"],"links":["n"]},{"subscriptions":[],"links":[]},{"subscriptions":["b"],"links":["n","w"],\
"truncated":true}'
    """
    return ",".join(each_delivery(found, heads))


def each_delivery(found: Deliveries, heads: Sequence[str] = ()) -> list[str]:
    """As `deliveries`, one by one."""
    texts = _listed(found, np.concatenate([np.zeros(1, np.int64), found.upto]))
    rows = zip(texts, _tails(found), heads or [""] * len(found), strict=True)
    return [f'{{{head}"subscriptions":[{text}{tail}' for text, tail, head in rows]


def pieces(found: Deliveries, heads: Sequence[str] = ()) -> Iterator[bytes]:
    """The text of `deliveries`, cut anywhere."""
    begin, ends, separator = 0, found.upto, ""
    while begin < len(found):
        start = int(ends[begin - 1]) if begin else 0
        fit = int(np.searchsorted(ends, start + PIECE, "right"))
        end = min(max(begin + 1, fit), begin + PIECE)
        part, mine = found.part(begin, end), heads[begin:end]
        if fit > begin:
            yield (separator + deliveries(part, mine)).encode()
        else:
            yield from _alone(part, separator, mine[0] if mine else "")
        begin, separator = end, ","


def _alone(found: Deliveries, separator: str, head: str) -> Iterator[bytes]:
    """One notification that very many get."""
    before = f'{separator}{{{head}"subscriptions":['
    for at in range(0, found.named, PIECE):
        (text,) = _listed(found, np.array([at, min(at + PIECE, found.named)]))
        yield (before + text).encode()
        before = ","
    (tail,) = _tails(found)
    yield tail.encode()


def _listed(found: Deliveries, ends: npt.NDArray[np.int64]) -> list[str]:
    """The ids between one end and the next, as the inside of a list."""
    written, upto = quoted(found.ids, found.who, ends)
    text, begin, texts = written.tobytes(), 0, []
    for end in upto.tolist():
        texts.append(text[begin:end].decode())
        begin = end
    return texts


def _tails(found: Deliveries) -> Iterator[str]:
    """The text behind the subscriptions of each."""
    for links, truncated in zip(found.links, found.truncated.tolist(), strict=True):
        named = ",".join([f'"{link}"' for link in links])
        yield f'],"links":[{named}]{_TRUNCATED if truncated else ""}}}'
