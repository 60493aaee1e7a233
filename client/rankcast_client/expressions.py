"""Expressions as scores, `distance * 2 + price ** 0.5`: read and run as the service does, not by Python.

    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("+" | "-") factor | power
    power    = atom ["**" factor]
    atom     = number | "(" sum ")" | ("min" | "max") "(" sum "," sum {"," sum} ")"
             | ("sqrt" | "log" | "exp") "(" sum ")" | "distance" | name of an attribute

A number beyond the greatest float64 stays at that. What has no value (a logarithm of what is not positive, a root of
what is negative, a division by zero, a negative base under a broken exponent, zero under a negative one) leaves the
whole without one. Whether an expression grows with distance the service has shown before it gives an answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

MOST = 1.7976931348623157e308
GREATEST_EXPONENT = 709.782712893384
"""What the exponential function takes to about `MOST`."""

LONGEST = 1_000
"""Characters of an expression."""

DEEPEST = 50
"""Parentheses, functions, signs and exponents within each other."""

_TOKEN = re.compile(r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_][A-Za-z0-9_.]*)|(\*\*|[-+*/(),]))")


class Undefined(Exception):
    """A part of an expression has no value."""


def clamped(x: float) -> float:
    """x, or the finite number nearest to it."""
    return MOST if x > MOST else -MOST if x < -MOST else x


def _divide(x: float, y: float) -> float:
    if y == 0.0:
        raise Undefined
    return clamped(x / y)


def _power(x: float, e: float) -> float:
    if (x < 0.0 and e != math.floor(e)) or (x == 0.0 and e < 0.0):
        raise Undefined
    if e == 0.0 or x == 1.0:
        return 1.0
    negative = x < 0.0 and e % 2.0 == 1.0
    if x != 0.0 and e * math.log(abs(x)) > GREATEST_EXPONENT:
        return -MOST if negative else MOST
    try:
        return math.pow(x, e)
    except OverflowError:
        return -math.inf if negative else math.inf


def _root(x: float) -> float:
    if x < 0.0:
        raise Undefined
    return math.sqrt(x)


def _logarithm(x: float) -> float:
    if x <= 0.0:
        raise Undefined
    return math.log(x)


def _exponential(x: float) -> float:
    return MOST if x > GREATEST_EXPONENT else math.exp(x)


UNARY: Mapping[str, Callable[[float], float]] = {"sqrt": _root, "log": _logarithm, "exp": _exponential}
BINARY: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda x, y: clamped(x + y),
    "-": lambda x, y: clamped(x - y),
    "*": lambda x, y: clamped(x * y),
    "/": _divide,
    "**": _power,
    "min": min,
    "max": max,
}

Step = float | str | Callable[[float], float] | Callable[[float, float], float]


class Expression:
    """An expression that was read. Raises ValueError for what is none, or names what is no attribute."""

    def __init__(self, text: str, attributes: Sequence[str]) -> None:
        self._steps = _Reader(text, attributes).steps

    def __call__(self, distance: float, values: Mapping[str, float]) -> float | None:
        """Its value at a distance; None where it has none. O(length)."""
        stack: list[float] = []
        try:
            for step, arguments in self._steps:
                if isinstance(step, str):
                    stack.append(clamped(distance if step == "distance" else float(values[step])))
                elif isinstance(step, float):
                    stack.append(step)
                elif arguments == 1:
                    stack[-1] = step(stack[-1])  # type: ignore[call-arg]
                else:
                    y = stack.pop()
                    stack[-1] = step(stack[-1], y)  # type: ignore[call-arg]
        except Undefined:
            return None
        return stack[0] if math.isfinite(stack[0]) else None


class _Reader:
    """Recursive descent. `steps` are in the order in which they are run, each with how many values it takes."""

    def __init__(self, text: str, attributes: Sequence[str]) -> None:
        if len(text) > LONGEST:
            raise ValueError(f"it has {len(text):,} characters, more than {LONGEST:,}")
        self.steps: list[tuple[Step, int]] = []
        self._names = {"distance", *attributes}
        self._depth = 0
        self._at = 0
        self._tokens = self._split(text)
        self._sum()
        if self._next:
            raise ValueError(f"an operator is missing before {self._next!r}")

    @staticmethod
    def _split(text: str) -> list[str]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"{text[at:].lstrip()[0]!r} is no number, name or operator")
            at = found.end()
            tokens.append(found[found.lastindex or 0])
        return [*tokens, ""]

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    def _take(self, token: str) -> None:
        if self._next != token:
            raise ValueError(f"{token!r} is missing {f'before {self._next!r}' if self._next else 'at the end'}")
        self._at += 1

    def _sum(self) -> None:
        self._left(("+", "-"), self._product)

    def _product(self) -> None:
        self._left(("*", "/"), self._factor)

    def _left(self, operators: tuple[str, ...], part: Callable[[], None]) -> None:
        part()
        while (operator := self._next) in operators:
            self._at += 1
            part()
            self.steps.append((BINARY[operator], 2))

    def _factor(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"it is deeper than {DEEPEST}")
        if (sign := self._next) in ("+", "-"):
            self._at += 1
            self._factor()
            if sign == "-":
                self.steps.append((_negated, 1))
        else:
            self._atom()
            if self._next == "**":
                self._at += 1
                self._factor()
                self.steps.append((_power, 2))
        self._depth -= 1

    def _atom(self) -> None:
        token = self._next
        self._at += bool(token)
        if token[:1].isdigit() or token[:1] == ".":
            number = float(token)
            if number > MOST:
                raise ValueError(f"{token} is too large")
            self.steps.append((number, 0))
        elif token == "(":  # noqa: S105 - a token of an expression
            self._sum()
            self._take(")")
        elif (token in UNARY or token in ("min", "max")) and self._next == "(":
            self._call(token)
        elif token in self._names and self._next != "(":
            self.steps.append((token, 0))
        elif token[:1].isalpha() or token[:1] == "_":
            raise ValueError(f"{token!r} is no {'function' if self._next == '(' else 'attribute, nor `distance`'}")
        else:
            raise ValueError(f"a number or a name is missing {f'before {token!r}' if token else 'at the end'}")

    def _call(self, name: str) -> None:
        self._take("(")
        self._sum()
        if name in UNARY:
            self.steps.append((UNARY[name], 1))
        else:
            self._take(",")
            while True:
                self._sum()
                self.steps.append((BINARY[name], 2))
                if self._next != ",":
                    break
                self._at += 1
        self._take(")")


def _negated(x: float) -> float:
    return -x
