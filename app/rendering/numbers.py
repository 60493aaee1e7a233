"""Many numbers as JSON text at once, several times faster than one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic_core import to_json

from app.rendering.lists import EXACT, end

FEW = 8
"""Numbers up to which they are written one by one as fast."""

_EXPONENT = re.compile(rb"e-(\d)(?!\d)")
"""A negative exponent of one digit, which has two in Python."""

_SMALL = re.compile(rb"0\.0000\d+")
"""A number below 0.0001, which has an exponent in Python; or the end of a greater one."""

_LONG = re.compile(r"\.0,(?<=\d{16}\.0,)")
"""A whole number that may be above 2^53, which keeps its point."""


def whole_texts(values: Sequence[int]) -> list[str]:
    """Integers as JSON text.

    >>> whole_texts([0, -7, 1400])
    ['0', '-7', '1400']
    """
    return to_json(values).decode()[1:-1].split(",") if values else []


def number_texts(values: Sequence[float | None]) -> list[str]:
    """As `lists.end` for each in turn: null for an infinite one or None.

    >>> number_texts([1400.0, -0.0, 0.1, None, float("inf"), float(1 << 53), -9007199254740994.0])
    ['1400', '0', '0.1', 'null', 'null', '9007199254740992', '-9007199254740994.0']
    >>> number_texts([1e-05] * 9)[8], number_texts([1e-05])
    ('1e-05', ['1e-05'])
    """
    if len(values) > FEW:
        return _cut(_written(values))
    return [end(value) for value in values]


def _cut(array: bytes) -> list[str]:
    """The numbers of a JSON array that has some."""
    text = array.decode()[1:-1] + ","
    if ".0," not in text:
        return text.split(",")[:-1]
    if _LONG.search(text):
        return [_pointless(one) for one in text.split(",")[:-1]]
    return text.replace("-0.0,", "0,").replace(".0,", ",").split(",")[:-1]


def number_bytes(values: Sequence[float]) -> bytes:
    """As `lists.end` for each in turn, a comma behind each, the same bytes but for the point and a sign of zero that a
    whole number may have; `indexes.compiled.text.without_point` takes them away.

    >>> number_bytes([0.1, 1400.0, 1e-5, -0.0]), number_bytes([0.1, -0.0, float("inf")])
    (b'0.1,1400.0,1e-05,-0.0,', b'0.1,-0.0,null,')
    """
    return _written(values)[1:-1] + b"," if values else b""


def _written(values: Sequence[float | None]) -> bytes:
    """A JSON array of numbers, very small ones as Python writes them."""
    text = to_json(values, inf_nan_mode="null")
    if b"e" in text:
        text = _EXPONENT.sub(rb"e-0\1", text)
    if b"0.0000" in text:
        text = _SMALL.sub(_with_exponent, text)
    return text


def _with_exponent(small: re.Match[bytes]) -> bytes:
    digit_before = small.string[small.start() - 1 : small.start()].isdigit()
    return small[0] if digit_before else repr(float(small[0])).encode()


def _pointless(text: str) -> str:
    if text == "-0.0":
        return "0"
    return text[:-2] if text.endswith(".0") and abs(float(text)) <= EXACT else text
