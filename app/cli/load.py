"""``rankcast load``: a file's rows as objects of a board.

Commands have a parameter for each of their options, so some have more than eight.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from app.cli import fail, interrupted, name_of
from app.cli.options import FILE_SECONDS, OnError, RowFile, Service, flat

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from app.cli.rows import BadRow, Chunk, Columns, Format, Source
    from app.cli.socket_load import SocketTarget
    from rankcast_client import Board, BoardInfo, Published, Put

SHOWN_ROWS = 10
OPS = ["upsert", "update", "delete"]


class Target(NamedTuple):
    """Where rows go: what it is called, and how a batch of them is sent."""

    name: str
    publish: Callable[[pa.RecordBatch, OnError], Published | Put]


class Stopped(Exception):
    """The rest of the file was not loaded; the message gives the reason."""


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("load")(flat(load))


def load(
    service: Service,
    rows: RowFile,
    board: Annotated[str, typer.Option("--board", "-b", help="The board's name.", callback=name_of)],
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
    whole_payload: Annotated[
        str | None, typer.Option("--payload-json", metavar="COLUMN", help="A column that is the payload: JSON.")
    ] = None,
    op: Annotated[
        str | None,
        typer.Option("--op", metavar="COLUMN", help="Column with upsert, update or delete; else upsert."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the board if it is missing; needs --order.")] = False,
    order: Annotated[
        Literal["asc", "desc"] | None, typer.Option("--order", help="With --create: are small or large values better?")
    ] = None,
    ks: Annotated[str, typer.Option("--ks", metavar="K[,K...]", help="With --create: list lengths on offer.")] = "10",
    socket: Annotated[
        bool, typer.Option("--socket", help="Send the rows over one WebSocket, many requests at a time.")
    ] = False,
    batch: Annotated[int, typer.Option("--batch", min=1, max=5_000, help="With --socket: rows of a request.")] = 1_000,
    window: Annotated[int, typer.Option("--window", min=1, max=256, help="With --socket: requests under way.")] = 128,
) -> None:
    """Load a file's rows as objects of a board, 50,000 a request.

    A row whose id is there already changes that object. Each request is
    applied whole or not at all; when a row is refused, the message names it
    and says up to which row the file is loaded. So does Ctrl-C, with the
    option that goes on from there. Columns that are neither the id nor an
    attribute are left out, and named in the end, unless they are part of
    the payload.

    With --socket requests are smaller, and many are under way: a row is
    applied sooner, and where one is refused some behind it are applied.
    Rows are applied in order; but what a busy service (503) did not take
    is sent again behind what was under way, also where both are about
    one object.

    Examples:

    rankcast load cars.parquet --board cars

    rankcast load flights.csv --board delays --id carrier,flight
    --rank delay=arr_delay --null NA --on-error skip

    rankcast load scores.ndjson --board arcade --range level --rank score
    --create --order desc --ks 5,10
    """
    from app.cli.rows import Columns

    if create and order is None:
        raise typer.BadParameter("--create needs --order asc (small is better) or desc (large is better)")
    if rows.payload and whole_payload:
        raise typer.BadParameter("give --payload or --payload-json, not both")
    with service.connected(FILE_SECONDS) as client:
        handle = client.board(board)
        info = _board(handle, _names(range or []), rank, order if create else None, ks)
        columns = Columns(rows.ids, _numbers(info, range or [], rank), rows.fields, whole_payload, op)

        if socket:
            from app.cli.socket_load import SocketTarget

            with client.socket(window=window) as opened:
                load_rows(rows, columns, SocketTarget(opened, board, batch, window))
            return

        def publish(batch: pa.RecordBatch, on_error: OnError) -> Published:
            return handle.publish_arrow(stream_of(batch), messages="none", on_error=on_error)

        load_rows(rows, columns, Target(board, publish))


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


def load_rows(rows: RowFile, columns: Columns, target: Target | SocketTarget) -> None:
    """Send the rows of a file, and end the command where that cannot be."""
    from app.cli.rows import Unreadable

    try:
        with _opened(rows.file, rows.format, rows.null or []) as source:
            _send(source, columns, target, rows)
    except Unreadable as error:
        raise fail(f"{rows.file}: {error}") from None
    except Stopped as why:
        raise fail(str(why)) from None


@contextmanager
def _opened(file: Path, format: Format | None, nulls: list[str]) -> Iterator[Source]:
    from app.cli.rows import Source, Unreadable, format_of

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
    """How far a file is loaded.

    The rows from `first` to `last` are `applied` or `skipped`, those up to `sent` are on their way.
    """

    first: int
    last: int
    sent: int
    applied: int = 0
    seq: int | None = None
    skipped: list[BadRow] = field(default_factory=list)
    under_way: deque[tuple[Chunk, Future[Published]]] = field(default_factory=deque)

    @property
    def loaded(self) -> str:
        """In words, as a starting point for another run."""
        if self.last < self.first:
            return "nothing was loaded"
        return f"rows {self.first:,} to {self.last:,} are loaded"

    def send(self, target: Target | SocketTarget, chunk: Chunk, on_error: OnError) -> Iterator[None]:
        """Send a chunk, and count what became of what was sent, step by step. Raises Stopped when a row is refused."""
        if isinstance(target, Target):
            self._check(chunk, on_error)
            self.sent = self._end(chunk)
            self._count(chunk, (lambda: target.publish(chunk.batch, on_error)) if len(chunk.rows) else None)
            yield
            return
        for piece in target.pieces(chunk):
            if piece.bad and on_error == "refuse":
                self.settle()
                self._check(piece, on_error)
            self.sent = self._end(piece)
            if len(piece.rows):
                self.under_way.append((piece, target.begin(piece.batch, on_error)))
            else:
                self.settle()
                self._count(piece, None)
            while len(self.under_way) >= target.window:
                self._settle_one()
                yield

    def settle(self) -> None:
        """Wait for all that is under way. Raises as `send`."""
        while self.under_way:
            self._settle_one()

    def _settle_one(self) -> None:
        piece, future = self.under_way[0]
        self._count(piece, future.result)
        self.under_way.popleft()

    def _check(self, chunk: Chunk, on_error: OnError) -> None:
        if chunk.bad and on_error == "refuse":
            raise _refused(sorted([*chunk.bad, *_bad_for_the_service(chunk)]), self)

    def _end(self, chunk: Chunk) -> int:
        """The last row of a chunk."""
        return max([self.last, *(bad.row for bad in chunk.bad), *chunk.rows[-1:]])

    def _count(self, chunk: Chunk, answer_of: Callable[[], Published | Put] | None) -> None:
        """Take the answer to a chunk, None where nothing of it was sent."""
        bad, last = chunk.bad, self._end(chunk)
        if answer_of is not None:
            answer, refused = _answer(answer_of, chunk, self)
            self.applied += answer.applied
            self.seq = answer.seq
            bad = sorted([*bad, *refused])
        self.skipped += bad
        self.last, self.sent = last, max(last, self.sent)


def _send(source: Source, columns: Columns, target: Target | SocketTarget, rows: RowFile) -> None:
    """Send chunk by chunk with a progress bar, and say in the end, or on Ctrl-C, what has become of the rows."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from rankcast_client import RankcastError

    started = time.monotonic()
    from_row, what = rows.from_row, f"{rows.file} -> {target.name}"
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
            task = bar.add_task(what, total=source.total)
            for chunk in source.chunks(columns):
                since = chunk.since(from_row) if from_row > 1 else chunk
                for _ in made.send(target, since, rows.on_error):
                    bar.update(task, completed=source.done, description=f"{what}: {made.applied:,} rows")
            made.settle()
            bar.update(task, description=f"{what}: {made.applied:,} rows")
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
    seen = made.applied + len(made.skipped)
    typer.echo(f"{made.applied:,} of {seen:,} rows are on {target.name}{at} ({took:.1f} s)")
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


def _answer(
    answer_of: Callable[[], Published | Put], chunk: Chunk, made: Progress
) -> tuple[Published | Put, list[BadRow]]:
    """The answer to one request. A refusal names the file's rows."""
    from app.cli.rows import BadRow
    from rankcast_client import FieldError, ProblemError

    def located(errors: tuple[FieldError, ...]) -> list[BadRow]:
        return [
            BadRow(chunk.rows[error.index], f"{error.field.partition('].')[2] or 'row'} {error.reason}")
            for error in errors
            if error.index is not None and error.index < len(chunk.rows)
        ]

    try:
        answer = answer_of()
    except ProblemError as problem:
        bad = located(problem.errors)
        if not bad:
            raise
        raise _refused(bad, made) from None
    return answer, located(answer.errors)


def _bad_for_the_service(chunk: Chunk) -> list[BadRow]:
    """Which of the rows that could be read the service would refuse by themselves, in its words. A chunk with other bad
    rows is not sent, and all of its bad rows are to be known at once.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from app.api.values import LARGEST, NAME_REASON, bad_names, number_reason
    from app.cli.rows import BadRow

    bad = [BadRow(chunk.rows[at], f"id {NAME_REASON}") for at in bad_names(chunk.batch.column("id")).tolist()]
    known = pc.is_in(chunk.batch.column("op"), value_set=pa.array(OPS))
    reason = "op must be 'upsert', 'update' or 'delete'"
    bad += [BadRow(chunk.rows[at], reason) for at in np.flatnonzero(~np.asarray(known)).tolist()]
    for name in chunk.batch.schema.names:
        column = chunk.batch.column(name)
        if pa.types.is_floating(column.type):
            values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
            large = np.flatnonzero(np.abs(values) > LARGEST).tolist()
            bad += [BadRow(chunk.rows[at], f"values.{name} {number_reason(values[at])}") for at in large]
    return bad


def stream_of(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _refused(bad: list[BadRow], made: Progress) -> Stopped:
    loaded = made.loaded
    if len(made.under_way) > 1:
        first = made.under_way[1][0].rows[0]
        loaded += f", of rows {first:,} to {made.sent:,}, which were on their way, some may be too"
    return Stopped(f"bad rows; {loaded}, and --on-error skip passes such rows over\n{_list(bad)}")


def _list(bad: list[BadRow]) -> str:
    lines = [f"  row {row:,}: {reason}" for row, reason in bad[:SHOWN_ROWS]]
    if len(bad) > SHOWN_ROWS:
        lines.append(f"  and {len(bad) - SHOWN_ROWS:,} more")
    return "\n".join(lines)
