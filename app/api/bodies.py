"""How request bodies are read: JSON, NDJSON or an Arrow stream by content type, whole, and strictly."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Protocol, TypeVar

import pyarrow as pa
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from app.api.arrow_limits import announced, decoded
from app.api.callers import check_caller
from app.api.extent import check_extent
from app.api.problems import Problem, from_validation
from formats.checked_arrow import check

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


class Reads(Protocol[R_co]):
    """A pydantic validator of either kind."""

    def validate_json(self, data: bytes | bytearray, /) -> R_co:
        """The value of JSON text. Raises ValidationError."""


class BodyFormat(Enum):
    """The format of a body."""

    JSON = "application/json"
    NDJSON = "application/x-ndjson"
    ARROW = "application/vnd.apache.arrow.stream"


MOST_ROWS = 100_000
"""Rows that an Arrow stream may have even if it has fewer bytes."""

MOST_VALUES = 1_000_000
"""Values, those inside of lists included, that a column of an Arrow stream may have even if it has fewer bytes."""

MOST_UNPACKED = 256 << 20
"""Bytes that an Arrow stream may unpack to even if it has fewer itself."""

INLINE = 512 << 10
"""Bytes of a body up to which it is parsed on the event loop."""

LONGEST_LINE = 1 << 20
"""Bytes of a line of NDJSON."""

PLAIN = "rankcast.plain"
"""In the scope of a request that has JSON and no header."""

BULK = (BodyFormat.JSON, BodyFormat.NDJSON, BodyFormat.ARROW)
_KINDS = {kind.value: kind for kind in BodyFormat}
_N, _I = b"NI"
_UTF8 = frozenset({"", "utf-8", "utf8", "us-ascii"})


def format_of(request: Request, offered: tuple[BodyFormat, ...] = (BodyFormat.JSON,)) -> BodyFormat:
    """The format of a request's body, by Content-Type. Raises the problem 415 when it is not offered."""
    if PLAIN in request.scope and BodyFormat.JSON in offered:
        return BodyFormat.JSON
    header = request.headers.get("content-type", "")
    media, _, parameters = header.partition(";")
    kind = _KINDS.get(media.strip().lower())
    if kind not in offered or kind is None:
        choice = ", ".join(one.value for one in offered)
        raise Problem("unsupported-media-type", f"send {choice}, not {header[:80]!r}" if header else f"send {choice}")
    if parameters:
        _check_charset(parameters)
    if request.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        raise Problem("unsupported-media-type", "compressed bodies are not understood")
    return kind


def _check_charset(parameters: str) -> None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(" \"'").lower() not in _UTF8:
            raise Problem("unsupported-media-type", "text is read as UTF-8 only")


async def read(request: Request) -> bytes | bytearray:
    """The whole body; the guard has seen to its size.

    Raises `ClientDisconnect` when the caller goes away, and the problem 401 where its key was deleted while it came.
    """
    message = await request.receive()
    body: bytes | bytearray = message.get("body", b"")
    while message.get("more_body", False) or message["type"] == "http.disconnect":
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if not isinstance(body, bytearray):
            body = bytearray(body)
        message = await request.receive()
        body += message.get("body", b"")
    check_caller(request)
    return body


def literal_fault(raw: bytes | bytearray) -> str | None:
    """Why a text with NaN or Infinity, which the validators would read as numbers, is not JSON; None where it is."""
    # To look for one byte takes a fraction of the time, and few bodies have it.
    if (_N in raw and b"NaN" in raw) or (_I in raw and b"Infinity" in raw):
        try:
            from_json(bytes(raw), allow_inf_nan=False, cache_strings="none")
        except ValueError as error:
            return str(error)
    return None


def check_literals(raw: bytes | bytearray) -> None:
    """Refuse NaN and Infinity, which the validators would read as numbers although they are not JSON."""
    fault = literal_fault(raw)
    if fault is not None:
        raise Problem("malformed", f"the body is not JSON: {fault}")


def validated(raw: bytes | bytearray, adapter: Reads[T], tags: frozenset[str] = frozenset()) -> T:
    """A JSON body as `adapter`'s type, in which `tags` name branches of unions. Raises 400 when it is not JSON, 413 or
    422 when it is not valid."""
    if len(raw) > INLINE:
        check_extent(raw)
    check_literals(raw)
    try:
        return adapter.validate_json(raw)
    except ValidationError as failure:
        raise from_validation(failure, tags=tags) from None


def lines(raw: bytes | bytearray, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines of NDJSON with their numbers, behind so many that came before; blank ones are skipped. Raises 413
    for a very long one."""
    start, number, size = 0, before, len(raw)
    while start < size:
        end = raw.find(b"\n", start)
        end = size if end < 0 else end
        number += 1
        if end - start > LONGEST_LINE:
            raise Problem("too-large", f"line {number} has more than {LONGEST_LINE} bytes")
        # What is in front stays, so that errors name the column.
        line = bytes(raw[start:end]).rstrip(b" \t\r")
        if line:
            yield number, line
        start = end + 1


def not_json(line: int, why: str) -> Problem:
    """The 400 for a line that is not JSON; `why` is the parser's word on the line alone."""
    return Problem("malformed", f"line {line} is not JSON: {why.replace(' line 1 column ', ' column ')}")


def _check_unpacked(size: int, most: int) -> None:
    if size > most:
        raise Problem("too-large", f"the Arrow stream unpacks to more than {most} bytes")


def arrow_table(raw: bytes | bytearray) -> pa.Table:
    """The batches of an Arrow IPC stream, checked from end to end, in chunks as they came.

    Raises the problems 400, and 413 for one that comes to much more than its size.
    """
    try:
        size = announced(raw)
        if size.rows > max(len(raw), MOST_ROWS):
            raise Problem("too-large", f"{size.rows} rows in {len(raw)} bytes")
        if size.values > max(len(raw), MOST_VALUES):
            raise Problem("too-large", f"lists of {size.values} values in {len(raw)} bytes")
        most = max(len(raw), MOST_UNPACKED)
        total = size.unpacked
        _check_unpacked(total, most)
        with pa.ipc.open_stream(pa.py_buffer(raw)) as reader:
            batches = []
            for batch in reader:
                check(batch)
                total += decoded(batch)
                _check_unpacked(total, most)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
            table.schema.names  # noqa: B018  (raises where they are not UTF-8)
            return table
    except (
        pa.ArrowException,
        struct.error,
        OSError,
        ValueError,
        MemoryError,
        NotImplementedError,
        OverflowError,
        EOFError,
    ) as error:
        raise Problem("malformed", f"the body is not an Arrow IPC stream: {str(error)[:200]}") from None
