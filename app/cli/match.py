"""``rankcast match``: the winners of events from a file or the input."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli import details, fail, for_pipe, name_of, shown
from app.cli.inputs import Unreadable, json_rows, opened
from app.cli.options import FILE_SECONDS, Service, flat

if TYPE_CHECKING:
    from rankcast_client import MatcherInfo, MatchEvent, MatchResult

AT_ONCE = 1_000
"""Events in a request. Lines come out as soon as those of their request are matched."""

KEPT = 50_000
"""Most winners in the response to a request that notifies, which is stored for retries."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("match")(flat(match))


def match(
    service: Service,
    matcher: Annotated[str, typer.Option("--matcher", "-m", help="The matcher's name.", callback=name_of)],
    file: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="NDJSON or CSV, a row for each event; - or nothing is the input.")
    ] = Path("-"),
    format: Annotated[
        Literal["ndjson", "csv"] | None, typer.Option("--format", help="Left out: by the file's name; input is NDJSON.")
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many winners each event has at most.")] = 20,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each dimension that matches added.")] = False,
    notify: Annotated[bool, typer.Option("--notify", help="Send it to the winners' open streams.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", "--json", help="NDJSON; the default when the output is no terminal.")
    ] = False,
) -> None:
    """Match events, and show the subscriptions that score best for each.

    A line of NDJSON is an event as the service takes it,
    {"values": {...}, "payload": ...}, or its values alone. A CSV has a
    column for each dimension; a cell is a number, a range LOW:HIGH, or
    empty where the event lacks it, and other columns are the payload.

    Plain output is a line for each event: its values and its winners.

    Examples:

    echo '{"age": 28, "credit": 441}' | rankcast match -m ads -k 5

    rankcast match visits.csv -m ads --explain --json | jq .winners[0].id
    """
    show = _lines if for_pipe(plain) else _tables
    with service.connected(FILE_SECONDS) as client:
        handle = client.matcher(matcher)
        info = handle.info()
        try:
            with opened(file) as source:
                events = _events(source, format or _format_of(file), info)
                at_once = min(AT_ONCE, KEPT // k) if notify else AT_ONCE
                while some := list(islice(events, at_once)):
                    answer = handle.match_many(some, k=k, explain=explain, notify=notify)
                    show(some, answer.results, info)
        except Unreadable as error:
            raise fail(f"{file}: {error}") from None


def _format_of(file: Path) -> Literal["ndjson", "csv"]:
    return "csv" if file.suffix.lower() == ".csv" else "ndjson"


def _events(source: IO[str], format: Literal["ndjson", "csv"], info: MatcherInfo) -> Iterator[MatchEvent]:
    return _of_csv(source, info) if format == "csv" else _of_lines(source)


def _of_lines(source: Iterable[str]) -> Iterator[MatchEvent]:
    for row, read in json_rows(source):
        values = read["values"] if isinstance(read.get("values"), dict) else read
        event: MatchEvent = {"values": {name: _value(value, row, name) for name, value in values.items()}}
        if values is not read and read.get("payload") is not None:
            event["payload"] = read["payload"]
        yield event


def _value(value: Any, row: int, name: str) -> Any:
    """A value of JSON for the client, which takes ranges as pairs."""
    if isinstance(value, list):
        if len(value) != 2:
            raise Unreadable(f"row {row}: {name} is {shown(value)}, and a range has two ends")
        return tuple(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise Unreadable(f"row {row}: {name} is {shown(value)}, which is no number")
    return value


def _of_csv(source: Iterable[str], info: MatcherInfo) -> Iterator[MatchEvent]:
    rows = csv.DictReader(source)
    missing = [name for name in info.dimensions if name not in (rows.fieldnames or ())]
    if len(missing) == len(info.dimensions):
        raise Unreadable(f"there is no column for any dimension of {info.name}: {', '.join(missing)}")
    for row, cells in enumerate(rows, 1):
        if None in cells:
            raise Unreadable(f"row {row} has more cells than there are columns")
        values = {name: _cell(cells.get(name), row, name) for name in info.dimensions}
        event: MatchEvent = {"values": {name: value for name, value in values.items() if value is not None}}
        payload = {name: cell for name, cell in cells.items() if name not in info.dimensions}
        if payload:
            event["payload"] = payload
        yield event


def _cell(cell: str | None, row: int, name: str) -> Any:
    text = (cell or "").strip()
    if not text:
        return None
    low, colon, high = text.partition(":")
    return (_number(low, row, name), _number(high, row, name)) if colon else _number(text, row, name)


def _number(text: str, row: int, name: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise Unreadable(f"row {row}: {name} is {text!r}, which is no number")
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _lines(events: list[MatchEvent], results: tuple[MatchResult, ...], info: MatcherInfo) -> None:
    for event, result in zip(events, results, strict=True):
        winners = [
            {"id": won.id, "score": won.score, **({} if won.matched is None else {"matched": won.matched})}
            for won in result.winners
        ]
        line: dict[str, Any] = {**event, "winners": winners}
        if result.looked_at is not None:
            line["looked_at"] = result.looked_at
        typer.echo(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


def _tables(events: list[MatchEvent], results: tuple[MatchResult, ...], info: MatcherInfo) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for event, result in zip(events, results, strict=True):
        explained = result.looked_at is not None
        table = Table()
        table.add_column("rank", justify="right")
        table.add_column("id")
        table.add_column("score", justify="right")
        for name in info.dimensions if explained else ():
            table.add_column(name, justify="right")
        for rank, won in enumerate(result.winners, 1):
            matched = won.matched or {}
            added = ["" if name not in matched else _added(matched[name]) for name in info.dimensions]
            table.add_row(str(rank), escape(won.id), shown(won.score), *(added if explained else ()))
        console.print(f"{info.name}: {details(dict(event['values']))}", style="bold", markup=False, highlight=False)
        console.print(table)
        if explained:
            console.print(f"{result.looked_at} index entries looked at", style="dim", highlight=False)


def _added(weight: float | None) -> str:
    return "yes" if weight is None else shown(weight)
