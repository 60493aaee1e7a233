"""``rankcast plot``: a picture of what an event would do, in the plane of all ranges; or of an answer of a map.

Commands have a parameter for each of their options, so some have more than eight.
"""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli import fail, name_of
from app.cli.options import Service, command
from app.cli.questions import At, QuestionOptions, in_words, point, zone_in_words

if TYPE_CHECKING:
    from rankcast_client import BoardInfo, Effect, Event, Explanation, Subscription

SUFFIXES = (".svg", ".png", ".pdf")

LOOKED_AT = 50
"""Subscriptions looked at for each that is drawn, at most, where few have the k of the picture."""


class _BoardUnlessSaid(TyperGroup):
    """Arguments of no other command are for `board`: ``rankcast plot delays UA1545``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["board", *args]
        return super().parse_args(ctx, args)


commands = typer.Typer(
    cls=_BoardUnlessSaid,
    help="Pictures: of what an event would do on a board, or of an answer of a map and its zone. "
    "`plot BOARD OBJECT` is short for `plot board BOARD OBJECT`.",
    no_args_is_help=True,
)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(commands, name="plot")


def _check_output(output: Path) -> None:
    if output.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"{output} must end in {', '.join(SUFFIXES)}")


def _need_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise fail('drawing needs matplotlib: `make setup` installs it, or pip install "matplotlib>=3.10"')


@command(commands, "board")
def plot(
    service: Service,
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board's name.", callback=name_of)],
    id: Annotated[str, typer.Argument(metavar="OBJECT", help="The object's id.", callback=name_of)],
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A value that it would get; may be repeated."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="It would be deleted.")] = False,
    output: Annotated[Path, typer.Option("-o", "--output", help="The picture: .svg, .png or .pdf.")] = Path(
        "event.svg"
    ),
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Whose lists. Left out: those with most affected subscriptions.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="sparse or dense: as if the board were painted so. Left out: as it is.")
    ] = None,
    epsilon: Annotated[
        int | None,
        typer.Option(metavar="J", min=1, help="One more panel: the tiles with epsilon = 1/J, at most J an object."),
    ] = None,
    subscriptions: Annotated[
        int, typer.Option(min=0, help="Subscriptions to draw as points, the first in order of id.")
    ] = 2_000,
) -> None:
    """Draw what an event would do: nothing is changed.

    The first panel shows for which ranges the object is among the k
    best, and with which rank; the second the tiles that would be sent,
    a colour for each object; subscriptions are points. Without --set
    it shows the object as it is. For boards with one range attribute
    and no indexed fields. Needs matplotlib.

    Example: rankcast plot delays UA1545 --set delay=20 -o event.svg
    """
    _check_output(output)
    if algorithm not in (None, "sparse", "dense"):
        raise typer.BadParameter(f"{algorithm!r} is neither sparse nor dense")
    _need_matplotlib()
    from app.cli.drawing.boards import Panel, Picture, draw

    with service.connected() as client:
        handle = client.board(board)
        info = handle.info()
        if len(info.range_attributes) > 1 or info.indexed:
            raise fail(f"{board} has several range attributes or indexed fields: its subscriptions lie in no plane")
        event = event_of(info, id, values or [], delete)
        said = handle.explain(event, algorithm=algorithm)  # type: ignore[arg-type]
        mine = effect_of(said, k, board)
        panels = [Panel(_painting(info, algorithm), mine)]
        if epsilon is not None:
            loose = handle.explain(event, algorithm=algorithm, epsilon=1 / epsilon)  # type: ignore[arg-type]
            panels.append(
                Panel(f"with ε = 1/{epsilon}" if epsilon > 1 else "with ε = 1", effect_of(loose, mine.k, board))
            )
        looked = islice(handle.subscriptions(), LOOKED_AT * subscriptions)
        points = [_point(one) for one in islice((one for one in looked if one.k + one.offset == mine.k), subscriptions)]
    if said.before is None and said.after is None:
        raise fail(f"there is no object {id!r} on {board} and none would come: nothing to draw")
    if not any((mine.before, mine.after)):
        raise fail(f"{id!r} is among the {mine.k} best of no range, neither before nor after: nothing to draw")
    output.parent.mkdir(parents=True, exist_ok=True)
    draw(Picture(info, said, mine, panels, points), output)
    typer.echo(
        f"{output}: {said.kind}, {said.affected} subscriptions affected, {mine.tile_count} tiles for k = {mine.k}"
    )


@command(commands, "map")
def plot_map(
    service: Service,
    ask: QuestionOptions,
    map: Annotated[str, typer.Argument(metavar="MAP", help="The map's name.", callback=name_of)],
    at: At,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The picture: .svg, .png or .pdf.")] = None,
    geojson: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="GeoJSON in place of a picture, or in addition; - is the output."),
    ] = None,
    objects: Annotated[int, typer.Option(min=0, help="Other objects to draw, the first in order of id.")] = 2_000,
) -> None:
    """Draw an answer of a map and the zone in which it holds.

    The zone is a polygon, with holes where it has any, or a circle; the
    objects of the answer are named, candidates are rings and others
    dots. Needs matplotlib, --geojson does not.

    Example: rankcast plot map food --at 10,10 -k 5 -m 5 -w distance=1
    -w price=2 -o zone.svg --geojson zone.geojson
    """
    question, place = ask.read_question(), point(at)
    picture = Path("zone.svg") if output is None and geojson is None else output
    if picture is not None:
        _check_output(picture)
        _need_matplotlib()
    from app.cli.drawing.geojson import features

    with service.connected() as client:
        handle = client.map(map)
        info = handle.info()
        answer = handle.ask(question, place)
        others = [] if picture is None else list(islice(handle.objects(), objects))
    if geojson is not None:
        text = json.dumps(features(info, answer), ensure_ascii=False, separators=(",", ":"))
        if str(geojson) == "-":
            typer.echo(text)
        else:
            geojson.parent.mkdir(parents=True, exist_ok=True)
            geojson.write_text(text + "\n", encoding="utf-8")
    if picture is not None:
        from app.cli.drawing.maps import draw_answer

        picture.parent.mkdir(parents=True, exist_ok=True)
        title = f"{map}   {in_words(question, place)}"
        draw_answer(info, answer, others, title, zone_in_words(answer), picture)
        typer.echo(f"{picture}: {len(answer.objects)} objects, holds {zone_in_words(answer)}", err=str(geojson) == "-")


def event_of(info: BoardInfo, id: str, values: list[str], delete: bool) -> Event:
    """The event that the options say. Raises typer.BadParameter for what is none."""
    from rankcast_client import delete as deletion
    from rankcast_client import update, upsert

    if delete:
        if values:
            raise typer.BadParameter("--delete takes no --set")
        return deletion(id)
    known = (*info.range_attributes, info.rank)
    given: dict[str, float] = {}
    for text in values:
        name, found, number = text.partition("=")
        name = name.strip()
        if not found:
            raise typer.BadParameter(f"{text!r} sets nothing: write NAME=VALUE")
        if name not in known:
            raise typer.BadParameter(f"the board has no attribute {name!r}, only {', '.join(known)}")
        if name in given:
            raise typer.BadParameter(f"there are two values for {name}")
        try:
            given[name] = float(number)
        except ValueError:
            given[name] = math.nan
        if not math.isfinite(given[name]):
            raise typer.BadParameter(f"{text!r}: {number!r} is not a number")
    return upsert(id, given) if given else update(id)


def effect_of(said: Explanation, k: int | None, board: str) -> Effect:
    """The class to draw: that of `k`, else the one with most affected subscriptions."""
    if k is None:
        return max(said.classes, key=lambda one: (one.reached, -one.k))
    for one in said.classes:
        if one.k == k:
            return one
    offered = ", ".join(str(one.k) for one in said.classes)
    raise typer.BadParameter(f"{board} offers k = {offered}")


def _painting(info: BoardInfo, algorithm: str | None) -> str:
    painting = algorithm or info.algorithm
    return painting if info.epsilon is None else f"{painting}, ε = {info.epsilon:.3g}"


def _point(one: Subscription) -> tuple[float, float]:
    low, high = next(iter(one.range.values()))
    return -math.inf if low is None else low, math.inf if high is None else high
