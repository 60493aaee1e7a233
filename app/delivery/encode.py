"""A board's objects, lists, changes and tiles as JSON text, the same in answers and in streams.

The text is put together from parts that are JSON already: ids and attribute names hold no character that would need
escaping, payloads are compact JSON text. All functions give `str`; who sends it encodes it as UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

from indexes.boards.views import ListEntry, ObjectView, SubscriptionView, TileRows, TileView

EXACT = float(1 << 53)


def number(value: float) -> str:
    """A finite float64 as JSON: whole numbers up to 2^53 in size without a point, -0 as 0.

    >>> number(1400.0), number(-0.0), number(0.1), number(1e300)
    ('1400', '0', '0.1', '1e+300')
    """
    if -EXACT <= value <= EXACT:
        whole = int(value)
        if whole == value:
            return str(whole)
    return float.__repr__(value)


def numbers(values: npt.NDArray[np.float64]) -> list[str]:
    """As `number` for each in turn, and null for an infinite one; several times faster than one by one.

    >>> numbers(np.array([1400.0, -0.0, 0.1, np.inf]))
    ['1400', '0', '0.1', 'null']
    """
    # Adding 0 turns -0 into 0.
    text = to_json((values.ravel() + 0.0).tolist(), inf_nan_mode="null").decode()
    return [_pointless(one) if one.endswith(".0") else one for one in text[1:-1].split(",")]


def _pointless(text: str) -> str:
    return text[:-2] if abs(float(text)) <= EXACT else text


def end(value: float | None) -> str:
    """An end of a range or a side of a tile: unbounded is null."""
    return "null" if value is None or isinf(value) else number(value)


class BoardJson:
    """Writes the objects of one board, whose attributes it knows by name.

    >>> write = BoardJson("distance", "delay")
    >>> write.list([ObjectView("DL95", 760.0, 853.0, 3, None)])
    '[{"rank":1,"id":"DL95","values":{"distance":760,"delay":853},"created":3}]'
    """

    def __init__(self, range_attribute: str, rank_attribute: str) -> None:
        self._x = f'"values":{{"{range_attribute}":'
        self._y = f',"{rank_attribute}":'
        self._range = f'"range":{{"{range_attribute}":['

    def _fields(self, item: ObjectView) -> str:
        text = f'{self._x}{number(item.x)}{self._y}{number(item.y)}}},"created":{item.created}'
        return text if item.payload is None else f'{text},"payload":{item.payload.decode()}'

    def object(self, item: ObjectView, head: str = "") -> str:
        """One object; `head` is what comes before its fields, such as `"seq":42,`."""
        return f'{{{head}"id":"{item.id}",{self._fields(item)}}}'

    def list(self, items: Iterable[ObjectView]) -> str:
        """A list, best first, ranks counted from 1."""
        entries = (f'{{"rank":{rank},"id":"{item.id}",{self._fields(item)}}}' for rank, item in enumerate(items, 1))
        return f"[{','.join(entries)}]"

    def subscription(self, item: SubscriptionView, head: str = "", items: Iterable[ObjectView] | None = None) -> str:
        """A subscription, with its list if that is given."""
        text = f'{{{head}"id":"{item.id}",{self._range}{end(item.l)},{end(item.r)}]}},"k":{item.k}'
        if item.ttl is not None:
            text = f'{text},"ttl":{number(item.ttl)}'
        return f"{text}}}" if items is None else f'{text},"list":{self.list(items)}}}'

    def changes(self, entries: Iterable[ListEntry]) -> str:
        """What entered, left or got new values in a list."""
        return f"[{','.join([self._change(entry) for entry in entries])}]"

    def _change(self, entry: ListEntry) -> str:
        id, old_rank, new_rank, item = entry
        old = "null" if old_rank is None else old_rank
        if new_rank is None or item is None:
            return f'{{"id":"{id}","old_rank":{old},"new_rank":null}}'
        return f'{{"id":"{id}","old_rank":{old},"new_rank":{new_rank},{self._fields(item)}}}'

    def tile(self, tile: TileView, head: str = "") -> str:
        """One tile; `head` is what comes before its sides, such as `"event":0,`."""
        k, l_outer, l_inner, r_inner, r_outer, item, gone = tile
        return (
            f'{{{head}"k":{k},"l_outer":{end(l_outer)},"l_inner":{end(l_inner)},"r_inner":{end(r_inner)},'
            f'"r_outer":{end(r_outer)},"object":{{"id":"{item.id}",{self._fields(item)},'
            f'"gone":{"true" if gone else "false"}}}}}'
        )

    def tiles(self, rows: TileRows, events: Iterable[int | None]) -> str:
        """Tiles by column, in the order in which they apply; `events` are the indexes of the events they belong to."""
        texts = iter(numbers(rows.numbers))
        x, y = self._x, self._y
        found = []
        for event, k, id, created, gone, payload in zip(
            events, rows.k, rows.id, rows.created, rows.gone, rows.payload, strict=True
        ):
            more = "" if payload is None else f',"payload":{payload.decode()}'
            found.append(
                f'{{"event":{"null" if event is None else event},"k":{k},"l_outer":{next(texts)},'
                f'"l_inner":{next(texts)},"r_inner":{next(texts)},"r_outer":{next(texts)},"object":{{"id":"{id}",'
                f'{x}{next(texts)}{y}{next(texts)}}},"created":{created}{more},"gone":{"true" if gone else "false"}}}}}'
            )
        return ",".join(found)
