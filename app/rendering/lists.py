"""Objects, lists and changes of a board with one range attribute as JSON text, without what kernels need.

The text is put together from parts that are JSON already: ids and attribute names hold no character that would need
escaping, payloads are compact JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isinf

from indexes.boards.lists import ListEntry, ObjectView, Place

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


def end(value: float | None) -> str:
    """An end of a range or a side of a tile: unbounded is null."""
    return "null" if value is None or isinf(value) else number(value)


class ListJson:
    """Writes the objects of one board, whose attributes it knows by name.

    >>> write = ListJson("distance", "delay")
    >>> write.list([ObjectView("DL95", 760.0, 853.0, 3, None)])
    '[{"rank":1,"id":"DL95","values":{"distance":760,"delay":853},"created":3}]'
    """

    def __init__(self, range_attribute: str, rank_attribute: str) -> None:
        self._open = f'{{"{range_attribute}":'
        self._y = f',"{rank_attribute}":'

    def _values(self, x: Place, y: float) -> str:
        return f"{self._open}{number(x)}{self._y}{number(y)}}}"  # type: ignore[arg-type]  # one attribute

    def _fields(self, item: ObjectView) -> str:
        _, x, y, created, payload = item
        text = f'"values":{self._values(x, y)},"created":{created}'
        return text if payload is None else f'{text},"payload":{payload.decode()}'

    def object(self, item: ObjectView, head: str = "") -> str:
        """One object; `head` is what comes before its fields, such as `"seq":42,`."""
        return f'{{{head}"id":"{item.id}",{self._fields(item)}}}'

    def list(self, items: Iterable[ObjectView], offset: int = 0) -> str:
        """A list, best first, ranks counted from offset + 1."""
        ranked = enumerate(items, offset + 1)
        entries = (f'{{"rank":{rank},"id":"{item.id}",{self._fields(item)}}}' for rank, item in ranked)
        return f"[{','.join(entries)}]"

    def changes(self, entries: Sequence[ListEntry], old: bool = False) -> str:
        """What entered, left or got new values in a list; with `old` what was there before has its old values too."""
        if len(entries) == 1:
            return f"[{self._change(entries[0], old)}]"
        return f"[{','.join([self._change(entry, old) for entry in entries])}]"

    def _change(self, entry: ListEntry, with_old: bool) -> str:
        id, old_rank, new_rank, item, old = entry
        head = f'"id":"{id}","old_rank":{"null" if old_rank is None else old_rank}'
        tail = f',"old_values":{self._values(old.x, old.y)}' if with_old and old is not None else ""
        if new_rank is None or item is None:
            return f'{{{head},"new_rank":null{tail}}}'
        return f'{{{head},"new_rank":{new_rank},{self._fields(item)}{tail}}}'

    def sides(self, k: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> str:
        """The beginning of a tile."""
        return (
            f'{{"k":{k},"l_outer":{end(l_outer)},"l_inner":{end(l_inner)},"r_inner":{end(r_inner)},'
            f'"r_outer":{end(r_outer)}'
        )

    def tile_object(self, item: ObjectView, gone: bool) -> str:
        """The end of a tile."""
        return f',"object":{{"id":"{item.id}",{self._fields(item)},"gone":{"true" if gone else "false"}}}}}'
