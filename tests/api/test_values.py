import json

import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

from app.api.values import Attribute, Name, Number, bad_names, payload_text

NAMES = ["a", "A.b_c:d-9", "...", ".a", "x" * 128]
NO_NAMES = ["", ".", "..", "a b", "x" * 129, "\u00e9", "a\n", "a/b", "\0"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_accepted(name: str) -> None:
    assert TypeAdapter(Name).validate_python(name) == name


@pytest.mark.parametrize("name", NO_NAMES)
def test_other_strings_are_no_names(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)


def test_a_column_of_names_is_checked_the_same_way() -> None:
    column = pa.array([*NAMES, *NO_NAMES, None])
    assert bad_names(column).tolist() == list(range(len(NAMES), len(NAMES) + len(NO_NAMES)))


@pytest.mark.parametrize("text", ["0", "-0.0", "1e300", "-1e300", "5e-324", "123456789012345678901234567890"])
def test_numbers_are_accepted(text: str) -> None:
    assert TypeAdapter(Number).validate_json(text) == float(text)


@pytest.mark.parametrize("text", ["true", '"1"', "null", "1.1e300", "1e999", "-1e999", "[1]", "1" + "0" * 400])
def test_other_values_are_no_numbers(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Number).validate_json(text)


@pytest.mark.parametrize("name", ["9a", "", "a-b", "x" * 65, "a.b", "a\n"])
def test_attributes_are_identifiers(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Attribute).validate_python(name)


def test_a_payload_becomes_compact_json() -> None:
    assert payload_text({"to": "IAH", "n": [1, 2.5, None]}, 100) == b'{"to":"IAH","n":[1,2.5,null]}'
    assert payload_text(None, 100) is None
    assert payload_text("NaN", 100) == b'"NaN"'


@pytest.mark.parametrize(
    "text", ["[" * 128 + "]" * 128, '{"a":[' * 64 + "]}" * 64, f"[{'[[]],' * 500}1]", f'"{"[" * 200}"']
)
def test_a_payload_may_be_nested_and_wide(text: str) -> None:
    assert payload_text(json.loads(text), 10_000) == text.encode()


def test_a_payload_beyond_the_limit_or_beyond_float64_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 4 bytes"):
        payload_text("1234", 4)
    with pytest.raises(ValueError, match="nested at most 128"):
        payload_text(json.loads('{"a":[' * 64 + "[1]" + "]}" * 64), 10_000)
    with pytest.raises(ValueError, match="float64"):
        payload_text({"a": [float("inf")]}, 100)
