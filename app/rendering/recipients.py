"""Who gets notifications as JSON text: a long answer in pieces, so that it is never there as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from app.rendering.texts import cut
from indexes.compiled.text import pieces_of
from indexes.core.texts import Placed
from indexes.relays.kernels.recipient_text import quoted, write_answers
from indexes.relays.recipients import Deliveries

PIECE = 50_000
"""Ids, or notifications, in a piece."""

_TRUNCATED = ',"truncated":true'

_NOWHERE = pieces_of(['],"links":[]}'])
"""The text behind the subscriptions of a notification that goes over no link."""


def deliveries(found: Deliveries, heads: Sequence[str] = ()) -> str:
    """Who gets each notification, separated by commas; `heads`, one for each, come before the fields.

    >>> from indexes.core.texts import Texts
    >>> ids = Placed(Texts.of(["a"]), Texts.of(["b"]), np.array([0, 1, 1], np.int32), 3)
    >>> deliveries(Deliveries(ids, np.array([2, 2, 3]), [("n",), (), ("n", "w")], np.array([False, False, True])))
    '{"subscriptions":["a","b"],"links":["n"]},{"subscriptions":[],"links":[]},{"subscriptions":["b"],"links":["n","w"],\
"truncated":true}'
    """
    texts = _listed(found.ids, np.concatenate([np.zeros(1, np.int64), found.upto]))
    rows = zip(texts, _tails(found), heads or [""] * len(found), strict=True)
    return ",".join([f'{{{head}"subscriptions":[{text}{tail}' for text, tail, head in rows])


def answers(found: Deliveries, seq: int) -> list[bytes]:
    r"""The answer to a request about each notification alone; the first one has this seq.

    >>> from indexes.core.texts import Texts
    >>> ids = Placed(Texts.of(["a"]), Texts.of(["b"]), np.array([0, 1], np.int32), 2)
    >>> answers(Deliveries(ids, np.array([2, 2]), [("n",), ()], np.array([False, False])), 9)[0]
    b'{"seq":9,"results":[{"subscriptions":["a","b"],"links":["n"]}]}\n'
    """
    tails, numbers = _NOWHERE, np.zeros(len(found), np.int32)
    if any(found.links) or np.count_nonzero(found.truncated):
        known: dict[str, int] = {}
        numbers[:] = [known.setdefault(tail, len(known)) for tail in _tails(found)]
        tails = pieces_of(list(known))
    text, upto = write_answers(found.ids, found.upto, seq, tails, numbers)
    return cut(text, upto.tolist())


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
        ids = found.ids.part(at, at + PIECE)
        (text,) = _listed(ids, np.array([0, len(ids.at)]))
        yield (before + text).encode()
        before = ","
    (tail,) = _tails(found)
    yield tail.encode()


def _listed(ids: Placed, ends: npt.NDArray[np.int64]) -> list[str]:
    """The ids between one end and the next, as the inside of a list."""
    text, upto = quoted(ids, ends)
    return [one.decode() for one in cut(text, upto.tolist())]


def _tails(found: Deliveries) -> Iterator[str]:
    """The text behind the subscriptions of each."""
    for links, truncated in zip(found.links, found.truncated.tolist(), strict=True):
        named = ",".join([f'"{link}"' for link in links])
        yield f'],"links":[{named}]{_TRUNCATED if truncated else ""}}}'
