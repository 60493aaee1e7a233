"""``rankcast map``: maps from the shell; objects from files, questions, standing queries, and clients that move.

Commands have a parameter for each of their options, so some have more than eight.
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli import fail, for_pipe, line, print_json, print_lines, reporting_failures
from app.cli.inputs import Unreadable, opened
from app.cli.load import Target, load_rows, stream_of
from app.cli.options import FILE_SECONDS, Count, Name, OnError, Plain, RowFile, Service, command
from app.cli.questions import (
    At,
    Location,
    M,
    Ordered,
    QuestionOptions,
    ScoreOptions,
    cells,
    heads,
    in_words,
    point,
    texts,
    zone_in_words,
)
from app.cli.resources import Resource, add_commands, show_resource

if TYPE_CHECKING:
    import pyarrow as pa

    from rankcast_client import MapAnswer, MapAttribute, MapInfo, Put, Question, Top
    from rankcast_client.map_models import ResultEvent


@dataclass(frozen=True)
class Output:
    """How an answer is printed."""

    plain: Plain = False
    geojson: Annotated[bool, typer.Option("--geojson", help="GeoJSON: the zone, the place, and the objects.")] = False


TTL = 60.0
"""Seconds after which a temporary query that could not be deleted expires."""

commands = typer.Typer(help="Maps: objects with places, and answers with zones.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(commands, name="map")


@command(commands, "put")
def put(
    service: Service,
    map: Name,
    bounds: Annotated[str, typer.Option("--bounds", metavar="X0,Y0,X1,Y1", help="No skyline's zone reaches past it.")],
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", metavar="NAME=low|high[:LOW:HIGH]", help="Which end is better."),
    ] = None,
    metric: Annotated[
        Literal["euclidean", "manhattan", "great-circle"], typer.Option("--metric", help="How far places are apart.")
    ] = "euclidean",
) -> None:
    """Create a map; one of the same configuration stays as it is.

    Example: rankcast map put food --bounds 0,0,100,100 -a price=low -a
    rating=high:0:5
    """
    try:
        x0, y0, x1, y1 = (float(end) for end in bounds.split(","))
    except ValueError:
        raise typer.BadParameter(f"{bounds!r} are no bounds: write X0,Y0,X1,Y1") from None
    attributes = dict(map_attribute(text) for text in attribute or ())
    with service.connected() as client:
        client.map(map).put(attributes, (x0, y0, x1, y1), metric=metric)
    show_resource(MAP, map, service)


def map_attribute(text: str) -> tuple[str, MapAttribute]:
    """``rating=high:0:5`` as a name and its attribute. Raises typer.BadParameter."""
    from rankcast_client import MapAttribute

    name, _, rest = text.partition("=")
    order, *ends = rest.split(":")
    try:
        low, high = (float(end) for end in ends) if ends else (None, None)
    except ValueError:
        order = ""
    if order not in ("low", "high"):
        raise typer.BadParameter(f"{text!r} is no attribute: write NAME=low, NAME=high or NAME=high:LOW:HIGH")
    return name, MapAttribute(order, None if low is None or high is None else (low, high))  # type: ignore[arg-type]


@command(commands, "load")
def load(
    service: Service,
    rows: RowFile,
    map: Name,
    x: Annotated[str, typer.Option("--x", metavar="COLUMN", help="The column of x, or of the longitude.")] = "x",
    y: Annotated[str, typer.Option("--y", metavar="COLUMN", help="The column of y, or of the latitude.")] = "y",
    value: Annotated[
        list[str] | None,
        typer.Option(
            "--value",
            metavar="ATTRIBUTE=COLUMN",
            help="Column of an attribute; left out: the one that is called like it.",
        ),
    ] = None,
) -> None:
    """Load a file's rows as objects of a map, 50,000 a request.

    A row whose id is there already changes that object. A line of NDJSON
    may also be an object as the service takes it, with location and
    values.

    Example: rankcast map load food places.csv --x lon --y lat --value
    price=cost --payload name,street
    """
    from app.cli.rows import Columns

    with service.connected(FILE_SECONDS) as client:
        handle = client.map(map)
        numbers = {"x": x, "y": y, **{name: name for name in handle.info().attributes}}
        for text in value or ():
            name, equals, column = text.partition("=")
            if name in ("x", "y") or name not in numbers:
                raise typer.BadParameter(f"{map} has no attribute {name!r}, only {', '.join([*numbers][2:])}")
            if not equals or not column:
                raise typer.BadParameter(f"{text!r} names no column: write ATTRIBUTE=COLUMN")
            numbers[name] = column
        columns = Columns(rows.ids, numbers, rows.fields, location=("x", "y"))

        def publish(batch: pa.RecordBatch, on_error: OnError) -> Put:
            return handle.put_arrow(stream_of(batch.drop_columns(["op"])), on_error=on_error)

        load_rows(rows, columns, Target(map, publish))


@command(commands, "top")
def top(
    service: Service,
    output: Output,
    by: ScoreOptions,
    map: Name,
    at: At,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="How many.")] = 10,
    m: M = 1,
    ordered: Ordered = False,
) -> None:
    """Show the best objects at a place by a score, and where that holds.

    Plain lines have the rank, the id, x, y, the distance, the score, the
    attributes and the payload, separated by tabs.

    Example: rankcast map top food --at 10,10 -k 5 -w distance=0.5 -w
    price=0.25
    """
    from rankcast_client import Top

    _show(map, Top(k, by.read(), m, ordered), at, output, service)


@command(commands, "skyline")
def skyline(service: Service, output: Output, map: Name, at: At) -> None:
    """Show what nothing dominates at a place, and where that holds.

    Plain lines are as those of top.
    """
    from rankcast_client import Skyline

    _show(map, Skyline(), at, output, service)


def _show(map: str, question: Question, at: str, output: Output, service: Service) -> None:
    from app.cli.drawing.geojson import features

    place = point(at)
    with service.connected() as client:
        handle = client.map(map)
        info = handle.info()
        answer = handle.ask(question, place)
    if output.geojson:
        print_json(features(info, answer))
    elif for_pipe(output.plain):
        for rank, one in enumerate(answer.objects, 1):
            typer.echo(line(*cells(info, rank, one)))
    else:
        _table(info, answer, f"{map}: {in_words(question, place)}")


def _table(info: MapInfo, answer: MapAnswer, title: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*heads(info))
    for rank, one in enumerate(answer.objects, 1):
        table.add_row(*(escape(cell) for cell in texts(info, rank, one)))
    console = Console()
    console.print(title, style="bold", markup=False, highlight=False)
    console.print(table)
    console.print(f"holds {zone_in_words(answer)}", style="dim", markup=False, highlight=False)


@command(commands, "watch")
def watch(
    service: Service,
    ask: QuestionOptions,
    map: Name,
    at: Annotated[str | None, typer.Option("--at", metavar="X,Y", help="The place.")] = None,
    existing: Annotated[
        str | None, typer.Option("--id", help="A standing query that is there, in place of a temporary one.")
    ] = None,
    count: Count = None,
) -> None:
    """Follow the answer at a place as objects change, a line of JSON each time.

    Example: rankcast map watch food --at 10,10 -k 5 -w distance=1
    """
    if existing is not None:
        if at is not None or ask.skyline or ask.k is not None:
            raise typer.BadParameter("--id follows what is there: leave --at and the question out")
        with reporting_failures():
            asyncio.run(_watch(map, existing, None, None, count, service))
        return
    if at is None:
        raise typer.BadParameter("say where: --at X,Y, or --id of a standing query")
    question = ask.read_question()
    with reporting_failures():
        asyncio.run(_watch(map, None, question, point(at), count, service))


async def _watch(
    map: str,
    existing: str | None,
    question: Question | None,
    place: Location | None,
    count: int | None,
    service: Service,
) -> None:
    import uuid

    from rankcast_client import RankcastError

    async with service.connection() as client:
        handle = client.map(map)
        mine = existing
        if question is not None and place is not None:
            mine = uuid.uuid4().hex
            await handle.put_query(mine, question, place, ttl=TTL)
        assert mine is not None, "there is one, or one was made"
        try:
            await print_lines(handle.results(mine), _line_of, count)
        finally:
            if existing is None:
                with suppress(RankcastError):
                    await handle.delete_query(mine)


def _line_of(event: ResultEvent) -> dict[str, Any] | None:
    from rankcast_client import Circle, Result

    if not isinstance(event, Result):
        return None
    answer, zone = event.answer, event.answer.zone
    shown = {"center": zone.center, "radius": zone.radius} if isinstance(zone, Circle) else zone
    return {"seq": event.seq, "location": answer.location, "ids": [one.id for one in answer.objects], "zone": shown}


@command(commands, "walk")
def walk(
    service: Service,
    ask: QuestionOptions,
    map: Name,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A place a line, X,Y; - is the input. Or --from and --to.")
    ] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="X,Y", help="Where a straight walk begins.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="X,Y", help="Where it ends.")] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="How many steps a straight walk has.")] = 100,
    every: Annotated[bool, typer.Option("--all", help="A line for each step.")] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="With a standing query, whose answer follows the objects."),
    ] = False,
    pause: Annotated[float, typer.Option("--pause", min=0, metavar="SECONDS", help="Between steps.")] = 0.0,
) -> None:
    """Walk, and print where a request was needed: only where the zone of the answer was left.

    Lines have the step, x, y, `asked` or `held`, and the ids of the
    answer, separated by tabs; in the end it says how many requests were
    saved.

    Example: rankcast map walk food --from 0,0 --to 100,50 --steps 500
    -k 5 -m 5 -w distance=1 -w price=2
    """
    question = ask.read_question()
    if (file is None) == (start is None or end is None) or (file is not None and (start or end)):
        raise typer.BadParameter("give a FILE of places, or --from and --to")
    try:
        places = _line(point(start), point(end), steps) if start and end else list(_places(file or Path("-")))
    except Unreadable as error:
        raise fail(f"{file}: {error}") from None
    with reporting_failures():
        asyncio.run(_walk(map, question, places, every, live, pause, service))


async def _walk(
    map: str,
    question: Question,
    places: list[Location],
    every: bool,
    live: bool,
    pause: float,
    service: Service,
) -> None:
    from contextlib import AsyncExitStack

    async with service.connection() as client, AsyncExitStack() as stack:
        handle = client.map(map)
        asks: Top | Any = question
        moving = await stack.enter_async_context(handle.moving_query(asks)) if live else handle.moving(asks)
        for step, place in enumerate(places, 1):
            before = moving.asked
            answer = await moving.move(place)
            asked = moving.asked > before
            if asked or every:
                ids = [one.id for one in answer.objects]
                typer.echo(line(step, *place, "asked" if asked else "held", " ".join(ids)))
            await asyncio.sleep(pause)
        typer.echo(f"{moving.moves} steps, asked {moving.asked} times, {moving.saved} requests saved", err=True)


def _line(start: Location, end: Location, steps: int) -> list[Location]:
    return [
        (start[0] + (end[0] - start[0]) * n / steps, start[1] + (end[1] - start[1]) * n / steps)
        for n in range(steps + 1)
    ]


def _places(file: Path) -> Iterator[Location]:
    with opened(file) as source:
        yield from places_of(source)


def places_of(source: Iterable[str]) -> Iterator[Location]:
    """Places, two numbers a line; a first line that has none is a header. Raises Unreadable."""
    for row, cells_ in enumerate(csv.reader(source), 1):
        if not cells_:
            continue
        try:
            x, y = (float(cell) for cell in cells_)
        except ValueError:
            if row == 1:
                continue
            raise Unreadable(f"row {row} is no place: write X,Y") from None
        yield x, y


def _row(info: MapInfo) -> dict[str, object]:
    return {
        "map": info.name,
        "bounds": ",".join(f"{end:g}" for end in info.bounds),
        "attributes": ",".join(f"{name} {one.order}" for name, one in info.attributes.items()) or "-",
        "metric": info.metric,
        "objects": info.objects,
        "queries": info.queries,
    }


MAP = Resource("map", _row)
add_commands(commands, MAP)
