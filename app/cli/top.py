"""``rankcast top``: the best objects of a board right now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import Range, cells, columns, for_pipe, line, name_of, question, ranges_of
from app.cli.options import Offset, Plain, Ranges, Service, flat

if TYPE_CHECKING:
    from rankcast_client import BoardInfo, Entry


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("top")(flat(top))


def top(
    service: Service,
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board's name.", callback=name_of)],
    ranges: Ranges = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="How many. Left out: the most that subscriptions may ask for.")
    ] = None,
    offset: Offset = 0,
    plain: Plain = False,
) -> None:
    """Show the best objects of a board right now.

    Plain lines have the rank, the id, the rank attribute, the range
    attributes and the payload, separated by tabs.

    Example: rankcast top delays --range 500:1000 -k 5
    """
    with service.connected() as client:
        handle = client.board(board)
        info = handle.info()
        wanted = ranges_of(ranges, info.range_attributes)
        best = handle.top(_ends(wanted, info, 0), _ends(wanted, info, 1), k, offset=offset)
    if for_pipe(plain):
        for rank, entry in enumerate(best, offset + 1):
            typer.echo(line(rank, entry.id, *(entry.values.get(name) for name in columns(info)), entry.payload))
        return
    _print(info, best, offset, question(info, wanted, k or max(info.ks), offset))


def _ends(wanted: dict[str, Range], info: BoardInfo, side: int) -> float | dict[str, float | None] | None:
    ends = {name: wanted.get(name, (None, None))[side] for name in info.range_attributes}
    return ends if len(ends) > 1 else ends[info.range_attributes[0]]


def _print(info: BoardInfo, best: tuple[Entry, ...], offset: int, title: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    table.add_column("rank", justify="right")
    table.add_column("id")
    for name in columns(info):
        table.add_column(name, justify="right")
    if any(entry.payload is not None for entry in best):
        table.add_column("payload")
    for rank, entry in enumerate(best, offset + 1):
        table.add_row(str(rank), *map(escape, cells(info, entry)[: len(table.columns) - 1]))
    console = Console()
    console.print(f"{info.name}: {title}", style="bold", markup=False, highlight=False)
    console.print(table)
