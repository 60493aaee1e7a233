"""Digits and a power of ten become the float that Python reads."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from indexes.compiled.decimals import LEAST_POWER, MOST_DIGITS, MOST_POWER, POWERS
from indexes.compiled.text import pieces_of
from indexes.core.cutting import IN_ID, cut_elements, room

HALFWAY = (1 << 54) + 1
"""Between two floats, the lower of them even; with 2 more the upper one is."""


def _read(texts: list[str]) -> list[float]:
    """Numbers as they are cut out of elements; each has to be read by the kernel."""
    raw = np.frombuffer("".join([f"a,{text};" for text in texts]).encode(), np.uint8)
    pieces = pieces_of([",", ";"])
    out = room(len(raw) - 1, pieces, 1)
    n, _, unread = cut_elements(raw, 0, len(raw) - 1, pieces, 0, IN_ID, POWERS, out)
    assert (n, unread) == (len(texts), 0)
    found: list[float] = out.numbers[0, :n].view(np.float64).tolist()
    return found


@given(
    digits=st.integers(0, 10**MOST_DIGITS - 1) | st.integers(HALFWAY - 9, HALFWAY + 9),
    power=st.integers(LEAST_POWER, MOST_POWER),
    sign=st.sampled_from(["", "-"]),
)
@example(digits=HALFWAY * 5, power=-4, sign="")
@example(digits=HALFWAY * 25, power=-5, sign="-")
@example(digits=(HALFWAY + 2) * 25, power=-5, sign="")
@example(digits=(1 << 54) - 1, power=-3, sign="")
@example(digits=0, power=-1, sign="-")
def test_numbers_are_read_as_python_reads_them(digits: int, power: int, sign: str) -> None:
    text = f"{sign}{digits}e{power}"
    if len(text) <= 24 and abs(float(text)) <= 1 << 53:
        (found,) = _read([text])
        assert (found, str(found)) == (float(text), str(float(text)))


@given(numbers=st.lists(st.floats(-(2.0**53), 2.0**53).filter(lambda y: abs(y) > 1e-40 or y == 0), min_size=1))
def test_floats_come_back(numbers: list[float]) -> None:
    assert list(map(str, _read([repr(y) for y in numbers]))) == list(map(str, numbers))


def test_zeros_in_front_are_no_digits_that_count() -> None:
    texts = ["0.00012345678901234567", "-0.00012345678901234567", "0.0", "0.0000000000000000000001"]
    assert _read(texts) == list(map(float, texts))


def test_more_digits_than_fit_are_not_read() -> None:
    """Also where they would come to zero in 64 bits."""
    raw = np.frombuffer(b"a,1844674407.3709551616;a,184467440737095516.17e-3;a,0.1;", np.uint8)
    pieces = pieces_of([",", ";"])
    out = room(len(raw) - 1, pieces, 1)
    n, _, unread = cut_elements(raw, 0, len(raw) - 1, pieces, 0, IN_ID, POWERS, out)
    assert (n, unread) == (3, 2)
    assert out.unread[:unread, :2].tolist() == [[0, 0], [0, 1]]


def _is_cut(element: bytes) -> bool:
    raw = np.frombuffer(element + element, np.uint8)
    pieces = pieces_of([",", ";"])
    n, _, _ = cut_elements(raw, 0, len(raw) - 1, pieces, 0, IN_ID, POWERS, room(len(raw) - 1, pieces, 1))
    return n == 2


@given(before=st.integers(0, 7), byte=st.integers(0, 255).filter(lambda byte: byte not in b"0123456789;Ee"))
def test_a_byte_that_is_no_digit_is_none_wherever_it_is(before: int, byte: int) -> None:
    """Digits behind a point are read eight at a time."""
    digits = b"1" * before, b"2" * (7 - before)
    assert _is_cut(b"a,0.%b9%b;" % digits) and not _is_cut(b"a,0.%b%c%b;" % (digits[0] or b"1", byte, digits[1]))


@given(whole=st.integers(0, 99), zeros=st.integers(0, 17), digits=st.text("0123456789", min_size=1, max_size=17))
def test_digits_behind_a_point_count_from_the_first_that_is_no_zero(whole: int, zeros: int, digits: str) -> None:
    text = f"{whole}.{'0' * zeros}{digits}"
    if len(text) <= 24 and len(text.replace(".", "").lstrip("0")) <= MOST_DIGITS:
        assert _read([text]) == [float(text)]
