"""How many fields and elements a body has is seen without parsing it, and never more than there are."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api import extent
from app.api.extent import MOST_FIELDS, check_extent, commas
from app.api.problems import Problem

leaves = st.none() | st.booleans() | st.integers() | st.text(alphabet='a,"\\{}[]\n\x00é', max_size=12)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(',"\\[', max_size=3), inner, max_size=6)
)


def counted(value: Any) -> tuple[int, int]:
    """The commas between fields, and those in fields."""

    def within(one: Any) -> int:
        return max(len(one) - 1, 0) if isinstance(one, dict | list) else 0

    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return within(value), sum(map(within, inner))


@given(values, st.integers(1, 9), st.booleans())
def test_commas_are_those_of_the_parsed_body(value: Any, slice: int, ascii: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extent, "SLICE", slice)
        assert list(commas(raw))[-1] == counted(value)


@given(st.binary(max_size=60))
def test_what_is_no_json_is_left_to_the_parser(raw: bytes) -> None:
    with suppress(Problem):
        check_extent(raw * 30, 1)


def test_as_many_as_there_may_be_pass() -> None:
    elements = ",".join(['{"a": [1, 2, ",", "\\"", {"b": 1, "c": 2}]}'] * 500)
    check_extent(f'{{"events": [{elements}], "mode": "each"}}'.encode(), 500)


def test_a_list_that_is_far_too_long_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent, "SLICE", 1 << 10)
    raw = b'{"events":[' + b"{}," * 100_000
    with pytest.raises(Problem) as refused:
        check_extent(raw, 500)
    assert refused.value.status_code == 413
    assert "at most 500 elements" in refused.value.detail


def test_very_many_fields_are_refused() -> None:
    fields = ",".join(f'"k{n}":1' for n in range(MOST_FIELDS + 2))
    with pytest.raises(Problem) as refused:
        check_extent(f"{{{fields}}}".encode())
    assert refused.value.status_code == 422
