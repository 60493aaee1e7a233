"""Rows of columns as text, by a template: JSON objects without a step in Python for each field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from indexes.compiled.decimals import ROOM, write_integer, write_number
from indexes.compiled.jit import kernel
from indexes.core.arrays import Bytes, Floats, Ints

TEXT, INTEGER = -2, -1
"""Fields that are no numbers: the next of the texts, and the integer of the row. Others are numbers by column."""

END = "\0"
"""What no text has in it, behind each of them."""


class Template(NamedTuple):
    """Texts before each field and behind the last one, one after the other; where each ends; and the fields."""

    pieces: Bytes
    piece_end: Ints
    field: Ints


class Written(NamedTuple):
    """Rows with a comma between them: row i is text[first(i) : end[i]]."""

    text: bytes
    end: list[int]

    def first(self, i: int) -> int:
        """Where row i begins."""
        return self.end[i - 1] + 1 if i else 0

    def rows(self, begin: int, end: int) -> str:
        """The rows from `begin` to before `end`."""
        return self.text[self.first(begin) : self.end[end - 1]].decode() if end > begin else ""


def template(pieces: Sequence[str], fields: Iterable[int]) -> Template:
    """A template of n fields (a column of numbers, TEXT or INTEGER) with n + 1 texts around them."""
    encoded = [piece.encode() for piece in pieces]
    ends = np.cumsum([len(piece) for piece in encoded])
    return Template(np.frombuffer(b"".join(encoded), np.uint8), ends.astype(np.int64), np.array([*fields], np.int64))


def written(form: Template, numbers: Floats, integers: Ints | None = None, texts: Iterable[str] = ()) -> Written:
    """Rows of `numbers` (columns, n), an integer from 0 on each, and the texts of all rows in order. What is not finite
    is null. O(bytes)."""
    n = numbers.shape[1]
    blob = np.frombuffer((END.join(texts) + END).encode(), np.uint8)
    out = np.empty(n * (len(form.pieces) + ROOM * len(form.field) + 1) + len(blob), np.uint8)
    end = np.empty(n, np.int64)
    write_rows(form, numbers, _NO_INTEGERS if integers is None else integers, blob, out, end)
    return Written(out[: end[-1] if n else 0].tobytes(), end.tolist())


_NO_INTEGERS = np.empty(0, np.int64)


@kernel
def write_rows(form: Template, numbers: Floats, integers: Ints, texts: Bytes, out: Bytes, end: Ints) -> None:
    """See `written`."""
    at = read = 0
    for i in range(end.size):
        piece = 0
        for f in range(form.field.size + 1):
            while piece < form.piece_end[f]:
                out[at] = form.pieces[piece]
                at += 1
                piece += 1
            if f < form.field.size:
                field = form.field[f]
                if field >= 0:
                    at = write_number(out, at, numbers[field, i])
                elif field == INTEGER:
                    at = write_integer(out, at, integers[i])
                else:
                    while texts[read] != 0:
                        out[at] = texts[read]
                        at += 1
                        read += 1
                    read += 1
        end[i] = at
        if i + 1 < end.size:
            out[at] = 44
            at += 1
