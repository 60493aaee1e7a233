"""Pagination by cursors."""

import base64
import binascii
import re
from collections import Counter
from functools import cache
from typing import Annotated, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from app.api.problems import Problem, from_validation, invalid, many
from app.api.values import NUMBER_TEXT
from app.errors import FieldError

Q = TypeVar("Q", bound=BaseModel)

DEFAULT, MOST = 100, 1000
_ID = re.compile(r"~?[A-Za-z0-9._:-]{1,400}")


class Query(BaseModel):
    """A query string; numbers are read from text as JSON writes them, unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class PageQuery(Query):
    """Query parameters of lists."""

    limit: Annotated[int, Field(ge=1, le=MOST, description="Most items in the answer.")] = DEFAULT
    cursor: Annotated[str | None, Field(description="The `next` of the page before.")] = None

    @property
    def after(self) -> str | None:
        """The id that the page comes after. Raises the problem 422 for a cursor that was never handed out."""
        return None if self.cursor is None else read_cursor(self.cursor)


def cursor(last_id: str) -> str:
    """The opaque cursor of the position after an id.

    >>> read_cursor(cursor("DL95"))
    'DL95'
    """
    return base64.urlsafe_b64encode(b"1" + last_id.encode()).rstrip(b"=").decode()


def read_cursor(text: str) -> str:
    """The id in a cursor. Raises the problem 422."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raw = ""
    if raw[:1] != "1" or not _ID.fullmatch(raw[1:]):
        raise invalid("cursor", "is not a cursor of this list")
    return raw[1:]


def query(request: Request, model: type[Q]) -> Q:
    """The query string as a model. Raises the problem 422; a parameter given twice is refused."""
    text: bytes = request.scope["query_string"]
    found = _READ.get((model, text))
    if found is None:
        found = _query(request, model)
        if len(text) <= _SHORT:
            if len(_READ) >= _MOST_READ:
                _READ.clear()
            _READ[model, text] = found
    return cast(Q, found)


_READ: dict[tuple[type[BaseModel], bytes], BaseModel] = {}
"""Short queries that were read before: most requests repeat one. They are frozen, so that all may share them."""

_SHORT, _MOST_READ = 48, 1_000


def _query(request: Request, model: type[Q]) -> Q:
    if not request.scope["query_string"]:
        given: dict[str, str] = {}
    else:
        pairs = request.query_params.multi_items()
        given = dict(pairs)
        if len(given) < len(pairs):
            times = Counter(name for name, _ in pairs)
            raise many([FieldError(name[:80], "is given more than once") for name in given if times[name] > 1])
    wrong = [name for name in _numbers(model) if name in given and not NUMBER_TEXT.fullmatch(given[name])]
    if wrong:
        raise many([FieldError(name, "must be a number") for name in wrong])
    try:
        return model.model_validate(given)
    except ValidationError as failure:
        raise _query_problem(failure) from None


@cache
def _numbers(model: type[BaseModel]) -> list[str]:
    """The parameters that are numbers."""
    return [
        name
        for name, field in model.model_fields.items()
        if {int, float} & {field.annotation, *get_args(field.annotation)}
    ]


def _query_problem(failure: ValidationError) -> Problem:
    return from_validation(failure)
