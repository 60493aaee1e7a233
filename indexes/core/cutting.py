"""JSON of one shape is cut: elements of a list, or requests of a socket, that differ in their ids and numbers alone,
where the text between these is the same in all of them.

Ids are copied one behind the other, and numbers are read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.decimals import LEAST_POWER, MOST_DIGITS, MOST_POWER, POWERS, nearest_float
from indexes.compiled.jit import inlined, kernel
from indexes.compiled.simd import low_bit
from indexes.compiled.text import EIGHT, Pieces, eight_bytes, pieces_of, put
from indexes.core.arrays import Bools, Bytes, Floats, Ints, Ints32, UInt64s, int64, uint64

LONGEST_ID, LONGEST_NUMBER = 128, 24
"""Characters of an id and of a number that is cut."""

MOST_REF = 15
"""Digits of the number of a request that is read."""

NEWLINE, SPACE = 10, 32
"""The bytes behind each request, and behind each id."""

LARGEST = float(1 << 53)
"""The size up to which numbers are read here: their text has one meaning, whoever reads it."""

LARGEST_BITS = int(np.float64(LARGEST).view(np.uint64))
"""The bits of that: those of positive floats are in the order of these."""

MINUS, PLUS, POINT, ZERO, NINE, SMALL_E, LARGE_E = 45, 43, 46, 48, 57, 101, 69
CLOSED = 125
"""The brace that ends an object."""

IN_ID = np.zeros(256, np.bool_)
"""The characters of an id that is surely good; a point is not the first of them."""
IN_ID[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")] = True


class Cut(NamedTuple):
    """What is cut out of elements: the texts of their ids, a SPACE behind each, and by column the bits of their
    numbers. Those that have too many digits, or are very small, are zero there: `unread` has column, element, begin and
    end of each."""

    ids: Bytes
    numbers: UInt64s
    unread: Ints32


def room(size: int, pieces: Pieces, numbers: int) -> Cut:
    """Room for what is cut out of so many bytes, of elements with these pieces and so many numbers, and for EIGHT bytes
    behind the ids."""
    variables = len(pieces.begin) - 1
    most = size // (int(pieces.begin[variables]) + variables) + 1
    # A comma may be as short as what stands behind an id.
    return Cut(
        np.empty(size + 1 + EIGHT, np.uint8),
        np.empty((numbers, most), np.uint64),
        np.empty((numbers * most, 4), np.int32),
    )


@kernel
def cut_elements(
    text: Bytes, begin: int, end: int, pieces: Pieces, id: int, in_id: Bools, powers: UInt64s, out: Cut
) -> tuple[int, int, int]:
    """Cut the elements between the first variable, which begins at `begin`, and the last one, which ends at `end`.

    Variable `id` of each is an id, if it has so many, and the others are numbers of JSON. Piece v is the text behind
    variable v, and the last piece that between two elements. The character at `end` belongs to no variable. Returns how
    many elements there are, how many bytes their ids take up, and how many numbers are unread; -1 and zeros if they are
    not of this shape. O(bytes).
    """
    variables = len(pieces.begin) - 1
    n, v, at = int64(0), int64(0), begin
    id_size, unread = int64(0), int64(0)
    good, done = True, False
    while good and not done:
        first = at
        if v == id:
            at = id_end(text, at, in_id)
            good = 0 < at - first <= LONGEST_ID and text[uint64(first)] != POINT
            if good:
                id_size = put(out.ids, id_size, text, first, at - first)
                out.ids[uint64(id_size)] = SPACE
                id_size += 1
        else:
            column = v - (v > id)
            at, bits, is_read = float_at(text, at, powers)
            good = 0 < at - first <= LONGEST_NUMBER
            if good:
                out.numbers[uint64(column), uint64(n)] = bits
            if good and not is_read:
                out.unread[uint64(unread), 0], out.unread[uint64(unread), 1] = column, n
                out.unread[uint64(unread), 2], out.unread[uint64(unread), 3] = first, at
                unread += 1
        done = at == end and v == variables - 1
        if good and not done:
            piece = pieces.begin[uint64(v)]
            length = pieces.begin[uint64(v + 1)] - piece
            good = at + length <= end and same(text, at, pieces.text, piece, length)
            at += length
        v += 1
        if v == variables:
            v = 0
            n += 1
    return (n, id_size, unread) if good else (int64(-1), int64(0), int64(0))


@kernel
def cut_requests(text: Bytes, pieces: Pieces, refs: Ints, spans: Ints) -> int:
    """Cut requests, each an object with a NEWLINE behind it: piece 0, a whole number, piece 1, a value, and a brace.

    Writes the number of each to `refs`, and the places where its value begins and ends to `spans`, two by two. Returns
    how many were cut before one that has another shape, at most as many as there is room for. Behind the last NEWLINE
    there are as many bytes as the longer piece has. O(bytes).
    """
    n, at, good = 0, int64(0), True
    while good and n < len(refs):
        good = same(text, at, pieces.text, int64(0), pieces.begin[1])
        first = at + pieces.begin[1]
        at = digits_end(text, first) if good else first
        good = good and 0 < at - first <= MOST_REF and (text[uint64(first)] != ZERO or at == first + 1)
        number = int64(0)
        if good:
            for i in range(first, at):
                number = 10 * number + (int64(text[uint64(i)]) - ZERO)
        good = good and same(text, at, pieces.text, pieces.begin[1], pieces.begin[2] - pieces.begin[1])
        if good:
            at += pieces.begin[2] - pieces.begin[1]
            begin = at
            while text[uint64(at)] != NEWLINE:
                at += 1
            good = at - 1 > begin and text[uint64(at - 1)] == CLOSED
            refs[uint64(n)] = number
            spans[uint64(2 * n)], spans[uint64(2 * n + 1)] = begin, at - 1
            at += 1
            n += good
    return n


def exercise() -> None:
    """Cut two requests with an id and a number each, so that the kernels are ready."""
    text = np.frombuffer(b"1,a:5}\n2,b:6}\n" + bytes(EIGHT), np.uint8)
    refs, spans = np.empty(2, np.int64), np.empty(4, np.int64)
    cut_requests(text, pieces_of(["", ","]), refs, spans)
    pieces = pieces_of([",", ":", "}\n"])
    cut_elements(text, 0, 12, pieces, 1, IN_ID, POWERS, room(12, pieces, 2))


def numbers_of(out: Cut, text: Bytes, n: int, unread: int) -> Floats | None:
    """The numbers of n elements by column, with those that were left unread; None where one of these is larger than
    LARGEST."""
    values = out.numbers[:, :n].view(np.float64)
    for column, element, first, last in out.unread[:unread].tolist() if unread else ():
        values[column, element] = number = float(text[first:last].tobytes())
        if not abs(number) <= LARGEST:
            return None
    return values


@inlined
def same(text: Bytes, at: int, other: Bytes, begin: int, length: int) -> bool:
    """Whether two texts of one length are the same."""
    differ = uint64(0)
    if length < EIGHT:
        for i in range(length):
            differ |= uint64(text[uint64(at + i)] ^ other[uint64(begin + i)])
    else:
        # The last eight bytes may have been compared in part.
        last = length - EIGHT
        differ = eight_bytes(text, at + last) ^ eight_bytes(other, begin + last)
        for i in range(0, last, EIGHT):
            differ |= eight_bytes(text, at + i) ^ eight_bytes(other, begin + i)
    return differ == uint64(0)


@inlined
def id_end(text: Bytes, at: int, in_id: Bools) -> int:
    """Where the characters of an id end."""
    while in_id[uint64(text[uint64(at)])]:
        at += 1
    return at


@inlined
def digits_end(text: Bytes, at: int) -> int:
    """Where digits end."""
    while ZERO <= text[uint64(at)] <= NINE:
        at += 1
    return at


@inlined
def float_at(text: Bytes, at: int, powers: UInt64s) -> tuple[int, int, bool]:
    """Where the number of JSON ends that begins here, 0 as of `number_at` or if it is larger than LARGEST; its bits as
    a float, and whether it was read: zero is there for one that was not."""
    end, digits, power, is_read = number_at(text, at)
    if not is_read:
        return end, uint64(0), False
    bits = nearest_float(powers, digits, power)
    if int64(bits) > LARGEST_BITS:
        end = int64(0)
    return end, bits | (uint64(text[uint64(at)] == MINUS) << uint64(63)), True


@inlined
def number_at(text: Bytes, at: int) -> tuple[int, int, int, bool]:
    """Where the number of JSON ends that begins here, 0 if none does, or if it is -0, which is 0 as
    a whole number; its digits as an unsigned number, the power of ten to multiply them by, and whether they say all and
    the power is one of `decimals.POWERS`."""
    negative = text[uint64(at)] == MINUS
    at += negative
    first = at
    digits, power = uint64(0), int64(0)
    # Zeros in front do not count. More digits than count may make any number of 64 bits.
    count = int64(0)
    while ZERO <= text[uint64(at)] <= NINE:
        digits = uint64(10) * digits + uint64(text[uint64(at)] - ZERO)
        count += count > 0 or digits != 0
        at += 1
    good = at > first and (text[uint64(first)] != ZERO or at == first + 1)
    whole = text[uint64(at)] != POINT and text[uint64(at)] != SMALL_E and text[uint64(at)] != LARGE_E
    good = good and not (whole and negative and text[uint64(first)] == ZERO)
    if text[uint64(at)] == POINT:
        first = at + 1
        at = first
        digits, count, at = eights_of_digits(text, at, digits, count)
        while ZERO <= text[uint64(at)] <= NINE:
            digits = uint64(10) * digits + uint64(text[uint64(at)] - ZERO)
            count += count > 0 or digits != 0
            at += 1
        good = good and at > first
        power = first - at
    if text[uint64(at)] == SMALL_E or text[uint64(at)] == LARGE_E:
        at += 1
        below = text[uint64(at)] == MINUS
        at += below or text[uint64(at)] == PLUS
        first = at
        exponent = int64(0)
        while ZERO <= text[uint64(at)] <= NINE:
            exponent = min(10 * exponent + int64(text[uint64(at)] - ZERO), int64(1 << 20))
            at += 1
        good = good and at > first
        power += -exponent if below else exponent
    is_read = count <= MOST_DIGITS and LEAST_POWER <= power <= MOST_POWER
    return at if good else int64(0), digits, power, is_read


@inlined
def eights_of_digits(text: Bytes, at: int, digits: int, count: int) -> tuple[int, int, int]:
    """Append digits to the number `digits`, of which `count` are not leading zeros: eight at a time, from `at` on, as
    long as there are eight. Returns the number and the count with them, and the place behind them. After Lemire and
    Muła. O(digits)."""
    going = at + EIGHT <= len(text)
    while going:
        word = eight_bytes(text, at)
        # The upper half of a digit is 3, also with 6 more.
        upper = uint64(0xF0F0F0F0F0F0F0F0)
        above = ((word + uint64(0x0606060606060606)) & upper) >> uint64(4)
        going = (word & upper) | above == uint64(0x3333333333333333)
        if going:
            word &= uint64(0x0F0F0F0F0F0F0F0F)
            if count > 0:
                count += EIGHT
            elif word != uint64(0):
                count = EIGHT - (low_bit(int64(word)) >> 3)
            word = (word * uint64(2561)) >> uint64(8) & uint64(0x00FF00FF00FF00FF)
            word = (word * uint64(6553601)) >> uint64(16) & uint64(0x0000FFFF0000FFFF)
            digits = uint64(100_000_000) * digits + ((word * uint64(42949672960001)) >> uint64(32))
            at += EIGHT
            going = at + EIGHT <= len(text)
    return digits, count, at
