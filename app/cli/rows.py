"""Rows of a file as events: which column is what, how CSV, Parquet and NDJSON are read, and which rows are no good.

A file is read in chunks, each of which becomes one Arrow record batch in the service's own columns: `op`, `id`, the
attributes, `payload` as JSON text. Rows are counted from 1; a CSV's header is not one of them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

Format = Literal["csv", "parquet", "ndjson"]

CHUNK_ROWS = 50_000
CSV_BLOCK_BYTES = 4 << 20
MOST_SHOWN = 20
"""Columns of a file that a message names."""

MOST_LEFT_OUT = 1_000
SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Unreadable(Exception):
    """The file, or a requested column, cannot be read; the message gives the reason."""


class BadRow(NamedTuple):
    """A row that is no event."""

    row: int
    reason: str


class Chunk(NamedTuple):
    """Events, and the row that each came from; `bad` are the rows between them that are none."""

    batch: pa.RecordBatch
    rows: Sequence[int]
    bad: list[BadRow]

    def since(self, first: int) -> Chunk:
        """What is left without the rows before this one."""
        at = bisect_left(self.rows, first)
        return Chunk(self.batch.slice(at), self.rows[at:], [bad for bad in self.bad if bad.row >= first])


@dataclass(frozen=True)
class Columns:
    """Which columns of a file make an event.

    The values of `ids` are joined to the id; `numbers` are the columns by attribute; the `fields` become a payload with
    those members, or `payload` is a column that holds the whole of it. `op` holds upsert, update or delete. `location`
    are the attributes that the service's own format has in a list of that name.
    """

    ids: tuple[str, ...]
    numbers: dict[str, str]
    fields: tuple[str, ...] = ()
    payload: str | None = None
    op: str | None = None
    location: tuple[str, str] | None = None

    def check(self, names: Sequence[str]) -> None:
        """Raise Unreadable where a column that is needed is not among those of a file."""
        for name in self.all:
            if name not in names:
                which = ", and --id names no other for the id" if name in self.ids else ""
                more = ", ..." if len(names) > MOST_SHOWN else ""
                raise Unreadable(f"there is no column {name!r}{which}; there are {', '.join(names[:MOST_SHOWN])}{more}")

    def left_out(self, names: Iterable[str]) -> list[str]:
        """Which of a file's columns are not loaded, in order; without those that have no name."""
        return [name for name in names if name and name not in self.used]

    @cached_property
    def used(self) -> frozenset[str]:
        """`all` as a set."""
        return frozenset(self.all)

    @property
    def all(self) -> list[str]:
        """Every column that is needed, once."""
        others = [name for name in (self.payload, self.op) if name is not None]
        return list(dict.fromkeys([*self.ids, *self.numbers.values(), *self.fields, *others]))


def format_of(path: Path) -> Format:
    """The format by the name's suffix. Raises Unreadable for an unknown one."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    found = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise Unreadable(f"{path.name} does not say what it is: give --format csv, parquet or ndjson")
    return found


class Source:
    """An open file of rows.

    `total` is its size and `done` how much has been read: bytes, for Parquet rows. `left_out` are the columns that are
    not loaded, as far as the file has been read, at most `MOST_LEFT_OUT`.
    """

    def __init__(
        self,
        file: IO[bytes],
        format: Format,
        *,
        size: int | None = None,
        packed: bool = False,
        nulls: Sequence[str] = (),
    ) -> None:
        self.format = format
        self.total = size
        self.done = 0
        self.left_out: list[str] = []
        self._raw = file
        self._file: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
        self._nulls = list(nulls)
        if format == "parquet":
            self._parquet = _read(lambda: pq.ParquetFile(io.BytesIO(file.read()) if size is None else file))
            self.total = self._parquet.metadata.num_rows

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        """The rows as events, in order. Raises Unreadable when the rest cannot be read or a column is missing."""
        if self.format == "ndjson":
            yield from self._lines(columns)
            return
        first = 1
        for batch in self._csv(columns) if self.format == "csv" else self._row_groups(columns):
            yield convert(batch, columns, first, text=self.format == "csv")
            first += batch.num_rows
            self.done = first - 1 if self.format == "parquet" else self._tell()

    def _tell(self) -> int:
        return self._raw.tell() if self.total is not None else 0

    def _csv(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        file, header = _with_header(self._file)
        if header:
            columns.check(header)
        self.left_out = columns.left_out(header)[:MOST_LEFT_OUT]
        convert_options = pa_csv.ConvertOptions(
            include_columns=columns.all,
            column_types=dict.fromkeys(columns.all, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=["", *self._nulls],
        )
        # In a thread, because Ctrl-C has no effect while Arrow waits for input.
        thread = ThreadPoolExecutor(1)
        try:
            reader = _read(
                thread.submit(
                    pa_csv.open_csv,
                    file,
                    read_options=pa_csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
                    parse_options=pa_csv.ParseOptions(newlines_in_values=True),
                    convert_options=convert_options,
                ).result
            )
            while (batch := _read(thread.submit(next, reader, None).result)) is not None:
                for start in range(0, batch.num_rows, CHUNK_ROWS):
                    yield batch.slice(start, CHUNK_ROWS)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def _row_groups(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        there = self._parquet.schema_arrow.names
        columns.check(there)
        self.left_out = columns.left_out(there)[:MOST_LEFT_OUT]
        batches = self._parquet.iter_batches(CHUNK_ROWS, columns=columns.all)
        while (batch := _read(lambda: next(batches, None))) is not None:
            yield batch

    def _lines(self, columns: Columns) -> Iterator[Chunk]:
        rows: list[int] = []
        events: list[dict[str, Any]] = []
        bad: list[BadRow] = []
        for row, text in enumerate(_read_lines(self._file), 1):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
                events.append(event_of(record, columns))
                self._leave_out(unused(record, columns))
                rows.append(row)
            except (ValueError, RecursionError) as error:
                bad.append(BadRow(row, str(error) if type(error) is ValueError else f"this is not JSON: {error}"))
            if len(rows) + len(bad) >= CHUNK_ROWS:
                self.done = self._tell()
                yield Chunk(batch_of(events, columns), rows, bad)
                rows, events, bad = [], [], []
        self.done = self._tell()
        if rows or bad:
            yield Chunk(batch_of(events, columns), rows, bad)

    def _leave_out(self, names: set[str]) -> None:
        """Note members of a record that are not loaded."""
        if names and len(self.left_out) < MOST_LEFT_OUT and not names.issubset(self.left_out):
            self.left_out = sorted(names.union(self.left_out))[:MOST_LEFT_OUT]


class _Replayed(io.RawIOBase):
    """A file from its beginning, of which some has been read already."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start = start
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._start:
            read = self._rest.read(len(buffer))
            buffer[: len(read)] = read
            return len(read)
        count = min(len(buffer), len(self._start))
        buffer[:count], self._start = self._start[:count], self._start[count:]
        return count


def _with_header(file: IO[bytes]) -> tuple[IO[bytes], list[str]]:
    """The names in the first row of a CSV, and a file that still begins with it.

    What cannot be read of it is left to the reader of the file, which reports the fault.
    """
    lines: list[bytes] = []

    def texts() -> Iterator[str]:
        # A line that is longer than a block cannot be read later either.
        while line := _read(lambda: file.readline(CSV_BLOCK_BYTES)):
            lines.append(line)
            yield line.decode("utf-8-sig", "replace")

    try:
        names = next(csv.reader(texts()), [])
    except csv.Error:
        names = []
    return io.BufferedReader(_Replayed(b"".join(lines), file)), names


def _read_lines(file: IO[bytes]) -> Iterator[bytes]:
    lines = iter(file)
    while (text := _read(lambda: next(lines, None))) is not None:
        yield text


def _read(step: Any) -> Any:
    try:
        return step()
    except pa.ArrowKeyError as error:
        # The CSV reader's message for a column to include that is missing.
        found = re.search(r"Column '(.*)' in include_columns", str(error))
        raise Unreadable(f"there is no column {found[1]!r}" if found else str(error)) from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from None


# Tables: CSV, where every cell is text, and Parquet


def convert(batch: pa.RecordBatch, columns: Columns, first: int, *, text: bool) -> Chunk:
    """A batch of the file's columns as events; its first row has the number `first`."""
    made: dict[str, pa.Array] = {}
    reasons: dict[int, str] = {}
    if columns.op is None:
        made["op"] = pa.repeat("upsert", batch.num_rows)
    else:
        made["op"] = pc.fill_null(_cast(batch, columns.op, pa.string()), "upsert")
    ids = [_cast(batch, name, pa.string()) for name in columns.ids]
    for name, array in zip(columns.ids, ids, strict=True):
        _note(reasons, array.is_null(), f"{name} is empty")
    made["id"] = pc.binary_join_element_wise(*ids, "", null_handling="emit_null")
    for attribute, name in columns.numbers.items():
        made[attribute] = _numbers(batch.column(name), name, reasons)
        missing = pc.and_(made[attribute].is_null(), pc.equal(made["op"], "upsert"))
        _note(reasons, missing, f"{name} is empty")
    if columns.fields or columns.payload is not None:
        made["payload"] = pa.array(_payloads(batch, columns, reasons, text=text), pa.string())
    events = pa.RecordBatch.from_pydict(made)
    bad = [BadRow(first + row, reason) for row, reason in sorted(reasons.items())]
    if not bad:
        return Chunk(events, range(first, first + batch.num_rows), bad)
    good = [row for row in range(batch.num_rows) if row not in reasons]
    return Chunk(events.take(pa.array(good, pa.int64())), [first + row for row in good], bad)


def _note(reasons: dict[int, str], where: pa.BooleanArray, reason: str) -> None:
    for row in pc.indices_nonzero(where).to_pylist():
        reasons.setdefault(row, reason)


def _cast(batch: pa.RecordBatch, name: str, type: pa.DataType) -> pa.Array:
    try:
        return batch.column(name).cast(type)
    except pa.ArrowException:
        raise Unreadable(f"the column {name!r} is {batch.column(name).type}, not text") from None


def _numbers(array: pa.Array, name: str, reasons: dict[int, str]) -> pa.DoubleArray:
    if not pa.types.is_string(array.type):
        try:
            numbers = array.cast(pa.float64(), safe=False)
        except pa.ArrowException:
            raise Unreadable(f"the column {name!r} is {array.type}, not numbers") from None
    else:
        try:
            numbers = pc.utf8_trim_whitespace(array).cast(pa.float64())
        except pa.ArrowException:
            numbers = pa.array([_number(cell) for cell in array.to_pylist()], pa.float64())
            wrong = pc.and_(numbers.is_null(), array.is_valid())
            for row in pc.indices_nonzero(wrong).to_pylist():
                reasons.setdefault(row, f"{name} is {array[row].as_py()!r}, which is no number")
    infinite = pc.fill_null(pc.invert(pc.is_finite(numbers)), False)
    _note(reasons, infinite, f"{name} is not finite")
    return numbers


def _number(cell: str | None) -> float | None:
    try:
        return None if cell is None else float(cell)
    except ValueError:
        return None


def _payloads(batch: pa.RecordBatch, columns: Columns, reasons: dict[int, str], *, text: bool) -> list[str | None]:
    if columns.payload is None:
        read = _cell if text else _plain
        cells = [[read(value) for value in batch.column(name).to_pylist()] for name in columns.fields]
        return [_dumps(dict(zip(columns.fields, row, strict=True))) for row in zip(*cells, strict=True)]
    found: list[str | None] = []
    for row, value in enumerate(batch.column(columns.payload).to_pylist()):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                reasons.setdefault(row, f"{columns.payload} is no JSON")
        found.append(None if value is None else _dumps(_plain(value)))
    return found


def _cell(value: str | None) -> Any:
    """A CSV's cell: what reads as a JSON number is one."""
    return json.loads(value) if value is not None and _JSON_NUMBER.fullmatch(value) else value


def _plain(value: Any) -> Any:
    """A Parquet value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# NDJSON


def own_shape(record: dict[str, Any], columns: Columns) -> bool:
    """Whether a record is an event as the service takes it, with its numbers in `values`."""
    return isinstance(record.get("values"), dict) or (
        record.get("op") in ("update", "delete") and not any(name in record for name in columns.numbers.values())
    )


def unused(record: dict[str, Any], columns: Columns) -> set[str]:
    """The members of an event's record that are not loaded."""
    names = record.keys() - columns.used
    if "location" in names and columns.location is not None:
        names.discard("location")
    if names and own_shape(record, columns):
        names -= {"op", "values", "payload"}
        others = record.get("values", {}).keys() - columns.numbers.values()
        names |= {f"values.{name}" for name in others}
    return names


def event_of(record: Any, columns: Columns) -> dict[str, Any]:
    """One line as the cells of an event. The service's own shape of events is understood, too.

    Raises ValueError with what is wrong with it.
    """
    if not isinstance(record, dict):
        raise ValueError("this is no JSON object")
    own = own_shape(record, columns)
    values = record.get("values", {}) if own else record
    there = record.get("location")
    if columns.location is not None and isinstance(there, list) and len(there) == 2:
        values = {**values, **{columns.numbers[name]: there[at] for at, name in enumerate(columns.location)}}
    cells: dict[str, Any] = {}
    op = record.get(columns.op) if columns.op is not None else record.get("op") if own else None
    cells["op"] = "upsert" if op is None else op
    parts = [record.get(name) for name in columns.ids]
    if any(part is None or isinstance(part, dict | list) for part in parts):
        raise ValueError(f"{' or '.join(columns.ids)} is missing")
    cells["id"] = "".join(map(str, parts))
    for attribute, name in columns.numbers.items():
        value = values.get(name)
        if value is None and cells["op"] == "upsert":
            raise ValueError(f"{name} is missing")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{name} is {json.dumps(value)}, which is no number")
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name} is not finite")
        cells[attribute] = value
    if columns.fields:
        cells["payload"] = _dumps({name: record.get(name) for name in columns.fields})
    else:
        whole = record.get(columns.payload or "payload") if columns.payload is not None or own else None
        cells["payload"] = None if whole is None else _dumps(whole)
    return cells


def batch_of(events: Sequence[dict[str, Any]], columns: Columns) -> pa.RecordBatch:
    """Events as a batch; a column of payloads only if there is one."""
    made = {
        "op": pa.array([event["op"] for event in events], pa.string()),
        "id": pa.array([event["id"] for event in events], pa.string()),
    }
    for attribute in columns.numbers:
        made[attribute] = pa.array([event[attribute] for event in events], pa.float64())
    payloads = [event["payload"] for event in events]
    if columns.fields or columns.payload is not None or any(payload is not None for payload in payloads):
        made["payload"] = pa.array(payloads, pa.string())
    return pa.RecordBatch.from_pydict(made)
