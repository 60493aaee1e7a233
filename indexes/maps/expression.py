"""Expressions of users, such as `distance * 2 + price ** 0.5`: compiled, and proved not to fall with distance.

    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("+" | "-") factor | power
    power    = atom ["**" factor]
    atom     = number | "(" sum ")" | ("min" | "max") "(" sum "," sum {"," sum} ")"
             | ("sqrt" | "log" | "exp") "(" sum ")" | "distance" | name of an attribute

As in Python, `-2 ** 2` is -4 and `2 ** 3 ** 2` is 512. A name followed by a parenthesis is a function. Length and depth
are bounded, and only programs (`programs.py`) are evaluated.

An expression must be proved non-decreasing in distance, over the ranges of attributes and for every distance. Each part
has an interval of values and a trend: constant, rising, falling, or unknown. Trends follow from the trends and signs of
the operands, so they hold for computed values as well as for exact ones. A part that depends on distance must have a
value for every distance: else an object could rank last nearby and not far away. This is sound, not complete:
`distance - distance / 2` is refused, and `distance / 2` is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from indexes.maps.attributes import Attribute
from indexes.maps.kernels.programs import (
    ADD,
    DISTANCE,
    DIVIDE,
    EXP,
    LOG,
    MAX,
    MIN,
    MOST,
    MULTIPLY,
    NEGATE,
    NEGATED_STATIC,
    NUMBER,
    POWER,
    SQRT,
    STATIC,
    SUBTRACT,
    Program,
    exponential,
    logarithm_of,
    power_of,
    product_of,
    program,
    quotient_of,
    root_of,
    wider,
)

LONGEST = 1_000
"""Characters of an expression."""

DEEPEST = 50
"""Nesting of parentheses, functions, signs and exponents."""

FUNCTIONS = {"min": MIN, "max": MAX, "sqrt": SQRT, "log": LOG, "exp": EXP}
OPERATORS = {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE}

CONSTANT, RISING, FALLING, UNKNOWN = range(4)

_TOKEN = re.compile(
    r"\s*(?:((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|([A-Za-z_][A-Za-z0-9_.]*)|(\*\*|[-+*/(),]))"
)


class BadExpression(ValueError):
    """The text is no expression, or cannot be proved not to fall with distance; says why."""


class Compiled(NamedTuple):
    """A compiled expression; `constant`: it does not depend on distance."""

    program: Program
    constant: bool


def compiled(text: str, attributes: Sequence[Attribute]) -> Compiled:
    """Compile an expression. O(length).

    Raises:
        BadExpression: it is too long or too deep, is no expression, uses an unknown name, or may fall as distance grows
            or have no value at some distances.
    """
    parser = _Parser(text, attributes)
    parser.whole()
    trend = _trend(parser.steps, parser.texts, attributes)
    return Compiled(program(parser.steps), trend == CONSTANT)


@lru_cache(maxsize=4_096)
def count_steps(text: str) -> int:
    """How many steps the program of an expression has, at most. O(length)."""
    # Each number, name and operator is a step at most; of a call with n operands n - 1 are, and n - 1 commas.
    return sum(found[0].strip() not in ("(", ")") for found in _TOKEN.finditer(text))


class _Parser:
    """Recursive descent. `steps` grows while it reads; `texts` has the part of the text that each step completes."""

    def __init__(self, text: str, attributes: Sequence[Attribute]) -> None:
        if len(text) > LONGEST:
            raise BadExpression(f"it has {len(text):,} characters, more than {LONGEST:,}")
        self._text = text
        self._column = {attribute.name: j for j, attribute in enumerate(attributes)}
        self._attributes = attributes
        self._tokens = self._split(text)
        self._at = 0
        self._depth = 0
        self.steps: list[tuple[int, float]] = []
        self.texts: list[str] = []

    @staticmethod
    def _split(text: str) -> list[tuple[str, int, int]]:
        tokens, at = [], 0
        rest = len(text.rstrip())
        while at < rest:
            found = _TOKEN.match(text, at)
            if found is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise BadExpression(f"{text[at]!r} at {at + 1} is no number, name or operator")
            at = found.end()
            tokens.append((found[found.lastindex or 0], found.start(found.lastindex or 0), at))
        return [*tokens, ("", len(text), len(text))]

    @property
    def _next(self) -> str:
        return self._tokens[self._at][0]

    def _begin(self) -> int:
        return self._tokens[self._at][1]

    def _take(self, token: str) -> None:
        if self._next != token:
            raise BadExpression(f"{token!r} is missing {self._place()}")
        self._at += 1

    def _place(self) -> str:
        return f"before {self._next!r} at {self._begin() + 1}" if self._next else "at the end"

    def _emit(self, step: int, operand: float, begin: int) -> None:
        self.steps.append((step, operand))
        self.texts.append(self._text[begin : self._tokens[self._at - 1][2]])

    def whole(self) -> None:
        """Parse all of the text."""
        self._sum()
        if self._next:
            raise BadExpression(f"an operator is missing {self._place()}")

    def _sum(self) -> None:
        self._left(("+", "-"), self._product)

    def _product(self) -> None:
        self._left(("*", "/"), self._factor)

    def _left(self, operators: tuple[str, ...], part: object) -> None:
        assert callable(part)
        begin = self._begin()
        part()
        while self._next in operators:
            step = OPERATORS[self._next]
            self._at += 1
            part()
            self._emit(step, 0.0, begin)

    def _factor(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadExpression(f"it is deeper than {DEEPEST} at {self._begin() + 1}")
        begin = self._begin()
        if self._next in ("+", "-"):
            minus = self._next == "-"
            self._at += 1
            self._factor()
            if minus:
                self._emit(NEGATE, 0.0, begin)
        else:
            self._atom()
            if self._next == "**":
                self._at += 1
                self._factor()
                self._emit(POWER, 0.0, begin)
        self._depth -= 1

    def _atom(self) -> None:
        token, begin, _ = self._tokens[self._at]
        self._at += 1
        if token[:1].isdigit() or token[:1] == ".":
            number = float(token)
            if number > MOST:
                raise BadExpression(f"{token} at {begin + 1} is too large")
            self._emit(NUMBER, number, begin)
        elif token == "(":  # noqa: S105 - a token of an expression
            self._sum()
            self._take(")")
        elif token[:1].isalpha() or token[:1] == "_":
            self._call(token, begin) if self._next == "(" else self._name(token, begin)
        else:
            self._at -= 1
            raise BadExpression(f"a number or a name is missing {self._place()}")

    def _call(self, name: str, begin: int) -> None:
        if name not in FUNCTIONS:
            raise BadExpression(f"{name!r} at {begin + 1} is no function; these are: {', '.join(FUNCTIONS)}")
        step = FUNCTIONS[name]
        self._take("(")
        self._sum()
        if step in (MIN, MAX):
            self._take(",")
            while True:
                self._sum()
                self._emit(step, 0.0, begin)
                if self._next != ",":
                    break
                self._at += 1
            self._take(")")
        else:
            self._take(")")
            self._emit(step, 0.0, begin)

    def _name(self, name: str, begin: int) -> None:
        if name == "distance":
            self._emit(DISTANCE, 0.0, begin)
        elif name in self._column:
            j = self._column[name]
            self._emit(NEGATED_STATIC if self._attributes[j].high else STATIC, float(j), begin)
        else:
            raise BadExpression(f"{name!r} at {begin + 1} is no attribute, nor `distance`")


class _Part(NamedTuple):
    """What is known of a part: the interval of its values, and its trend with distance."""

    lo: float
    hi: float
    trend: int


def _trend(steps: list[tuple[int, float]], texts: list[str], attributes: Sequence[Attribute]) -> int:
    """The trend of the whole, which is constant or rising."""
    stack: list[_Part] = []
    culprit = ""
    for (step, operand), text in zip(steps, texts, strict=True):
        if step == NUMBER:
            part = _Part(operand, operand, CONSTANT)
        elif step == DISTANCE:
            part = _Part(0.0, MOST, RISING)
        elif step in (STATIC, NEGATED_STATIC):
            lo, hi = attributes[int(operand)].range or (0.0, MOST)
            part = _Part(float(lo), float(hi), CONSTANT)
        elif step in (NEGATE, SQRT, LOG, EXP):
            part = _unary(step, stack.pop(), text)
        else:
            b, a = stack.pop(), stack.pop()
            part = _binary(step, a, b, text)
        if part.trend == UNKNOWN and not culprit:
            culprit = text
        stack.append(part)
    trend = stack[0].trend
    if trend == UNKNOWN:
        raise BadExpression(f"it cannot be shown not to fall as distance grows, because of `{culprit}`")
    if trend == FALLING:
        raise BadExpression("it falls as distance grows")
    return trend


def _unary(step: int, a: _Part, text: str) -> _Part:
    if step == NEGATE:
        return _Part(-a.hi, -a.lo, _turned(a.trend))
    if step == EXP:
        lo, hi = wider(exponential(a.lo), exponential(a.hi))
        return _Part(lo, hi, a.trend)
    if a.trend != CONSTANT and (a.lo < 0.0 or (step == LOG and a.lo == 0.0)):
        raise BadExpression(f"`{text}` may have no value at some distances: what is in it may be {a.lo:g}")
    lo, hi, _ = root_of(a.lo, a.hi) if step == SQRT else logarithm_of(a.lo, a.hi)
    return _Part(lo, hi, a.trend)


def _binary(step: int, a: _Part, b: _Part, text: str) -> _Part:
    if step == ADD:
        return _Part(max(a.lo + b.lo, -MOST), min(a.hi + b.hi, MOST), _joined(a.trend, b.trend))
    if step == SUBTRACT:
        return _Part(max(a.lo - b.hi, -MOST), min(a.hi - b.lo, MOST), _joined(a.trend, _turned(b.trend)))
    if step in (MIN, MAX):
        least = min if step == MIN else max
        return _Part(least(a.lo, b.lo), least(a.hi, b.hi), _joined(a.trend, b.trend))
    if step == MULTIPLY:
        trend = _joined(_times(a.trend, _sign(b.lo, b.hi)), _times(b.trend, _sign(a.lo, a.hi)))
        lo, hi = product_of(a.lo, a.hi, b.lo, b.hi)
        return _Part(lo, hi, trend)
    if step == DIVIDE:
        if b.trend != CONSTANT and b.lo <= 0.0 <= b.hi:
            raise BadExpression(f"`{text}` may have no value at some distances: it may divide by zero")
        lo, hi, _ = quotient_of(a.lo, a.hi, b.lo, b.hi)
        trend = _joined(_times(a.trend, _sign(b.lo, b.hi)), _turned(_times(b.trend, _sign(a.lo, a.hi))))
        return _Part(lo, hi, trend)
    lo, hi, _ = power_of(a.lo, a.hi, b.lo, b.hi)
    return _Part(lo, hi, _joined(_in_base(a, b, text), _in_exponent(a, b, text)))


def _in_base(a: _Part, b: _Part, text: str) -> int:
    """The trend of a power in its base, which has the trend of `a`."""
    if a.trend == CONSTANT or (b.lo == 0.0 and b.hi == 0.0):
        return CONSTANT
    whole = b.lo == b.hi and b.lo.is_integer()
    if (a.lo < 0.0 and not whole) or (a.lo <= 0.0 <= a.hi and b.lo < 0.0):
        raise BadExpression(f"`{text}` may have no value at some distances: its base may be {a.lo:g}")
    trend = _times(a.trend, _sign(b.lo, b.hi))
    return trend if whole and b.lo % 2 else _times(trend, _sign(a.lo, a.hi))


def _in_exponent(a: _Part, b: _Part, text: str) -> int:
    """The trend of a power in its exponent, which has the trend of `b`."""
    if b.trend == CONSTANT:
        return CONSTANT
    if a.lo <= 0.0:
        raise BadExpression(f"`{text}` may have no value at some distances: its base may be {a.lo:g}")
    return _times(b.trend, _sign(a.lo - 1.0, a.hi - 1.0))


def _sign(lo: float, hi: float) -> int:
    """1 or -1 where nothing in an interval has the other sign, 0 where something has."""
    return 1 if lo >= 0.0 else -1 if hi <= 0.0 else 0


def _times(trend: int, sign: int) -> int:
    if trend == CONSTANT or sign > 0:
        return trend
    return _turned(trend) if sign < 0 else UNKNOWN


def _turned(trend: int) -> int:
    return {RISING: FALLING, FALLING: RISING}.get(trend, trend)


def _joined(a: int, b: int) -> int:
    if a == CONSTANT or a == b:
        return b
    return a if b == CONSTANT else UNKNOWN
