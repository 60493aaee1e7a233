"""Bulk requests: parsing JSON lists, NDJSON and Arrow, and the errors of their elements."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from pydantic import ValidationError
from pydantic_core import from_json

from app.api.bodies import BodyFormat, arrow_table, check_literals, lines, literal_fault, not_json
from app.api.element_errors import MOST_SKIPPED, ElementError, ElementErrors
from app.api.ids import named
from app.api.models import OnErrorQuery
from app.api.problems import MOST_ERRORS, Problem, details, field_error, from_validation, many, path
from app.errors import FieldError

CommandT = TypeVar("CommandT")
AskedT_contra = TypeVar("AskedT_contra", contravariant=True)
ReadT_co = TypeVar("ReadT_co", covariant=True)


class Takes(Protocol):
    """A command of many elements."""

    def take(self: TakeT, rows: list[int], /) -> TakeT:
        """The command with some of its elements."""


TakeT = TypeVar("TakeT", bound=Takes)

CHUNK = 10_000
"""Lines that are parsed at a time."""

ROWS = 1 << 16
"""Rows of Arrow that are parsed at a time."""

PAUSE = 0.001
"""Seconds between two chunks of a body with very many wrong elements."""


def _none_alike(raw: bytes | bytearray) -> None:
    """Elements that are always read one by one."""


class Validator(Protocol):
    """What pydantic's validators have in common."""

    def validate_json(self, data: bytes | bytearray, /) -> Any:
        """The value of JSON text. Raises ValidationError."""

    def validate_python(self, value: Any, /) -> Any:
        """A checked value. Raises ValidationError."""


class Place:
    """How errors name elements: as ``events[3]``, with the line for NDJSON. Errors count from
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

    def refusal(self, errors: ElementErrors) -> Problem:
        """The 422 for bad elements."""
        return many([self.error(error) for error in errors], len(errors))


@dataclass(slots=True)
class Read(Generic[CommandT]):
    """A command of many elements out of a body, in which `place` names them. With `skip` those that are wrong are
    passed over: `indexes` are the places in the body of the others where there were such, `errors` say why."""

    command: CommandT
    skip: bool
    place: Place
    indexes: list[int] | None
    errors: ElementErrors

    def place_of(self, position: int) -> int:
        """The place in the body of the element at a position of the command."""
        return position if self.indexes is None else self.indexes[position]

    def heads(self, positions: Iterable[int]) -> list[str]:
        """What comes before each result about the elements at these positions: with `skip`, its place in the body;
        else there are none."""
        return [f'"index":{self.place_of(at)},' for at in positions] if self.skip else []

    def heads_at(self, positions: Sequence[int] | None, at: range) -> list[str]:
        """The same for the elements `at` of a plan, whose positions in the command are these; None: the same."""
        return self.heads(at if positions is None else positions[at.start : at.stop])


class Reader(Protocol[AskedT_contra, ReadT_co]):
    """Reads one kind of elements."""

    def read(self, kind: BodyFormat, raw: bytes | bytearray, asked: AskedT_contra, /) -> ReadT_co:
        """The elements of a body; `asked` are its other fields. Raises the problems 400, 413 and 422."""


class Taken(NamedTuple):
    """A parsed body: how errors name its elements, with JSON the other fields of body and query, and whether invalid
    elements are skipped."""

    place: Place
    rest: dict[str, Any]
    skip: bool


@dataclass(frozen=True, slots=True)
class Elements:
    """How the elements of a body are taken up, each kind of body by the function for it, in pieces and in order.

    `errors` is where these note what is wrong. `add_items` gets validated elements, None for one that is known to be
    wrong; `check_schema` the columns of an Arrow stream, `add_batch` its batches. `add_alike` may take all elements of
    a JSON body, where none is wrong, and return its other fields; where it takes none, it returns None.
    """

    name: str
    whole: Validator
    element: Validator
    errors: ElementErrors
    add_items: Callable[[list[Any]], None]
    check_schema: Callable[[pa.Schema], None]
    add_batch: Callable[[pa.RecordBatch], None]
    add_alike: Callable[[bytes | bytearray], dict[str, Any] | None] = _none_alike

    def take(self, kind: BodyFormat, raw: bytes | bytearray, query: OnErrorQuery) -> Taken:
        """Take up all elements. Raises the problems 400, 413 and 422."""
        place, skip = Place(self.name), query.on_error == "skip"
        rest: dict[str, Any] = {}
        if kind is BodyFormat.JSON:
            given = query.model_dump(exclude_unset=True) if query.model_fields_set else _NOTHING
            alike = self.add_alike(raw)
            if alike is not None:
                rest = _beside(alike, given)
            else:
                rest, items = read_list(raw, self.whole, self.element, self.name, self.errors, given)
                self.add_items(items)
            skip = rest.get("on_error") == "skip"
        elif kind is BodyFormat.NDJSON:
            source = Lines(raw, self.element, self.errors)
            place.numbered = source.numbered
            for items in source:
                self.add_items(items)
                if self._enough(skip):
                    break
        else:
            table = arrow_table(raw)
            self.check_schema(table.schema)
            for batch in table.to_batches(max_chunksize=ROWS):
                self.add_batch(batch)
                if self._enough(skip):
                    break
        if self.errors and not skip:
            raise place.refusal(self.errors)
        return Taken(place, rest, skip)

    def _enough(self, skip: bool) -> bool:
        """Whether nothing more has to be read for a refusal. Where very much is wrong the event loop goes first."""
        if not skip:
            return len(self.errors) > MOST_ERRORS
        if len(self.errors) > MOST_SKIPPED:
            time.sleep(PAUSE)
        return False


class Columns:
    """Elements under construction, a part for each chunk of the body: how many, their ids, what else is given for some
    by index, and what is wrong."""

    def __init__(self) -> None:
        self.count = 0
        self.ttl: dict[int, float] = {}
        self.errors = ElementErrors()
        self._ids: list[pa.StringArray] = []

    def add_ids(self, ids: pa.StringArray) -> None:
        """Append the ids of a chunk, null where they are left out."""
        self.count += len(ids)
        self._ids.append(ids)

    def note_ttl(self, items: Iterable[dict[str, Any] | None]) -> None:
        """Note the times to live of the elements of a chunk, before its ids are added."""
        for index, item in enumerate(items, self.count):
            if item is not None and item.get("ttl") is not None:
                self.ttl[index] = item["ttl"]

    def ids(self, letter: str = "s") -> pa.StringArray:
        """All ids, with generated ones for those left out."""
        if not self._ids:
            return pa.array([], pa.string())
        return named(self._ids[0] if len(self._ids) == 1 else pa.concat_arrays(self._ids), letter)

    def kept(self, command: TakeT) -> tuple[TakeT, list[int] | None]:
        """A command without the elements that have errors, and the places of the others if there were such."""
        if not self.errors:
            return command, None
        keep = self.errors.valid(self.count)
        return command.take(keep), keep


_NOTHING: Mapping[str, Any] = {}


def read_list(
    raw: bytes | bytearray,
    whole: Validator,
    element: Validator,
    name: str,
    errors: ElementErrors,
    given: Mapping[str, Any] = _NOTHING,
) -> tuple[dict[str, Any], list[Any]]:
    """A JSON body with a list of elements under `name`: its other fields with those `given` in the query, and the
    elements; `errors` takes what is wrong with which.

    An element that is wrong is None in the list; that is only answered when the body says ``"on_error": "skip"``.
    Raises the problems 400, 413 and 422.
    """
    check_literals(raw)
    try:
        body: dict[str, Any] = whole.validate_json(raw)
    except ValidationError as failure:
        return _spared(failure, raw, whole, element, name, errors, given)
    items: list[Any] = body.pop(name)
    return _beside(body, given), items


def _beside(body: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body and those given in the query. Raises the problem 422 for one in which they differ."""
    if not given:
        return body
    differ = [field for field, value in given.items() if field in body and body[field] != value]
    if differ:
        raise many([FieldError(field, "is given in the query too, and differs there") for field in differ])
    return {**given, **body}


def _spared(
    failure: ValidationError,
    raw: bytes | bytearray,
    whole: Validator,
    element: Validator,
    name: str,
    errors: ElementErrors,
    given: Mapping[str, Any],
) -> tuple[dict[str, Any], list[Any]]:
    """The valid elements of a body, if it has `on_error=skip` and only elements are invalid. Where very much is wrong,
    no more of it is listed than a response has."""
    refusal = from_validation(failure) if failure.error_count() <= MOST_SKIPPED else None
    if refusal is not None and refusal.slug != "invalid":
        raise refusal from None
    body = from_json(bytes(raw))
    elements = body.get(name) if isinstance(body, dict) else None
    skip = isinstance(body, dict) and {**given, **body}.get("on_error") == "skip"
    if not isinstance(elements, list) or (refusal is not None and not skip):
        raise refusal or from_validation(failure) from None
    try:
        rest: dict[str, Any] = whole.validate_python({**body, name: []})
    except ValidationError as other:
        raise refusal or from_validation(other) from None
    del rest[name]
    rest = _beside(rest, given)
    items: list[Any] = []
    for index, one in enumerate(elements):
        try:
            items.append(element.validate_python(one))
        except ValidationError as wrong:
            items.append(None)
            _note(wrong, index, errors)
            if not skip and len(errors) > MOST_ERRORS:
                break
    if not skip:
        raise Place(name).refusal(errors) from None
    return rest, items


class Lines:
    """The elements of an NDJSON body, or of a part of it behind so many lines, in chunks. `errors` takes what is wrong
    with them; `numbered` has the line of each element that was read."""

    def __init__(self, raw: bytes | bytearray, element: Validator, errors: ElementErrors, before: int = 0) -> None:
        self._raw = raw
        self._before = before
        self._element = element
        self._errors = errors
        self._literals = b"NaN" in raw or b"Infinity" in raw
        self.numbered = array("q")

    def __iter__(self) -> Iterator[list[Any]]:
        """Chunks of elements, wrong ones as None. Raises the problem 400."""
        numbered = lines(self._raw, self._before)
        validate = self._element.validate_json
        while chunk := list(islice(numbered, CHUNK)):
            items: list[Any] = []
            for number, line in chunk:
                try:
                    items.append(validate(line))
                except ValidationError as wrong:
                    self._check_json(number, wrong)
                    _note(wrong, len(self.numbered), self._errors)
                    items.append(None)
                if self._literals:
                    self._check_literals(number, line)
                self.numbered.append(number)
            yield items

    @staticmethod
    def _check_json(number: int, wrong: ValidationError) -> None:
        # What is not JSON is one error alone.
        if wrong.error_count() == 1:
            (found,) = wrong.errors(include_url=False, include_input=False)
            if found["type"] == "json_invalid":
                raise not_json(number, str(found["ctx"]["error"])) from None

    @staticmethod
    def _check_literals(number: int, line: bytes) -> None:
        fault = literal_fault(line)
        if fault is not None:
            raise not_json(number, fault)


def _note(failure: ValidationError, index: int, errors: ElementErrors) -> None:
    """Take what is wrong with an element."""
    if errors.wants(index):
        errors.extend([ElementError(index, *field_error(error)) for error in details(failure)])
    else:
        errors.count_in(index, failure.error_count())
