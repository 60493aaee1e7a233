"""JSON lists whose elements have one shape: they differ in their ids and numbers alone, as what a program writes does.

A validator makes a dict of every element. Here the text is cut at what all elements have in common, which takes a
fraction of the time, and only the first element goes through the validator. It is exact: what is cut can be put
together again, and a body that is not surely of one shape is left to the validator as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

SHORTEST = 1 << 11
"""Bytes from which on a body is worth it."""

LONGEST_FIRST = 1 << 10
"""Characters of a first element."""

LARGEST = float(1 << 53)
"""The size up to which numbers are read here: their text has one meaning, whoever reads it."""

_HEAD = re.compile(r'\s*\{(?:\s*"[a-z_]+"\s*:\s*"[a-z]*"\s*,)*\s*"([a-z]+)"\s*:\s*\[\s*')
"""A body up to its first element: before the list there are only fields that are words."""

_TAIL = re.compile(r'\](?:\s*,\s*"[a-z_]+"\s*:\s*"[a-z]*")*\s*\}\s*')
"""A body behind its last element."""

_ELEMENT = re.compile(r"\{[^{}\\]*\{[^{}\\]*\}[^{}\\]*\}")
"""An object with one object in it."""

_SPACE = " \t\r\n"
"""What is space in JSON."""

_COMMA = re.compile(f"[{_SPACE}]*,[{_SPACE}]*")

_VARIABLE = re.compile(r'"(id)"\s*:\s*"([^"]*)"|"([A-Za-z_][A-Za-z0-9_]*)"\s*:\s*(-?[0-9][0-9.eE+-]*)')
"""What may differ between elements: an id, and numbers by name."""

_ID, _NUMBER = r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}+", r"[0-9.eE+-]{1,24}+"
"""An id that is surely good, and the characters of a number."""

_BEHIND = "\x1e"
"""What an element's end and the next one's begin are replaced by, a separator of records."""

_WITHIN = "\x1c\x1d\x1f\t\n\v\f\r"
"""What the text between two variables of an element is replaced by. `str.split` takes each of these as a space."""


class Uniform(NamedTuple):
    """The elements of a list by column: their ids, and their numbers by name. `first` is the body with the first
    element alone, which says all the rest of them and is not validated yet.
    """

    first: str
    ids: list[str]
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
    if len(raw) < SHORTEST or not raw.isascii():
        return None
    text = raw.decode()
    head = _HEAD.match(text)
    behind = text.rfind("]")
    if head is None or head[1] != name or behind < 0 or _TAIL.fullmatch(text, behind) is None:
        return None
    start = head.end()
    first = _ELEMENT.match(text, start, start + LONGEST_FIRST)
    comma = None if first is None else _COMMA.match(text, first.end())
    if first is None or comma is None:
        return None
    shape = _shape(first[0])
    elements = text[start:behind].rstrip(_SPACE)
    if shape is None or not elements.endswith(shape.end):
        return None
    between = f"{shape.end}{comma[0]}{shape.begin}"
    variables = elements[len(shape.begin) : len(elements) - len(shape.end)]
    # Most other bodies are seen to be such by their second element.
    if not variables.startswith(between, first.end() - start - len(shape.begin) - len(shape.end)):
        return None
    columns = _columns(variables, shape, between)
    return None if columns is None else Uniform(f"{text[:start]}{first[0]}{text[behind:]}", *columns)


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
    if names.count("id") != 1 or len(set(names)) != many or not 2 <= many <= len(_WITHIN) + 1:
        return None
    return Shape(names, texts[0], texts[1:], element[at:])


def _columns(text: str, shape: Shape, between: str) -> tuple[list[str], dict[str, NDArray[np.float64]]] | None:
    """The variables of elements, by column, out of the text of all from the first variable to the last one."""
    length, marks = len(text), _WITHIN[: len(shape.within)]
    text = text.replace(between, _BEHIND)
    for piece, mark in zip(shape.within, marks, strict=True):
        text = text.replace(piece, mark)
    text += _BEHIND
    if _rows(shape.names.index("id"), marks).fullmatch(text) is None:
        return None
    parts, many = text.split(), len(shape.names)
    n = len(parts) // many
    # A mark stands for one character of the body, unless it has replaced what it stands for.
    replaced = (n - 1) * (len(between) - 1) + n * sum(len(piece) - 1 for piece in shape.within)
    if length != len(text) - 1 + replaced:
        return None
    ids: list[str] = []
    numbers: dict[str, NDArray[np.float64]] = {}
    for at, name in enumerate(shape.names):
        column = parts[at::many]
        if name == "id":
            ids = column
        else:
            found = _numbers(column)
            if found is None:
                return None
            numbers[name] = found
    return ids, numbers


@lru_cache(maxsize=64)
def _rows(id: int, marks: str) -> re.Pattern[str]:
    """What elements look like, of which variable `id` is the id, with these marks between variables."""
    variables = [_ID if at == id else _NUMBER for at in range(len(marks) + 1)]
    row = "".join(variable + re.escape(mark) for variable, mark in zip(variables, marks + _BEHIND, strict=True))
    return re.compile(f"(?:{row})*+")


def _numbers(texts: list[str]) -> NDArray[np.float64] | None:
    """The numbers that texts are in JSON; None where one is none, or a very large one."""
    try:
        values: Any = np.array(from_json(f"[{','.join(texts)}]"), np.float64)
    except ValueError:
        return None
    return values if bool((np.abs(values) <= LARGEST).all()) else None
