import json

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from app.api import problems
from app.api.problems import PROBLEMS, Problem
from app.api.values import Name, Number, Strict
from app.errors import FieldError
from indexes.core.commands import Fault, Refused


class Inner(Strict):
    values: dict[str, Number]


class Outer(Strict):
    events: list[Inner]
    name: Name = "a"


def failure(text: str, model: type[BaseModel] = Outer) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(model).validate_json(text)
    return caught.value


def fields(problem: Problem) -> list[str]:
    return [error.field for error in problem.errors]


@pytest.mark.parametrize("slug", PROBLEMS)
def test_every_problem_is_a_problem_document(slug: str) -> None:
    answer = Problem(slug, "why", [FieldError("a.b", "is bad")]).response()
    assert answer.headers["content-type"] == "application/problem+json"
    document = json.loads(bytes(answer.body))
    assert document["type"] == f"/problems/{slug}"
    assert document["status"] == answer.status_code
    assert document["errors"] == [{"field": "a.b", "reason": "is bad"}]
    assert ("retry-after" in answer.headers) == (answer.status_code in (429, 503))


def test_a_path_names_the_element_and_the_field() -> None:
    problem = problems.from_validation(failure('{"events": [{"values": {"delay": 1}}, {"values": {"delay": "x"}}]}'))
    assert problem.status_code == 422
    assert problem.errors == [FieldError("events[1].values.delay", "must be a number")]


def test_a_unions_branch_is_no_part_of_a_path() -> None:
    tags = frozenset({"upsert"})
    assert problems.path(("events", 3, "upsert", "values", "upsert"), tags) == "events[3].values.upsert"


def test_all_errors_are_counted_and_a_hundred_listed() -> None:
    events = ",".join(['{"values": {"delay": "x"}}'] * 150)
    problem = problems.from_validation(failure(f'{{"events": [{events}]}}'))
    document = problem.document()
    assert len(problem.errors) == 150
    assert len(document["errors"]) == 100
    assert "150 errors" in document["detail"]


def test_what_is_not_json_is_malformed() -> None:
    problem = problems.from_validation(failure('{"events": ['))
    assert problem.status_code == 400


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("true", "must be a number"),
        ('"1"', "must be a number"),
        ("1e999", "must be finite"),
        ("1e301", "must be at most 1e+300"),
        ("-1e301", "must be at least -1e+300"),
        ("null", "must be a number"),
    ],
)
def test_reasons_are_plain(value: str, reason: str) -> None:
    problem = problems.from_validation(failure(f'{{"events": [{{"values": {{"delay": {value}}}}}]}}'))
    assert problem.errors == [FieldError("events[0].values.delay", reason)]


def test_unknown_and_missing_fields_are_named() -> None:
    problem = problems.from_validation(failure('{"nonsense": 1}'))
    assert sorted(problem.errors) == [
        FieldError("events", "is required"),
        FieldError("nonsense", "is not a known field"),
    ]


def test_a_long_field_name_is_cut() -> None:
    problem = problems.from_validation(failure('{"events": [], "' + "x" * 5000 + '": 1}'))
    assert len(problem.errors[0].field) < 100


def test_unknown_ids_go_before_taken_ones() -> None:
    faults = [Fault("id", "is taken", "taken", 0), Fault("id", "is not known", "unknown", 2)]
    problem = problems.from_refused(
        Refused(faults), lambda fault: FieldError(f"events[{fault.index}].{fault.field}", fault.reason)
    )
    assert problem.status_code == 422
    assert fields(problem) == ["events[0].id", "events[2].id"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [("missing", 404), ("invalid", 422), ("unknown", 422), ("taken", 409), ("in_use", 409), ("different", 409)],
)
def test_each_fault_has_its_status(kind: str, status: int) -> None:
    assert problems.from_refused(Refused([Fault("id", "why", kind)])).status_code == status  # type: ignore[arg-type]
