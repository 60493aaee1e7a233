"""Many elements in one body: what is wrong with which, and how NDJSON and JSON lists are taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from app.api.bodies import Kind, arrow_table, check_literals, lines, not_json
from app.problems import MOST_ERRORS, FieldError, Problem, details, field_error, from_validation, many, path

CommandT = TypeVar("CommandT")
AskedT_contra = TypeVar("AskedT_contra", contravariant=True)
ReadT_co = TypeVar("ReadT_co", covariant=True)

CHUNK = 10_000
"""Lines that are taken apart at a time."""


class Validator(Protocol):
    """What pydantic's validators have in common."""

    def validate_json(self, data: bytes | bytearray, /) -> Any:
        """The value of JSON text. Raises ValidationError."""

    def validate_python(self, value: Any, /) -> Any:
        """A checked value. Raises ValidationError."""


@dataclass(frozen=True, slots=True)
class ElementError:
    """One bad field of the element at `index`; `field` is relative to the element."""

    index: int
    field: str
    reason: str


class Place:
    """How errors name elements: as ``events[3]``, and beside it the line if they came as lines. Errors count from
    `first` of the body's elements."""

    def __init__(self, name: str, numbered: Sequence[int] | None = None, first: int = 0) -> None:
        self.name = name
        self.numbered = numbered
        self.first = first

    def error(self, error: ElementError) -> FieldError:
        """An element's error with its whole path."""
        at = self.first + error.index
        field = path((self.name, at, error.field)) if error.field else f"{self.name}[{at}]"
        line = "" if self.numbered is None else f" (line {self.numbered[error.index]})"
        return FieldError(field, error.reason + line)

    def refusal(self, errors: Iterable[ElementError]) -> Problem:
        """The 422 for bad elements."""
        return many([self.error(error) for error in sorted(errors, key=lambda error: error.index)])


@dataclass(slots=True)
class Read(Generic[CommandT]):
    """A command of many elements out of a body, in which `place` names them. With `skip` those that are wrong are
    passed over: `indexes` are the places in the body of the others where there were such, `errors` say why."""

    command: CommandT
    skip: bool
    place: Place
    indexes: list[int] | None
    errors: list[ElementError]

    def place_of(self, position: int) -> int:
        """The place in the body of the element at a position of the command."""
        return position if self.indexes is None else self.indexes[position]

    def heads(self, positions: Iterable[int]) -> list[str]:
        """What comes before each result about the elements at these positions: with `skip`, its place in the body;
        else there are none."""
        return [f'"index":{self.place_of(at)},' for at in positions] if self.skip else []


class Reader(Protocol[AskedT_contra, ReadT_co]):
    """What reads one kind of elements."""

    def read(self, kind: Kind, raw: bytes | bytearray, asked: AskedT_contra, /) -> ReadT_co:
        """The elements of a body; `asked` counts for NDJSON and Arrow. Raises the problems 400, 413 and 422."""


class Taken(NamedTuple):
    """A body that was taken apart: how errors name its elements, the fields of JSON beside them, and whether elements
    that are wrong are passed over."""

    place: Place
    rest: dict[str, Any]
    skip: bool


@dataclass(frozen=True, slots=True)
class Elements:
    """How the elements of a body are taken up, each kind of body by the function for it, in pieces and in order.

    `errors` is where these note what is wrong. `add_items` gets validated elements, None for one that is known to be
    wrong; `check_schema` the columns of an Arrow stream, `add_batch` its batches.
    """

    name: str
    whole: Validator
    element: Validator
    errors: list[ElementError]
    add_items: Callable[[list[Any]], None]
    check_schema: Callable[[pa.Schema], None]
    add_batch: Callable[[pa.RecordBatch], None]

    def take(self, kind: Kind, raw: bytes | bytearray, on_error: str) -> Taken:
        """Take up all elements; `on_error` counts for NDJSON and Arrow. Raises the problems 400, 413 and 422."""
        place, skip = Place(self.name), on_error == "skip"
        rest: dict[str, Any] = {}
        if kind is Kind.JSON:
            rest, items, errors = read_list(raw, self.whole, self.element, self.name)
            skip = rest.get("on_error") == "skip"
            self.errors.extend(errors)
            self.add_items(items)
        elif kind is Kind.NDJSON:
            source = Lines(raw, self.element)
            place.numbered = source.numbered
            for items, errors in source:
                self.errors.extend(errors)
                self.add_items(items)
                if not skip and len(self.errors) > MOST_ERRORS:
                    break
        else:
            table = arrow_table(raw)
            self.check_schema(table.schema)
            for batch in table.to_batches():
                self.add_batch(batch)
                if not skip and len(self.errors) > MOST_ERRORS:
                    break
        if self.errors and not skip:
            raise place.refusal(self.errors)
        return Taken(place, rest, skip)


def read_list(
    raw: bytes | bytearray, whole: Validator, element: Validator, name: str
) -> tuple[dict[str, Any], list[Any], list[ElementError]]:
    """A JSON body with a list of elements under `name`: its other fields, the elements, and what is wrong with which.

    An element that is wrong is None in the list; that is only answered when the body says ``"on_error": "skip"``.
    Raises the problems 400, 413 and 422.
    """
    check_literals(raw)
    try:
        body: dict[str, Any] = whole.validate_json(raw)
    except ValidationError as failure:
        return _spared(failure, raw, whole, element, name)
    return body, body.pop(name), []


def _spared(
    failure: ValidationError, raw: bytes | bytearray, whole: Validator, element: Validator, name: str
) -> tuple[dict[str, Any], list[Any], list[ElementError]]:
    """What can be used of a body that failed, if it says so and only elements are wrong."""
    refusal = from_validation(failure)
    if refusal.slug != "invalid":
        raise refusal from None
    body = from_json(bytes(raw))
    if not isinstance(body, dict) or body.get("on_error") != "skip" or not isinstance(body.get(name), list):
        raise refusal from None
    elements = body[name]
    try:
        rest: dict[str, Any] = whole.validate_python({**body, name: []})
    except ValidationError:
        raise refusal from None
    del rest[name]
    items: list[Any] = []
    errors: list[ElementError] = []
    for index, one in enumerate(elements):
        try:
            items.append(element.validate_python(one))
        except ValidationError as wrong:
            items.append(None)
            errors.extend(_errors(wrong, index))
    return rest, items, errors


class Lines:
    """The elements of an NDJSON body, or of a part of it behind so many lines, in chunks. `numbered` has the line of
    each element that was read."""

    def __init__(self, raw: bytes | bytearray, element: Validator, before: int = 0) -> None:
        self._raw = raw
        self._before = before
        self._element = element
        self._literals = b"NaN" in raw or b"Infinity" in raw
        self.numbered: list[int] = []

    def __iter__(self) -> Iterator[tuple[list[Any], list[ElementError]]]:
        """Chunks of elements, wrong ones as None, and what is wrong with them. Raises the problem 400."""
        numbered = lines(self._raw, self._before)
        while chunk := list(islice(numbered, CHUNK)):
            items: list[Any] = []
            errors: list[ElementError] = []
            validate = self._element.validate_json
            for number, line in chunk:
                try:
                    items.append(validate(line))
                except ValidationError as wrong:
                    found = details(wrong)
                    if found[0]["type"] == "json_invalid":
                        raise not_json(number, str(found[0]["ctx"]["error"])) from None
                    errors.extend(_listed(found, len(self.numbered)))
                    items.append(None)
                if self._literals:
                    self._check_literals(number, line)
                self.numbered.append(number)
            yield items, errors

    @staticmethod
    def _check_literals(number: int, line: bytes) -> None:
        try:
            check_literals(line)
        except Problem as problem:
            raise not_json(number, problem.detail) from None


def _errors(failure: ValidationError, index: int) -> list[ElementError]:
    return _listed(details(failure), index)


def _listed(found: list[ErrorDetails], index: int) -> list[ElementError]:
    return [ElementError(index, *field_error(error)) for error in found]
