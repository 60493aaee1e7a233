"""Standing queries of a map, and where their clients are, out of bodies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import ValidationError
from pydantic_core import from_json

from app.api.arrow import check_columns, ids_of, points_of
from app.api.bodies import BodyFormat
from app.api.bulk import Columns, Elements, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.maps.models import MapValidators
from app.api.maps.parsing.questions import point, score_of, standing_of
from app.api.models import ListsQuery, OnErrorQuery
from app.api.problems import details, field_error, many
from app.errors import FieldError
from indexes.maps.commands import AddQueries, ChangeQuery, MoveQueries, SetQuery
from indexes.maps.config import MapConfig, Question, Skyline

Float64 = npt.NDArray[np.float64]

_PLAIN = ("id", "kind", "k", "m", "ordered", "ttl")
_COLUMNS = (*_PLAIN, "x", "y", "score")


@dataclass(slots=True)
class ReadQueries(Read[AddQueries]):
    """Standing queries out of a body, and whether the response has their results."""

    lists: bool | None


class QueryReader:
    """Reads the standing queries of a map with this configuration."""

    def __init__(self, config: MapConfig, validators: MapValidators) -> None:
        self._config = config
        self._validators = validators

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: ListsQuery) -> ReadQueries:
        """The queries of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        place, rest, skip = Elements(
            "queries",
            self._validators.queries,
            self._validators.query,
            columns.errors,
            partial(self._add_items, columns),
            lambda schema: check_columns(schema, ("kind", "x", "y"), _COLUMNS),
            partial(self._add_batch, columns),
        ).take(kind, raw, query)
        lists = rest.get("lists") if kind is BodyFormat.JSON else query.lists
        command, indexes = columns.command(skip)
        return ReadQueries(command, skip, place, indexes, columns.errors, lists)

    def whole(self, id: str, body: dict[str, Any]) -> SetQuery:
        """The query of a PUT. Raises the problem 422."""
        errors: list[FieldError] = []
        if body.get("id") not in (None, id):
            errors.append(FieldError("id", f"is {id!r} in the path"))
        question = standing_of(self._config, body, errors)
        if errors:
            raise many(errors)
        return SetQuery(id, question, point(body["location"]), body.get("ttl"))

    def part(self, id: str, body: dict[str, Any]) -> ChangeQuery:
        """The change of a PATCH. Raises the problem 422."""
        errors: list[FieldError] = []
        score = score_of(self._config, body["score"], errors) if "score" in body else None
        if errors:
            raise many(errors)
        location = point(body["location"]) if "location" in body else None
        ttl = (body["ttl"] or 0.0) if "ttl" in body else None
        return ChangeQuery(id, location, body.get("k"), body.get("m"), body.get("ordered"), score, ttl)

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        for at, item in enumerate(items, columns.count):
            if item is None:
                columns.take(Skyline(), (np.nan, np.nan))
                continue
            errors: list[FieldError] = []
            question = standing_of(self._config, item, errors)
            columns.errors += [ElementError(at, *error) for error in errors]
            columns.take(question, point(item["location"]))
        columns.note_ttl(items)
        columns.add_ids(pa.array([None if item is None else item.get("id") for item in items], pa.string()))

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch) -> None:
        """Append rows, each as the element of JSON that it stands for; `score` is JSON text."""
        check = self._validators.query.validate_python
        items: list[Any] = []
        for at, row in enumerate(batch.to_pylist(), columns.count):
            item = {name: row[name] for name in _PLAIN if row.get(name) is not None}
            item["location"] = [row["x"], row["y"]]
            try:
                if row.get("score") is not None:
                    item["score"] = from_json(row["score"], allow_inf_nan=False)
                items.append(check(item))
            except ValidationError as wrong:
                columns.errors += [ElementError(at, *field_error(one)) for one in details(wrong)]
                items.append(None)
            except (ValueError, TypeError) as error:
                columns.errors.append(ElementError(at, "score", f"is not JSON: {error}"))
                items.append(None)
        self._add_items(columns, items)


class _Columns(Columns):
    """Columns under construction."""

    def __init__(self) -> None:
        super().__init__()
        self._questions: list[Question] = []
        self._locations: list[tuple[float, float]] = []
        self._alike: dict[Question, Question] = {}

    def take(self, question: Question, location: tuple[float, float]) -> None:
        # Many ask the same at other places.
        self._questions.append(self._alike.setdefault(question, question))
        self._locations.append(location)

    def command(self, skip: bool) -> tuple[AddQueries, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        locations = np.array(self._locations, np.float64).reshape(-1, 2)
        return self.kept(AddQueries(self.ids(), self._questions, locations, self.ttl, skip))


class MoveReader:
    """Reads where the clients of standing queries are."""

    def __init__(self, validators: MapValidators) -> None:
        self._validators = validators

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: OnErrorQuery) -> Read[MoveQueries]:
        """The moves of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        errors = ElementErrors()
        ids: list[str] = []
        places: list[Float64] = []

        def add_items(items: list[Any]) -> None:
            ids.extend("" if item is None else item["id"] for item in items)
            here = [(np.nan, np.nan) if item is None else item["location"] for item in items]
            places.append(np.array(here, np.float64).reshape(-1, 2) + 0.0)

        def add_batch(batch: pa.RecordBatch) -> None:
            start = len(ids)
            ids.extend(ids_of(batch, start, errors, needed=True).fill_null("").to_pylist())
            places.append(points_of(batch, start, errors))

        place, _, skip = Elements(
            "moves",
            self._validators.moves,
            self._validators.move,
            errors,
            add_items,
            lambda schema: check_columns(schema, ("id", "x", "y"), ()),
            add_batch,
        ).take(kind, raw, query)
        locations = np.concatenate(places) if places else np.empty((0, 2))
        indexes = None
        if errors:
            indexes = errors.valid(len(ids))
            ids, locations = [ids[i] for i in indexes], locations[indexes]
        return Read(MoveQueries(ids, locations, skip), skip, place, indexes, errors)
