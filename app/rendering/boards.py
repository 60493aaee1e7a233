"""A board's objects, lists, changes and tiles as JSON text, the same in answers and in streams.

The text is put together from parts that are JSON already: ids and attribute names hold no character that would need
escaping, payloads are compact JSON text. All functions give `str`; who sends it encodes it as UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.rendering.lists import EXACT, ListJson, end, number
from app.rendering.numbers import number_bytes, number_texts, whole_texts
from app.rendering.texts import cut
from indexes.boards.changed_lists import ChangedLists, Records
from indexes.boards.commands import AddSubscriptions, Filter
from indexes.boards.kernels import change_text
from indexes.boards.kernels.change_text import HEAD_BYTES, ChangeTexts, write_changes
from indexes.boards.kernels.tile_text import NO_EVENT, TileTexts, most_bytes, write_tiles
from indexes.boards.regions import Region
from indexes.boards.results import (
    AnyTile,
    ObjectView,
    Place,
    Reach,
    RegionTile,
    SubscriptionView,
    TileRows,
    TileView,
)
from indexes.boards.space.kernels.shapes import width
from indexes.compiled.text import Pieces, pieces_of
from indexes.core.arrays import Bytes, Ints


def numbers(values: npt.NDArray[np.float64]) -> list[str]:
    """As `number` for each in turn, and null for an infinite one; several times faster than one by one.

    >>> numbers(np.array([1400.0, -0.0, 0.1, np.inf]))
    ['1400', '0', '0.1', 'null']
    """
    flat = values.ravel()
    if is_whole(flat).all():
        return whole_texts(flat.astype(np.int64).tolist())
    return number_texts(flat.tolist())


def is_whole(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which are whole numbers that are written without a point."""
    whole: npt.NDArray[np.bool_] = (np.abs(values) <= EXACT) & (np.floor(values) == values)
    return whole


def ends_column(ends: npt.NDArray[np.float64]) -> pa.StringArray:
    """As `end` for each in turn, by column: several times faster again.

    >>> ends_column(np.array([1400.0, -0.0, 0.1, np.inf])).to_pylist()
    ['1400', '0', '0.1', 'null']
    """
    whole = is_whole(ends)
    integers = pa.array(np.where(whole, ends, 0.0).astype(np.int64)).cast(pa.string())
    fractions = pa.array(ends).cast(pa.string())
    texts = pc.if_else(pa.array(whole), integers, fractions)
    return pc.if_else(pa.array(np.isinf(ends)), pa.scalar("null"), texts)


__all__ = ["BoardJson", "SpaceJson", "board_json", "end", "ends_column", "number", "numbers", "tile_sizes", "tiles_at"]

MOST_WORDS = 8
"""Words of messages whose pieces are kept: those of two epochs, and some to spare."""

LEAST_FRAMED, MOST_FRAMED = 126, 0xFFFF
"""Bytes of a message whose size takes two bytes in the head of its frame."""

TILE = 256
"""About how many bytes a tile has besides its object's payload."""


def tile_sizes(rows: TileRows) -> list[int]:
    """About how many bytes each of some tiles has."""
    return [TILE if payload is None else TILE + len(payload) for payload in rows.payload]


def tiles_size(rows: TileRows) -> int:
    """About how many bytes some tiles have together."""
    n = len(rows.payload)
    return TILE * n if rows.payload.count(None) == n else sum(tile_sizes(rows))


def tiles_at(rows: TileRows, at: range) -> TileRows:
    """Some of the tiles."""
    return rows.taken(slice(at.start, at.stop))


class BoardJson(ListJson):
    """Writes the objects of one board, whose attributes it knows by name.

    >>> write = BoardJson("distance", "delay")
    >>> write.list([ObjectView("DL95", 760.0, 853.0, 3, None)])
    '[{"rank":1,"id":"DL95","values":{"distance":760,"delay":853},"created":3}]'
    """

    def __init__(self, range_attribute: str, rank_attribute: str, indexed: tuple[str, ...] = ()) -> None:
        super().__init__(range_attribute, rank_attribute)
        self._indexed = indexed
        self._x = f'"values":{self._open}'
        self._range = f'"range":{{"{range_attribute}":['
        sides = ',"l_outer":', ',"l_inner":', ',"r_inner":', ',"r_outer":'
        values = f'",{self._x}', self._y
        object = ',"object":{"id":"', '},"created":', ',"gone":false}}', ',"gone":true}}'
        self._change_pieces: dict[tuple[str, str, str], Pieces] = {}
        self._pieces = pieces_of([',{"event":', "null", ',"k":', *sides, *values, *object])

    def region(self, region: Region) -> str:
        """The field of a subscription's region."""
        l, r = region.sides
        return f"{self._range}{end(l)},{end(r)}]}}"

    def where(self, where: Filter) -> str:
        """The field of a filter."""
        wanted = [f'"{name}":{text}' for name, text in zip(self._indexed, where, strict=True) if text is not None]
        return f'"where":{{{",".join(wanted)}}}'

    def subscription(self, item: SubscriptionView, head: str = "", items: Iterable[ObjectView] | None = None) -> str:
        """A subscription, with its list if that is given."""
        text = f'{{{head}"id":"{item.id}",{self.region(item.region)},"k":{item.k}'
        if item.where:
            text = f"{text},{self.where(item.where)}"
        if item.offset:
            text = f'{text},"offset":{item.offset}'
        if item.ttl is not None:
            text = f'{text},"ttl":{number(item.ttl)}'
        return f"{text}}}" if items is None else f'{text},"list":{self.list(items, item.offset)}}}'

    def subscriptions(self, command: AddSubscriptions, at: range, heads: Sequence[str] | None = None) -> str:
        """Those of a command at these places as `subscription` writes them, separated by commas; `heads` is what comes
        before the fields of each. By column, for one range attribute and no filters: some ten times faster.
        """
        lo, hi = at.start, at.stop
        parts: list[Any] = ["{"]
        if heads is not None:
            parts.append(pa.array(heads, pa.string()))
        l, r = (ends_column(side[lo:hi]) for side in command.regions.sides)
        parts += ['"id":"', command.ids.slice(lo, hi - lo), f'",{self._range}', l, ",", r]
        parts += [']},"k":', pa.array(command.k[lo:hi]).cast(pa.string())]
        if command.offset is not None:
            offset = [f',"offset":{one}' if one else "" for one in command.offset[lo:hi].tolist()]
            parts.append(pa.array(offset, pa.string()))
        if command.ttl:
            ttl = [f',"ttl":{number(command.ttl[i])}' if i in command.ttl else "" for i in at]
            parts.append(pa.array(ttl, pa.string()))
        whole = pc.binary_join_element_wise(*parts, "}", "")
        text: str = ",".join(whole.to_pylist())
        return text

    def changed(self, changes: ChangedLists, words: tuple[str, str, str], old: bool = False) -> list[bytes]:
        """Changes by column, as bytes: the first of the words, the seq, the second, the fields `seq` and `changes`,
        these as `changes` writes them, and the third. Equal changes of a seq share their bytes.
        """
        if old or changes.records.payload is not None:
            found = self._varied_changes(changes, words, old)
        else:
            found = self._pasted_changes(changes, words)[0]
        return found if changes.distinct else _shared(found)

    def framed(
        self, changes: ChangedLists, words: tuple[str, str, str], prefixes: Sequence[bytes]
    ) -> tuple[list[bytes], bytes, list[int]] | None:
        """As `changed`; also all of them in frames of a WebSocket, each behind its prefix, and where each frame ends.
        None where an object has a payload, or where a change is too short or too long for what is written here.
        """
        if changes.records.payload is not None:
            return None
        found, whole, ends = self._pasted_changes(changes, words, b"%b\0" % b"\0".join(prefixes))
        sizes = np.diff(ends, prepend=0) - HEAD_BYTES
        if sizes.min() < LEAST_FRAMED or sizes.max() > MOST_FRAMED:
            return None
        return found if changes.distinct else _shared(found), whole, ends.tolist()

    def _pasted_changes(
        self, changes: ChangedLists, words: tuple[str, str, str], prefixes: bytes = b""
    ) -> tuple[list[bytes], bytes, Ints]:
        """As `changed`, of objects without payloads: a kernel lays all of it out. Also the whole of it, in frames with
        these prefixes if there are any, and where each change ends in it.
        """
        records = changes.records
        n = len(records.id)
        values = np.stack((records.x, records.y), axis=1)
        flat = values.ravel()
        written = number_bytes(flat[~is_whole(flat)].tolist())
        text = np.frombuffer(b"%b%b\0" % (written, "\0".join(records.id).encode()), np.uint8)
        columns = records.seq, records.old_rank, records.new_rank, records.created
        last = np.arange(1, n + 1) if changes.ends is None else changes.ends
        texts = ChangeTexts(last, *columns, values, text, len(written), np.frombuffer(prefixes, np.uint8))
        pieces = self._pieces_between(words)
        out = np.empty(change_text.most_bytes(pieces, texts), np.uint8)
        begins, ends = np.empty_like(last), np.empty_like(last)
        whole = out[: write_changes(out, begins, ends, pieces, texts)].tobytes()
        return [whole[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)], whole, ends

    def _pieces_between(self, words: tuple[str, str, str]) -> Pieces:
        """The constant text around the columns of changes; kept, since there are few different words."""
        pieces = self._change_pieces.get(words)
        if pieces is None:
            head, middle, end = words
            begin = f'{middle}"seq":', ',"changes":[{"id":"', '},{"id":"'
            fields = f',"values":{self._open}', self._y, '},"created":'
            texts = [head, *begin, '","old_rank":', ',"new_rank":', "null", *fields, f"}}]{end}"]
            if len(self._change_pieces) >= MOST_WORDS:
                self._change_pieces.clear()
            pieces = self._change_pieces[words] = pieces_of(texts)
        return pieces

    def _varied_changes(self, changes: ChangedLists, words: tuple[str, str, str], old: bool) -> list[bytes]:
        """As `changed`, whatever there is to write."""
        texts, (head, middle, end) = self._entries(changes.records, old), words
        if changes.ends is not None:
            ends = changes.ends.tolist()
            texts = [",".join(texts[begin:stop]) for begin, stop in pairwise((0, *ends))]
        return [
            f'{head}{seq}{middle}"seq":{seq},"changes":[{text}]{end}'.encode()
            for seq, text in zip(changes.seqs(), texts, strict=True)
        ]

    def _entries(self, records: Records, old: bool) -> list[str]:
        """As `changes` writes entries, one for each record; those that are equal are written once."""
        open, middle = self._open, self._y
        nothing = [None] * len(records.id)
        columns: list[Iterable[Any]] = [
            records.seq.tolist(),
            records.id,
            records.old_rank.tolist(),
            records.new_rank.tolist(),
            numbers(records.x),
            numbers(records.y),
            records.created.tolist(),
            nothing if records.payload is None else records.payload,
            numbers(records.old_x) if old else nothing,
            numbers(records.old_y) if old else nothing,
        ]
        written: dict[tuple[int, str, int, int], str] = {}
        texts = []
        for seq, id, old_rank, new_rank, x, y, created, payload, old_x, old_y in zip(*columns, strict=True):
            key = seq, id, old_rank, new_rank
            text = written.get(key)
            if text is None:
                tail = f',"old_values":{open}{old_x}{middle}{old_y}}}' if old and old_rank else ""
                if new_rank:
                    more = "" if payload is None else f',"payload":{payload.decode()}'
                    text = (
                        f'{{"id":"{id}","old_rank":{old_rank or "null"},"new_rank":{new_rank},'
                        f'"values":{open}{x}{middle}{y}}},"created":{created}{more}{tail}}}'
                    )
                else:
                    text = f'{{"id":"{id}","old_rank":{old_rank or "null"},"new_rank":null{tail}}}'
                written[key] = text
            texts.append(text)
        return texts

    def tile(self, tile: AnyTile, head: str = "") -> str:
        """One tile; `head` is what comes before its sides, such as `"event":0,`."""
        gone, item = "true" if tile.gone else "false", tile.object
        return (
            f'{{{head}"k":{tile.k},{self._sides(tile)}{self._reached(tile.where)},'
            f'"object":{{"id":"{item.id}",{self._fields(item)},"gone":{gone}}}}}'
        )

    def _reached(self, where: tuple[Reach, ...]) -> str:
        """The field of the filters that a tile reaches, behind others."""
        if not where:
            return ""
        fields = [
            f'"{name}":{{"any":{"true" if reach.any else "false"},"values":[{reach.value or ""}]}}'
            for name, reach in zip(self._indexed, where, strict=True)
        ]
        return f',"where":{{{",".join(fields)}}}'

    def shape(self, shape: str) -> str:
        """The field of the shape of the regions of tiles, before others; with one attribute there is none."""
        return ""

    def boxes(
        self, shape: str, sides: npt.NDArray[np.float64], where: Sequence[tuple[Reach, ...]] | None
    ) -> Iterator[str]:
        """Rows of the sides of tiles of a shape, infinite where unbounded, each as an object of its own."""
        texts, size = numbers(sides), sides.shape[1]
        for t in range(len(sides)):
            reached = "" if where is None else self._reached(where[t])
            yield f"{{{self._box(shape, texts[t * size : (t + 1) * size])}{reached}}}"

    def _sides(self, tile: AnyTile) -> str:
        assert isinstance(tile, TileView)
        return self._box("box", [end(side) for side in tile[1:5]])

    def _box(self, shape: str, texts: Sequence[str]) -> str:
        """A tile's sides, given as texts."""
        l_outer, l_inner, r_inner, r_outer = texts
        return f'"l_outer":{l_outer},"l_inner":{l_inner},"r_inner":{r_inner},"r_outer":{r_outer}'

    def tiles(self, rows: TileRows, events: Sequence[int | None]) -> str:
        """Tiles by column, in the order in which they apply, separated by commas; `events` are the indexes of the
        events they belong to.
        """
        places = np.array([NO_EVENT if event is None else event for event in events], np.int64)
        return self._written(rows, places)[0][1:].tobytes().decode()

    def runs(self, rows: TileRows, ends: Sequence[int]) -> list[bytes]:
        """As `tiles`, in consecutive runs of at least one tile, of which `ends` has the place behind the last one; each
        is about an event of index 0.
        """
        whole, places = self._written(rows, np.zeros(len(rows.k), np.int64))
        return cut(whole, [places.item(last - 1) for last in ends], skip=1)

    def _written(self, rows: TileRows, events: Ints) -> tuple[Bytes, Ints]:
        """Tiles as text, a comma before each, and the place behind each of them."""
        n = len(rows.k)
        written = number_bytes(rows.numbers.ravel().tolist())
        names, varied = self._names_of(rows)
        text = np.frombuffer(written + names, np.uint8)
        tiles = TileTexts(events, rows.k, rows.numbers, text, len(written), varied, rows.created, rows.gone)
        out, ends = np.empty(most_bytes(self._pieces, tiles), np.uint8), np.empty(n, np.int64)
        size = write_tiles(out, ends, self._pieces, tiles)
        return out[:size], ends

    def _names_of(self, rows: TileRows) -> tuple[bytes, bool]:
        """The texts of tiles, and whether these are varied: see `TileTexts`."""
        if rows.where is None and rows.payload.count(None) == len(rows.payload):
            return ("\0".join(rows.id) + "\0").encode(), False
        reached = repeat("") if rows.where is None else map(self._reached, rows.where)
        texts: list[str] = []
        for before, id, payload in zip(reached, rows.id, rows.payload, strict=False):
            texts += before, id, "" if payload is None else f',"payload":{payload.decode()}'
        return ("\0".join(texts) + "\0").encode(), True


class SpaceJson(BoardJson):
    """Writes the objects of one board with several range attributes.

    >>> from math import inf
    >>> write = SpaceJson(("price", "weight"), "age")
    >>> write.region(Region("box", (-inf, 9.0, 1.5, inf)))
    '"range":{"price":[null,9],"weight":[1.5,null]}'
    >>> write.region(Region("disc", (1.0, 2.0, 0.5)))
    '"disc":{"center":[1,2],"radius":0.5}'
    """

    def __init__(self, range_attributes: tuple[str, ...], rank_attribute: str, indexed: tuple[str, ...] = ()) -> None:
        self._indexed = indexed
        self._names = [f'"{name}":' for name in (*range_attributes, rank_attribute)]
        self._d = len(range_attributes)

    def _values(self, x: Place, y: float) -> str:
        places: tuple[float, ...] = x  # type: ignore[assignment]  # several attributes
        return f"{{{self._named([number(value) for value in (*places, y)])}}}"

    def _named(self, texts: Sequence[str]) -> str:
        """One text for each attribute, in their order."""
        return ",".join([name + text for name, text in zip(self._names, texts, strict=False)])

    def region(self, region: Region) -> str:
        """The field of a subscription's region."""
        texts = [end(side) for side in region.sides]
        if region.shape == "box":
            return f'"range":{{{self._named(_grouped(texts, 2))}}}'
        return _shaped(region.shape, texts)

    def _sides(self, tile: AnyTile) -> str:
        assert isinstance(tile, RegionTile)
        return self._box(tile.shape, [end(side) for side in tile.sides])

    def shape(self, shape: str) -> str:
        """As `BoardJson.shape`."""
        return f'"shape":"{shape}",'

    def _box(self, shape: str, texts: Sequence[str]) -> str:
        if shape == "box":
            return f'"box":{{{self._named(_grouped(texts, 4))}}}'
        return _shaped(shape, _grouped(texts, 2))

    def _written(self, rows: TileRows, events: Ints) -> tuple[Bytes, Ints]:
        assert rows.shape is not None
        texts, size = numbers(rows.numbers), rows.numbers.shape[1]
        found, places, end = [], [], 0
        where = repeat("") if rows.where is None else map(self._reached, rows.where)
        ids = zip(events.tolist(), rows.k.tolist(), rows.id, strict=True)
        columns = zip(ids, rows.shape, rows.created.tolist(), rows.gone.tolist(), rows.payload, where, strict=False)
        for t, ((event, k, id), shape, created, gone, payload, reached) in enumerate(columns):
            mine = texts[t * size : (t + 1) * size]
            more = "" if payload is None else f',"payload":{payload.decode()}'
            text = (
                f',{{"event":{"null" if event == NO_EVENT else event},"k":{k},'
                f"{self._box(shape, mine[: 2 * width(shape, self._d)])}{reached},"
                f'"object":{{"id":"{id}","values":{{{self._named(mine[-1 - self._d :])}}},"created":{created}{more},'
                f'"gone":{"true" if gone else "false"}}}}}'
            ).encode()
            found.append(text)
            end += len(text)
            places.append(end)
        return np.frombuffer(b"".join(found), np.uint8), np.array(places, np.int64)


def _shared(texts: list[bytes]) -> list[bytes]:
    """Texts of which those that are equal are one object."""
    shared: dict[bytes, bytes] = {}
    return list(map(shared.setdefault, texts, texts))


def _grouped(texts: Sequence[str], n: int) -> list[str]:
    """Lists of n texts each."""
    return [f"[{','.join(texts[i : i + n])}]" for i in range(0, len(texts), n)]


def _shaped(shape: str, texts: Sequence[str]) -> str:
    """The field of a region that is no box, with a text for each of its sides."""
    first = f"[{texts[0]},{texts[1]}]"
    if shape == "disc":
        return f'"disc":{{"center":{first},"radius":{texts[2]}}}'
    if shape == "half_plane":
        return f'"half_plane":{{"a":{first},"b":{texts[2]}}}'
    return f'"simplex":{{"points":[{first},[{texts[2]},{texts[3]}],[{texts[4]},{texts[5]}]]}}'


@lru_cache(maxsize=256)
def board_json(range_attributes: tuple[str, ...], rank_attribute: str, indexed: tuple[str, ...] = ()) -> BoardJson:
    """What writes the objects of a board with these attributes."""
    if len(range_attributes) == 1:
        return BoardJson(range_attributes[0], rank_attribute, indexed)
    return SpaceJson(range_attributes, rank_attribute, indexed)
