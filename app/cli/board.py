"""``rankcast board``: boards, made, shown, listed and deleted.

Commands have a parameter for each of their options, so some have more than eight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.options import Name, Service, command
from app.cli.resources import Resource, add_commands, show_resource

if TYPE_CHECKING:
    from rankcast_client import BoardInfo

commands = typer.Typer(help="Boards: the best k objects of any range.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(commands, name="board")


@command(commands, "put")
def put(
    service: Service,
    board: Name,
    range_attribute: Annotated[
        list[str], typer.Option("--range-attribute", "-r", metavar="NAME", help="What ranges are of; once for each.")
    ],
    rank: Annotated[str, typer.Option("--rank", metavar="NAME", help="The attribute by which objects are ranked.")],
    k: Annotated[
        list[int],
        typer.Option("-k", "--k", min=1, help="A list length that subscriptions may ask for; once for each."),
    ],
    order: Annotated[
        Literal["asc", "desc"], typer.Option("--order", help="Which values rank first: small (asc) or large (desc).")
    ] = "asc",
    indexed: Annotated[
        list[str] | None,
        typer.Option(
            "--indexed", metavar="FIELD", help="A member of payloads that subscriptions may filter by; once for each."
        ),
    ] = None,
    algorithm: Annotated[
        Literal["sparse", "dense"] | None, typer.Option("--algorithm", help="How tiles are found; sparse by default.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="1/j for at most j tiles an object, 0 < epsilon <= 1. Left out: exact."),
    ] = None,
    sketch: Annotated[
        int | None,
        typer.Option("--sketch", min=1, help="Rectangles of the sketch of the subscriptions."),
    ] = None,
) -> None:
    """Create a board, or change an existing one.

    The lengths, the algorithm, epsilon and the sketch may change. Prints
    the board afterwards.

    Example: rankcast board put delays --range-attribute distance --rank
    delay --order desc -k 5 -k 10
    """
    with service.connected() as client:
        client.board(board).put(
            range_attribute,
            rank,
            order=order,
            ks=k,
            algorithm=algorithm,
            epsilon=epsilon,
            sketch=sketch,
            indexed=indexed or (),
        )
    show_resource(BOARD, board, service)


def _row(info: BoardInfo) -> dict[str, object]:
    return {
        "board": info.name,
        "ranges": ",".join(info.range_attributes),
        "rank": f"{info.rank} {info.order}",
        "k": ",".join(map(str, info.ks)),
        "objects": info.more.get("objects", 0),
        "subscriptions": info.more.get("subscriptions", 0),
    }


BOARD = Resource("board", _row)
add_commands(commands, BOARD)
