"""Expressions: what is read, what is refused and why, and that programs and their intervals are right."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.attributes import Attribute
from indexes.maps.expression import DEEPEST, LONGEST, BadExpression, compiled
from indexes.maps.kernels.programs import run, run_over
from tests.oracles import top_k as oracle

ATTRIBUTES = (Attribute("price", False, (0.0, 10.0)), Attribute("rating", True, (1.0, 5.0)), Attribute("free_1.x"))


def value(text: str, far: float, *values: Any) -> float | None:
    """What a program comes to; None where it has no value."""
    p = compiled(text, ATTRIBUTES).program
    columns = np.array([v * sign for v, sign in zip(values, (1.0, -1.0, 1.0), strict=False)])
    found = run(p, far, columns, 1, 0)
    return None if math.isnan(found) else found


def test_the_grammar_is_that_of_python() -> None:
    for text, wanted in {
        "1 + 2 * 3 + distance": 17.0,
        "distance - 1 - 2": 7.0,
        "distance / 2 / 5": 1.0,
        "2 ** 3 ** 2 + distance": 522.0,
        "-2 ** 2 + distance": 6.0,
        "2 ** -1 * distance": 5.0,
        "(1 + 2) * distance": 30.0,
        "+distance": 10.0,
        "--distance": 10.0,
        "min(distance, price, 2)": 2.0,
        "max(1.5e1, distance)": 15.0,
        ".5 * distance": 5.0,
        "sqrt(4) + log(exp(2)) + distance": 14.0,
        "distance + free_1.x": 110.0,
        "distance - rating": 6.0,
        "price ** 2": 9.0,
        " distance\n* 2 ": 20.0,
    }.items():
        assert value(text, 10.0, 3.0, 4.0, 100.0) == wanted, text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a number or a name is missing at the end"),
        ("1 +", "missing at the end"),
        ("distance distance", "an operator is missing before 'distance' at 10"),
        ("2distance", "an operator is missing"),
        ("(distance", "')' is missing at the end"),
        ("distance)", "an operator is missing before ')'"),
        ("min(distance)", "',' is missing"),
        ("exp(distance, 1)", "')' is missing"),
        ("size + distance", "'size' at 1 is no attribute"),
        ("sin(distance)", "'sin' at 1 is no function"),
        ("distance % 2", "'%' at 10 is no number"),
        ("__import__('os')", "is no number"),
        ("distance + \u0663", "'\u0663' at 12 is no number"),
        ("2\u0663 * distance", "'\u0663' at 2 is no number"),
        ("distance.real", "'distance.real' at 1 is no attribute"),
        ("1e999 + distance", "1e999 at 1 is too large"),
        ("distance" + " " * LONGEST, "characters, more than"),
        ("(" * DEEPEST + "distance" + ")" * DEEPEST, "it is deeper than"),
        ("-distance", "it falls as distance grows"),
        ("1 / (1 + distance)", "it falls as distance grows"),
        ("price - distance", "it falls"),
        ("(distance - 5) ** 2", "cannot be shown not to fall as distance grows, because of `(distance - 5) ** 2`"),
        ("distance - distance / 2", "cannot be shown"),
        ("distance * (price - 5)", "cannot be shown"),
        ("log(distance)", "`log(distance)` may have no value at some distances"),
        ("sqrt(distance - 1)", "may have no value at some distances"),
        ("1 / distance", "may divide by zero"),
        ("distance ** -1", "its base may be 0"),
        ("price ** distance", "its base may be 0"),
        ("(distance - 1) ** 0.5", "its base may be -1"),
        ("distance ** (price - 5)", "its base may be 0"),
        ("(1 + distance) ** (price - 5)", "cannot be shown"),
        ("1 - 1 / exp(distance - 800)", "may divide by zero"),
    ],
)
def test_what_is_refused_is_told_why(text: str, why: str) -> None:
    with pytest.raises(BadExpression) as refused:
        compiled(text, ATTRIBUTES)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("distance", False),
        ("price + rating", True),
        ("log(price - 3) * 2", True),
        ("distance ** 3 - rating ** 2", False),
        ("(distance - 5) ** 3", False),
        ("distance * price", False),
        ("distance / (1 + price)", False),
        ("2 - 1 / (1 + distance)", False),
        ("distance * (rating - 1) ** 2", False),
        ("(price - 5) ** 2 * distance", False),
        ("2 ** distance", False),
        ("3 - 0.5 ** distance", False),
        ("(1 + rating) ** sqrt(distance)", False),
        ("min(distance, 5) + max(distance, price)", False),
        ("log(1 + distance)", False),
        ("(0 - 1 - distance) ** 2", False),
        ("(-1 - distance) ** -1 + 5", False),
        ("exp(-rating) * distance", False),
    ],
)
def test_what_does_not_fall_is_shown(text: str, constant: bool) -> None:
    assert compiled(text, ATTRIBUTES).constant is constant


@pytest.mark.parametrize(
    "text",
    [
        "log(price - 5) + distance",
        "sqrt(price - 5) + distance",
        "distance + 1 / (price - 5)",
        "distance + (price - 5) ** -1",
        "distance + (price - 5) ** 0.5 * (price - 5) ** -0.5",
    ],
)
def test_what_has_no_value_leaves_the_whole_without(text: str) -> None:
    assert value(text, 1.0, 5.0 if "/" in text or "-1" in text or "-0.5" in text or "log" in text else 4.0, 1.0) is None
    assert value(text, 1.0, 6.0, 1.0) is not None


def test_numbers_stay_finite() -> None:
    assert value("exp(distance)", 1e6) == value("2 ** distance", 1e6) == 1.7976931348623157e308
    assert value("1 - 1 / exp(distance)", 1e6) == 1.0


numbers = st.sampled_from(["0", "1", "2", "0.5", "3", "10", "1e3"])
names = st.sampled_from(["distance", "price", "rating"])


def grown(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.tuples(parts, st.sampled_from(["+", "-", "*", "/", "**"]), parts).map(
        lambda p: f"({p[0]} {p[1]} {p[2]})"
    )
    calls = st.tuples(st.sampled_from(["min", "max"]), parts, parts).map(lambda p: f"{p[0]}({p[1]}, {p[2]})")
    unary = st.tuples(st.sampled_from(["sqrt", "log", "exp", "-", "1 + "]), parts).map(lambda p: f"{p[0]}({p[1]})")
    return st.one_of(pairs, calls, unary)


texts = st.recursive(st.one_of(numbers, names), grown, max_leaves=7)


@settings(max_examples=1500, deadline=None)
@given(texts, st.floats(0, 20), st.floats(0, 20), st.floats(0, 10), st.floats(1, 5))
def test_what_is_accepted_is_right_and_does_not_fall(
    text: str, a: float, b: float, price: float, rating: float
) -> None:
    """Against Python itself; nothing that falls, or has a value only farther away, gets through."""
    try:
        compiled(text, ATTRIBUTES)
    except BadExpression:
        return
    near, far = min(a, b), max(a, b)
    found = [value(text, at, price, rating) for at in (0.0, near, far, 1e9)]
    for at, mine in zip((0.0, near, far, 1e9), found, strict=True):
        theirs = oracle.expression(text, at, {"price": price, "rating": rating})
        assert mine == (None if math.isinf(theirs) else theirs), (text, at)
    assert all(mine is None for mine in found) or all(mine is not None for mine in found)
    known = [mine for mine in found if mine is not None]
    assert all(p <= q + 1e-12 * abs(q) for p, q in itertools.pairwise(known)), (text, known)


@settings(max_examples=800, deadline=None)
@given(texts, st.data())
def test_intervals_hold_all_that_they_are_of(text: str, data: st.DataObject) -> None:
    try:
        p = compiled(f"{text} * 0 + ({text})" if data.draw(st.booleans()) else text, ATTRIBUTES).program
    except BadExpression:
        return
    prices = sorted(data.draw(st.tuples(st.floats(0, 10), st.floats(0, 10))))
    ratings = sorted(data.draw(st.tuples(st.floats(1, 5), st.floats(1, 5))))
    away = sorted(data.draw(st.tuples(st.floats(0, 20), st.floats(0, 20))))
    lower, upper = np.array([prices[0], -ratings[1], 0.0]), np.array([prices[1], -ratings[0], 0.0])
    least, most = run_over(p, away[0], away[1], lower, upper, 1, 0)
    for _ in range(5):
        price, rating, far = (
            data.draw(st.one_of(st.sampled_from(ends), st.floats(*ends))) for ends in (prices, ratings, away)
        )
        found = run(p, far, np.array([price, -rating, 0.0]), 1, 0)
        assert least <= (math.inf if math.isnan(found) else found) <= most
