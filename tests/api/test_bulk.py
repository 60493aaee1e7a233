import json
from typing import Any

import pytest
from pydantic_core import SchemaValidator
from pydantic_core import core_schema as cs

from app.api.bulk import Lines, Place, read_list
from app.api.element_errors import ElementError, ElementErrors
from app.api.problems import Problem

ITEM = cs.typed_dict_schema({"n": cs.typed_dict_field(cs.int_schema(strict=True))}, extra_behavior="forbid")
OPTIONAL = cs.typed_dict_field(cs.literal_schema(["skip", "refuse"]), required=False)
WHOLE = SchemaValidator(
    cs.typed_dict_schema(
        {"items": cs.typed_dict_field(cs.list_schema(ITEM, max_length=5)), "on_error": OPTIONAL},
        extra_behavior="forbid",
    )
)
ELEMENT = SchemaValidator(ITEM)


def from_list(body: Any) -> tuple[dict[str, Any], list[Any], list[ElementError]]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    errors = ElementErrors()
    return (*read_list(raw, WHOLE, ELEMENT, "items", errors), list(errors))


def test_a_good_list_comes_as_it_is() -> None:
    assert from_list({"items": [{"n": 1}], "on_error": "refuse"}) == ({"on_error": "refuse"}, [{"n": 1}], [])


def test_one_bad_element_refuses_all_unless_told_to_skip() -> None:
    items = [{"n": 1}, {"n": "x"}, {"m": 2}, {"n": 3}]
    with pytest.raises(Problem) as refused:
        from_list({"items": items})
    assert [error.field for error in refused.value.errors] == ["items[1].n", "items[2].n", "items[2].m"]
    _, found, errors = from_list({"items": items, "on_error": "skip"})
    assert found == [{"n": 1}, None, None, {"n": 3}]
    assert [(error.index, error.field) for error in errors] == [(1, "n"), (2, "n"), (2, "m")]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"items": [{"n": "x"}], "on_error": "skip", "more": 1}, 422),
        ({"items": {}, "on_error": "skip"}, 422),
        ({"items": [{"n": 1}] * 6, "on_error": "skip"}, 413),
        (b'{"items": [{"n": "x"}], "on_error": "skip"', 400),
        (b'{"items": [{"n": NaN}], "on_error": "skip"}', 400),
        ([], 422),
    ],
)
def test_skip_excuses_elements_only(body: Any, status: int) -> None:
    with pytest.raises(Problem) as refused:
        from_list(body)
    assert refused.value.status_code == status


def test_lines_keep_their_numbers() -> None:
    errors = ElementErrors()
    source = Lines(b'\n{"n": 1}\n\n{"n": "x"}\n[]', ELEMENT, errors)
    [items] = list(source)
    assert items == [{"n": 1}, None, None]
    assert list(source.numbered) == [2, 4, 5]
    place = Place("items", source.numbered)
    named = [place.error(error) for error in errors]
    assert named == [("items[1].n", "must be an integer (line 4)"), ("items[2]", "must be an object (line 5)")]


@pytest.mark.parametrize("line", ['{"n": 1} {"n": 2}', '{"n":', "NaN", '{"n": -Infinity}', "\ufeff{}"])
def test_a_line_that_is_not_json_is_named(line: str) -> None:
    with pytest.raises(Problem) as refused:
        list(Lines(f'{{"n": 1}}\n{line}\n{{"n": 1}}'.encode(), ELEMENT, ElementErrors()))
    assert refused.value.status_code == 400
    assert "line 2" in refused.value.detail


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"n": NaN}', "expected value at column 7"),
        ('  {"n": NaN}', "expected value at column 9"),
        ('  {"n": x}', "expected value at column 9"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_once_with_its_column(line: str, why: str) -> None:
    with pytest.raises(Problem) as refused:
        list(Lines(f'{{"n": 1}}\n{line}\n{{"n": 1}}'.encode(), ELEMENT, ElementErrors()))
    assert refused.value.detail == f"line 2 is not JSON: {why}"
