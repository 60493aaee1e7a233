"""``rankcast load``: a file's rows as objects of a board."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import typer

from app.commands import DEFAULT_URL, Key, Url, fail, interrupted, name_of, told

if TYPE_CHECKING:
    import pyarrow as pa

    from app.commands.rows import BadRow, Chunk, Columns, Format, Source
    from rankcast_client import Board, BoardInfo, Published, Put

SHOWN_ROWS = 10

OnError: TypeAlias = Literal["refuse", "skip"]
FromRow = Annotated[
    int, typer.Option("--from-row", min=1, help="Begin at this row, such as after one that was loaded before.")
]


class Target(NamedTuple):
    """Where rows go: what it is called, and how a batch of them is sent."""

    name: str
    publish: Callable[[pa.RecordBatch, OnError], Published | Put]


class Stopped(Exception):
    """The rest of the file was not loaded; the message says why."""


def register(cli: typer.Typer) -> None:
    """Adds the command."""
    cli.command("load")(load)


def load(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, Parquet or NDJSON, also as .gz; - is the input.")],
    board: Annotated[str, typer.Option("--board", "-b", help="The board's name.", callback=name_of)],
    format: Annotated[
        Literal["csv", "parquet", "ndjson"] | None, typer.Option("--format", help="Left out: by the file's name.")
    ] = None,
    id: Annotated[
        str, typer.Option("--id", metavar="COLUMN[,COLUMN...]", help="Whose values, joined, are the object's id.")
    ] = "id",
    range: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="[ATTRIBUTE=]COLUMN",
            help="Column of a range attribute; once for each. Left out: the column that is called like the attribute.",
        ),
    ] = None,
    rank: Annotated[
        str | None, typer.Option("--rank", metavar="[ATTRIBUTE=]COLUMN", help="Column of the rank attribute.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="COLUMN[,COLUMN...]", help="Columns that make up the payload.")
    ] = None,
    whole_payload: Annotated[
        str | None, typer.Option("--payload-json", metavar="COLUMN", help="A column that is the payload: JSON.")
    ] = None,
    op: Annotated[
        str | None,
        typer.Option("--op", metavar="COLUMN", help="Column with upsert, update or delete; else upsert."),
    ] = None,
    null: Annotated[
        list[str] | None, typer.Option("--null", metavar="TEXT", help="Also means an empty cell in a CSV, such as NA.")
    ] = None,
    on_error: Annotated[
        Literal["refuse", "skip"], typer.Option("--on-error", help="Stop at a bad row, or pass it over and say so.")
    ] = "refuse",
    from_row: FromRow = 1,
    create: Annotated[bool, typer.Option("--create", help="Make the board if it is missing; needs --order.")] = False,
    order: Annotated[
        Literal["asc", "desc"] | None, typer.Option("--order", help="With --create: are small or large values better?")
    ] = None,
    ks: Annotated[str, typer.Option("--ks", metavar="K[,K...]", help="With --create: list lengths on offer.")] = "10",
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Load a file's rows as objects of a board, 50,000 a request.

    A row whose id is there already changes that object. Each request is
    applied whole or not at all; when a row is refused, the message names it
    and says up to which row the file is loaded. So does Ctrl-C, with the
    option that goes on from there. Columns that are neither the id nor an
    attribute are left out, and named in the end, unless they are part of
    the payload.

    Examples:

    rankcast load cars.parquet --board cars

    rankcast load flights.csv --board delays --id carrier,flight
    --rank delay=arr_delay --null NA --on-error skip

    rankcast load scores.ndjson --board arcade --range level --rank score
    --create --order desc --ks 5,10
    """
    from app.commands.rows import Columns
    from rankcast_client import Rankcast

    if create and order is None:
        raise typer.BadParameter("--create needs --order asc (small is better) or desc (large is better)")
    if payload and whole_payload:
        raise typer.BadParameter("give --payload or --payload-json, not both")
    with told(), Rankcast(url, key, timeout=600.0) as client:
        handle = client.board(board)
        info = _board(handle, _names(range or []), rank, order if create else None, ks)
        columns = Columns(
            tuple(id.split(",")),
            _numbers(info, range or [], rank),
            tuple(payload.split(",")) if payload else (),
            whole_payload,
            op,
        )

        def publish(batch: pa.RecordBatch, on_error: OnError) -> Published:
            return handle.publish_arrow(stream_of(batch), messages="none", on_error=on_error)

        load_rows(file, format, null or [], columns, Target(board, publish), on_error, from_row)


def _names(options: list[str]) -> list[tuple[str, str]]:
    """(attribute, column) of each option; a column alone is an attribute of the same name."""
    return [(name, column or name) for name, _, column in (option.partition("=") for option in options)]


def _board(
    board: Board, ranges: list[tuple[str, str]], rank: str | None, order: Literal["asc", "desc"] | None, ks: str
) -> BoardInfo:
    from rankcast_client import ProblemError

    try:
        return board.info()
    except ProblemError as problem:
        if problem.status != 404:
            raise
    if order is None:
        raise fail(f"there is no board {board.name!r}; with --create and --order asc or desc it is made")
    if not ranges or rank is None:
        raise fail(f"there is no board {board.name!r}; to make it, name its attributes with --range and --rank")
    try:
        lengths = [int(k) for k in ks.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--ks is a list of integers such as 5,10, not {ks!r}") from None
    info = board.put([name for name, _ in ranges], rank.partition("=")[0], order=order, ks=lengths)
    typer.echo(f"made the board {board.name}", err=True)
    return info


def _numbers(info: BoardInfo, ranges: list[str], rank: str | None) -> dict[str, str]:
    """The column of each attribute of the board."""
    numbers = {name: name for name in (*info.range_attributes, info.rank)}
    for option in ranges:
        name, _, column = option.partition("=")
        if not column and len(info.range_attributes) == 1:
            name, column = info.range_attributes[0], name
        if name not in info.range_attributes:
            raise typer.BadParameter(f"{info.name} has no range attribute {name!r}: {', '.join(info.range_attributes)}")
        numbers[name] = column or name
    if rank is not None:
        name, _, column = rank.partition("=")
        if column and name != info.rank:
            raise typer.BadParameter(f"{info.name} ranks by {info.rank!r}, not by {name!r}")
        numbers[info.rank] = column or name
    return numbers


def load_rows(
    file: Path,
    format: Format | None,
    nulls: list[str],
    columns: Columns,
    target: Target,
    on_error: OnError,
    from_row: int,
) -> None:
    """Send the rows of a file, and end the command where that cannot be."""
    from app.commands.rows import Unreadable

    try:
        with _opened(file, format, nulls) as source:
            _send(source, columns, target, str(file), on_error, from_row)
    except Unreadable as error:
        raise fail(f"{file}: {error}") from None
    except Stopped as why:
        raise fail(str(why)) from None


@contextmanager
def _opened(file: Path, format: Format | None, nulls: list[str]) -> Iterator[Source]:
    from app.commands.rows import Source, Unreadable, format_of

    if str(file) == "-":
        if format is None:
            raise typer.BadParameter("what comes from the input needs --format")
        yield Source(sys.stdin.buffer, format, size=None, packed=False, nulls=nulls)
        return
    try:
        with file.open("rb") as opened:
            packed = file.suffix.lower() == ".gz"
            yield Source(opened, format or format_of(file), size=file.stat().st_size, packed=packed, nulls=nulls)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


@dataclass
class Progress:
    """How far a file is loaded: the rows from `first` to `last` are `applied` or `skipped`, those up to `sent` are on
    their way."""

    first: int
    last: int
    sent: int
    applied: int = 0
    seq: int | None = None
    skipped: list[BadRow] = field(default_factory=list)

    @property
    def loaded(self) -> str:
        """In words, for one who wants to go on."""
        if self.last < self.first:
            return "nothing was loaded"
        return f"rows {self.first:,} to {self.last:,} are loaded"

    def send(self, target: Target, chunk: Chunk, on_error: OnError) -> None:
        """Send a chunk, and count what became of it. Raises Stopped when a row is refused."""
        if chunk.bad and on_error == "refuse":
            raise _refused(chunk.bad, self)
        last = max([self.last, *(bad.row for bad in chunk.bad), *chunk.rows[-1:]])
        bad = chunk.bad
        if len(chunk.rows):
            self.sent = last
            answer, refused = _publish(target, chunk, on_error, self)
            self.applied += answer.applied
            self.seq = answer.seq
            bad = sorted([*bad, *refused])
        self.skipped += bad
        self.last = self.sent = last


def _send(source: Source, columns: Columns, target: Target, name: str, on_error: OnError, from_row: int) -> None:
    """Sends chunk by chunk with a progress bar, and says in the end, or on Ctrl-C, what has become of the rows."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from rankcast_client import RankcastError

    started = time.monotonic()
    made = Progress(from_row, from_row - 1, from_row - 1)
    bar = Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    try:
        with bar:
            task = bar.add_task(f"{name} -> {target.name}", total=source.total)
            for chunk in source.chunks(columns):
                made.send(target, chunk.since(from_row) if from_row > 1 else chunk, on_error)
                says = f"{name} -> {target.name}: {made.applied:,} rows"
                bar.update(task, completed=source.done, description=says)
            if source.total is not None:
                bar.update(task, completed=source.total)
    except KeyboardInterrupt:
        raise interrupted(_how_far(made)) from None
    except RankcastError as error:
        if made.last < made.first:
            raise
        raise fail(f"{error}; {_how_far(made)}") from None
    took = time.monotonic() - started
    at = "" if made.seq is None else f", seq {made.seq}"
    rows = made.applied + len(made.skipped)
    typer.echo(f"{made.applied:,} of {rows:,} rows are on {target.name}{at} ({took:.1f} s)")
    if made.skipped:
        typer.echo("passed over:\n" + _list(made.skipped), err=True)
    if source.left_out:
        typer.echo(_left_out(source.left_out, columns), err=True)


def _how_far(made: Progress) -> str:
    """What is loaded when a command is ended, and how to go on."""
    counts = f"{made.applied:,} applied"
    if made.skipped:
        counts += f", {len(made.skipped):,} passed over"
    if made.seq is not None:
        counts += f", seq {made.seq}"
    text = made.loaded if made.last < made.first else f"{made.loaded} ({counts})"
    if made.sent > made.last:
        text += f", and rows {made.last + 1:,} to {made.sent:,} may be: they were on their way"
    return text if made.last < made.first else f"{text}. To go on: the same command with --from-row {made.last + 1}"


def _left_out(names: list[str], columns: Columns) -> str:
    """Which columns are not loaded, and how they would be."""
    shown = names[:SHOWN_ROWS]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    text = f"columns left out: {', '.join(shown)}{more}"
    # An option cannot name a column with a comma in it, nor a member of another one.
    fields = [name for name in shown if "," not in name and not name.startswith("values.")]
    if fields and columns.payload is None:
        text += f". As payload: --payload {shlex.quote(','.join([*columns.fields, *fields]))}"
    return text


def _publish(target: Target, chunk: Chunk, on_error: OnError, made: Progress) -> tuple[Published | Put, list[BadRow]]:
    """One request. A refusal names the file's rows."""
    from app.commands.rows import BadRow
    from rankcast_client import FieldError, ProblemError

    def located(errors: tuple[FieldError, ...]) -> list[BadRow]:
        return [
            BadRow(chunk.rows[error.index], f"{error.field.partition('].')[2] or 'row'} {error.reason}")
            for error in errors
            if error.index is not None and error.index < len(chunk.rows)
        ]

    try:
        answer = target.publish(chunk.batch, on_error)
    except ProblemError as problem:
        bad = located(problem.errors)
        if not bad:
            raise
        raise _refused(bad, made) from None
    return answer, located(answer.errors)


def stream_of(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _refused(bad: list[BadRow], made: Progress) -> Stopped:
    return Stopped(f"bad rows; {made.loaded}, and --on-error skip passes such rows over\n{_list(bad)}")


def _list(bad: list[BadRow]) -> str:
    lines = [f"  row {row:,}: {reason}" for row, reason in bad[:SHOWN_ROWS]]
    if len(bad) > SHOWN_ROWS:
        lines.append(f"  and {len(bad) - SHOWN_ROWS:,} more")
    return "\n".join(lines)
