"""JSON lists whose elements have one shape: they differ in their ids and numbers alone, as what a program writes does.

A validator makes a dict of every element. Here the text is cut at what all elements have in common, which takes a
fraction of the time, and only the first element goes through the validator. It is exact: what is cut can be put
together again, and a body that is not surely of one shape is left to the validator as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexes.compiled.text import Pieces, pieces_of
from indexes.core.arrays import Bytes, Ints32
from indexes.core.cutting import IN_ID, cut_elements, room

SHORTEST = 1 << 11
"""Bytes from which on a body is worth it."""

LONGEST_FIRST = 1 << 10
"""Characters of a first element."""

LARGEST = float(1 << 53)
"""The size up to which numbers are read here: their text has one meaning, whoever reads it."""

_HEAD = re.compile(rb'\s*\{(?:\s*"[a-z_]+"\s*:\s*"[a-z]*"\s*,)*\s*"([a-z]+)"\s*:\s*\[\s*')
"""A body up to its first element: before the list there are only fields that are words."""

_TAIL = re.compile(rb'\](?:\s*,\s*"[a-z_]+"\s*:\s*"[a-z]*")*\s*\}\s*')
"""A body behind its last element."""

_ELEMENT = re.compile(rb"\{[^{}\\]*\{[^{}\\]*\}[^{}\\]*\}")
"""An object with one object in it."""

_SPACE = b" \t\r\n"
"""What is space in JSON."""

_COMMA = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")

_VARIABLE = re.compile(r'"(id)"\s*:\s*"([^"]*)"|"([A-Za-z_][A-Za-z0-9_]*)"\s*:\s*(-?[0-9][0-9.eE+-]*)')
"""What may differ between elements: an id, and numbers by name."""

MOST_VARIABLES = 9
"""Variables of an element, at most."""


class Uniform(NamedTuple):
    """The elements of a list by column: their ids, as `texts` too, one behind the other with a space behind each,
    and their numbers by name. `first` is the body with the first element alone, which says all the rest of them and is
    not validated yet.
    """

    first: bytes | bytearray
    ids: list[str]
    texts: NDArray[np.uint8]
    numbers: dict[str, NDArray[np.float64]]


class Shape(NamedTuple):
    """What elements have in common: the names of their variables in order, the text up to the first variable, that
    between any two, and that behind the last one."""

    names: list[str]
    begin: str
    within: list[str]
    end: str


def cut(raw: bytes | bytearray, name: str) -> Uniform | None:
    """The elements of the list `name` in a body, if there are at least two and all have one shape; None for any other
    body, a wrong one too. O(bytes)."""
    if len(raw) < SHORTEST:
        return None
    head = _HEAD.match(raw)
    behind = raw.rfind(b"]")
    if head is None or head[1] != name.encode() or behind < 0 or _TAIL.fullmatch(raw, behind) is None:
        return None
    start = head.end()
    first = _ELEMENT.match(raw, start, start + LONGEST_FIRST)
    comma = None if first is None else _COMMA.match(raw, first.end())
    if first is None or comma is None or not first[0].isascii():
        return None
    shape = _shape(first[0].decode())
    end = start + len(raw[start:behind].rstrip(_SPACE))
    if shape is None or not raw.endswith(shape.end.encode(), start, end):
        return None
    columns = _columns(raw, (start + len(shape.begin), end - len(shape.end)), shape, comma[0].decode())
    return None if columns is None else Uniform(raw[:start] + first[0] + raw[behind:], *columns)


def _shape(element: str) -> Shape | None:
    """The shape of an element; None for one that has not one id, numbers of different names and nothing else that may
    be a number or a string of its own."""
    names, texts, at = list[str](), list[str](), 0
    for found in _VARIABLE.finditer(element):
        of = 2 if found[1] else 4
        names.append(found[of - 1])
        texts.append(element[at : found.start(of)])
        at = found.end(of)
    many = len(names)
    if names.count("id") != 1 or len(set(names)) != many or not 2 <= many <= MOST_VARIABLES:
        return None
    return Shape(names, texts[0], texts[1:], element[at:])


def _columns(
    raw: bytes | bytearray, span: tuple[int, int], shape: Shape, comma: str
) -> tuple[list[str], NDArray[np.uint8], dict[str, NDArray[np.float64]]] | None:
    """The variables of elements, by column: ids, their texts and numbers. `span` is where the first variable begins and
    the last one ends. None where an element has another shape."""
    text = np.frombuffer(raw, np.uint8)
    # A bytearray could be written: kernels would be compiled for it apart.
    text.flags.writeable = False
    begin, end = span
    pieces = _pieces(*shape.within, f"{shape.end}{comma}{shape.begin}")
    at = shape.names.index("id")
    out = room(end - begin, pieces, len(shape.names))
    n, size = cut_elements(text, begin, end, pieces, at, IN_ID, out)
    if n < 2:
        return None
    names = [name for name in shape.names if name != "id"]
    values = numbers_of(out.numbers, out.offset, n * len(names))
    if values is None:
        return None
    texts = out.ids[:size]
    numbers = dict(zip(names, values.reshape(n, -1).T.copy(), strict=True))
    return texts.tobytes().decode().split(), texts, numbers


@lru_cache(maxsize=64)
def _pieces(*texts: str) -> Pieces:
    """What stands behind each variable, the last one of an element that another one follows included."""
    return pieces_of(texts)


def numbers_of(text: Bytes, offset: Ints32, count: int) -> NDArray[np.float64] | None:
    """Numbers of JSON, of which number i is ``text[offset[i] : offset[i + 1]]``; None where one is very large."""
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(offset), pa.py_buffer(text))
    try:
        values: NDArray[np.float64] = texts.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return values if bool((np.abs(values) <= LARGEST).all()) else None
