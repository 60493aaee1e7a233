"""JSON lists whose elements have one shape: they differ in their ids and numbers alone, as what a program writes does.

A validator makes a dict of every element. Here the text is cut at what all elements have in common, which takes a
fraction of the time, and only the first element goes through the validator. It is exact: what is cut can be put
together again, and a body that is not surely of one shape is left to the validator as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.decimals import POWERS
from indexes.compiled.text import Pieces, pieces_of
from indexes.core.cutting import IN_ID, cut_elements, numbers_of, room
from indexes.core.spaced_ids import SpacedIds

SHORTEST = 1 << 11
"""Bytes from which on a body is worth it."""

LONGEST_FIRST = 1 << 10
"""Characters of a first element."""

MOST_AROUND = 1 << 10
"""Bytes around the elements of a body whose form is remembered."""

REMEMBERED = 8
"""Forms that are remembered: a program writes bodies of one form, one after the other."""

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
    """The elements of a list by column: their ids, and their numbers by name. `first` is a body that says the same
    besides, with one element alone, which says all the rest of them. It is not validated yet; it is the same object as
    long as its form is remembered.
    """

    first: bytes
    ids: SpacedIds
    numbers: dict[str, NDArray[np.float64]]


class Form(NamedTuple):
    """All of a body but the variables of its elements: what is before the first of them and behind the last one, what
    stands behind each in between, and their names; and a body of this form with one element."""

    head: bytes
    tail: bytes
    pieces: Pieces
    names: list[str]
    first: bytes


class Shape(NamedTuple):
    """What elements have in common: the names of their variables in order, the text up to the first variable, that
    between any two, and that behind the last one."""

    names: list[str]
    begin: str
    within: list[str]
    end: str


_remembered: dict[str, tuple[Form, ...]] = {}
"""Forms of bodies that were cut of late, by the name of the list, the last one first."""


def cut(raw: bytes | bytearray, name: str) -> Uniform | None:
    """The elements of the list `name` in a body, if there are at least two and all have one shape; None for any other
    body, a wrong one too. O(bytes)."""
    if len(raw) < SHORTEST:
        return None
    remembered = _remembered.get(name, ())
    for form in remembered:
        if raw.startswith(form.head) and raw.endswith(form.tail):
            found = _cut(raw, form)
            if found is not None:
                return found
    form_now = _form(raw, name)
    found = None if form_now is None else _cut(raw, form_now)
    if found is not None and form_now is not None and len(form_now.head) + len(form_now.tail) <= MOST_AROUND:
        _remembered[name] = form_now, *remembered[: REMEMBERED - 1]
    return found


def _form(raw: bytes | bytearray, name: str) -> Form | None:
    """The form of a body, by its first element; None where it has none."""
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
    if shape is None:
        return None
    end = behind
    while raw[end - 1] in _SPACE:
        end -= 1
    head_end, tail_begin = start + len(shape.begin), end - len(shape.end)
    if tail_begin < first.end() or not raw.endswith(shape.end.encode(), start, end):
        return None
    pieces = pieces_of([*shape.within, f"{shape.end}{comma[0].decode()}{shape.begin}"])
    alone = bytes(raw[:start] + first[0] + raw[behind:])
    return Form(bytes(raw[:head_end]), bytes(raw[tail_begin:]), pieces, shape.names, alone)


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


def _cut(raw: bytes | bytearray, form: Form) -> Uniform | None:
    """The elements of a body that begins and ends as this form; None where one of them is otherwise."""
    text = np.frombuffer(raw, np.uint8)
    # A bytearray could be written: kernels would be compiled for it apart.
    text.flags.writeable = False
    begin, end = len(form.head), len(raw) - len(form.tail)
    if begin >= end:
        return None
    out = room(end - begin, form.pieces, len(form.names) - 1)
    at = form.names.index("id")
    n, size, unread = cut_elements(text, begin, end, form.pieces, at, IN_ID, POWERS, out)
    if n < 2:
        return None
    values = numbers_of(out, text, n, unread)
    if values is None:
        return None
    names = [name for name in form.names if name != "id"]
    ids = SpacedIds(out.ids[:size], n)
    return Uniform(form.first, ids, dict(zip(names, values, strict=True)))
