"""Numbers and rows as text, against the writer of JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from indexes.compiled.rows_text import INTEGER, TEXT, template, written

ONE = template(["", ""], [0])

EDGES = [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e15, 1e16, 1e17, 2.0**53, 2.0**60]
EDGES += [1e-4, 1e-5, 9.5e-6, 1e-7, 9007199254740993.0, 1e22, 1e23, 9.999999999999998e16, 0.3, 4.35, math.nan, math.inf]


def texts(values: list[float]) -> list[str]:
    found = written(ONE, np.array([values]))
    return [found.rows(i, i + 1) for i in range(len(values))]


def wanted(value: float) -> str:
    text = to_json(value, inf_nan_mode="null").decode()
    return text.removesuffix(".0").replace("-0", "0") if text in ("0.0", "-0.0") else text.removesuffix(".0")


@given(st.lists(st.one_of(st.floats(), st.sampled_from(EDGES), st.integers(0, 10**17).map(float)), max_size=20))
def test_a_number_is_written_as_json_has_it(values: list[float]) -> None:
    assert texts(values) == list(map(wanted, values))


@given(
    st.lists(st.integers(0, (1 << 63) - (1 << 52) - 1).map(lambda bits: np.int64(bits).view(np.float64)), max_size=20)
)
def test_any_bits_are_read_back(values: list[float]) -> None:
    assert [float(text) for text in texts(values)] == values


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_neighbours_of_powers_of_two_and_ten_are_the_shortest(sign: float) -> None:
    powers = np.concatenate([2.0 ** np.arange(-1074, 1024), [float(f"1e{k}") for k in range(-323, 309)]])
    values = sign * np.concatenate([powers, np.nextafter(powers, 0.0), np.nextafter(powers, np.inf)])
    kept = values[np.isfinite(values)].tolist()
    assert texts(kept) == list(map(wanted, kept))


def test_decimals_of_few_digits_come_back_as_they_were() -> None:
    rng = np.random.default_rng(5)
    said = [f"{rng.integers(1, 10**6)}e{rng.integers(-30, 30)}" for _ in range(300)]
    assert texts([float(text) for text in said]) == [wanted(float(text)) for text in said]


@given(
    st.lists(
        st.tuples(st.text("aü:_", max_size=4), st.floats(-9, 9), st.integers(0, 2**62), st.text("xyz", max_size=2)),
        max_size=6,
    )
)
def test_rows_are_the_template_with_their_fields(rows: list[tuple[str, float, int, str]]) -> None:
    form = template(['{"id":"', '","x":', ',"n":', ',"more":"', '"}'], [TEXT, 0, INTEGER, TEXT])
    numbers, integers = np.array([[x for _, x, _, _ in rows]]), np.array([n for _, _, n, _ in rows], np.int64)
    found = written(form, numbers, integers, [text for id, _, _, more in rows for text in (id, more)])
    assert json.loads(f"[{found.rows(0, len(rows))}]") == [
        {"id": id, "x": x, "n": n, "more": more} for id, x, n, more in rows
    ]
    for i, (id, *_) in enumerate(rows):
        assert json.loads(found.rows(i, i + 1))["id"] == id
