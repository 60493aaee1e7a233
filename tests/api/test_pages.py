from typing import Any

import pytest
from starlette.requests import Request

from app.api.pages import PageQuery, cursor, query, read_cursor
from app.api.problems import Problem


def asked(text: str) -> Request:
    scope: dict[str, Any] = {"type": "http", "query_string": text.encode(), "headers": []}
    return Request(scope)


def test_a_page_has_a_hundred_items_unless_said() -> None:
    assert query(asked(""), PageQuery).limit == 100
    assert query(asked("limit=1000"), PageQuery).limit == 1000


@pytest.mark.parametrize(
    "text", ["limit=0", "limit=1001", "limit=x", "limit=1.5", "limit=", "limit=-1", "limit=1&limit=2"]
)
def test_a_bad_limit_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        query(asked(text), PageQuery)
    assert refused.value.status_code == 422
    assert [error.field for error in refused.value.errors] == ["limit"]


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(Problem) as refused:
        query(asked("page=2"), PageQuery)
    assert [error.field for error in refused.value.errors] == ["page"]


@pytest.mark.timeout(60)
def test_many_parameters_cost_time_in_proportion() -> None:
    """A time in the square of their number would be hours here."""
    many = 200_000
    twice = "&".join(f"n{i}" + "=" for i in range(many))
    with pytest.raises(Problem) as refused:
        query(asked(f"{twice}&{twice}"), PageQuery)
    assert len(refused.value.errors) == many


def test_a_cursor_is_the_id_before() -> None:
    page = query(asked(f"cursor={cursor('DL:95._-')}"), PageQuery)
    assert page.after == "DL:95._-"


@pytest.mark.parametrize("text", ["", "x", "%%%", "MQ", "MSA", "Mc3p", "AAAA", "MQ==", "\u00e9"])
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        read_cursor(text)
    assert refused.value.status_code == 422
    assert refused.value.errors[0].field == "cursor"
