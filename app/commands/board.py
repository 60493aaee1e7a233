"""``rankcast board``: boards, made, shown, listed and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.commands import DEFAULT_URL, Key, Url, told
from app.commands.resources import Name, Resource, add_commands, show_resource

if TYPE_CHECKING:
    from rankcast_client import BoardInfo

commands = typer.Typer(help="Boards: the best k objects of any range.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Adds the commands."""
    cli.add_typer(commands, name="board")


@commands.command("put")
def put(
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
        Literal["sparse", "dense"] | None, typer.Option("--algorithm", help="How tiles are found; sparse unless said.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="1/j for at most j tiles an object, 0 < epsilon <= 1. Left out: exact."),
    ] = None,
    sketch: Annotated[
        int | None,
        typer.Option("--sketch", min=1, help="Rectangles that stand for the subscriptions when tiles are found."),
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Make a board, or change what may change of one that is there.

    That is the lengths, the algorithm, epsilon and the sketch. Prints the
    board as it is then.

    Example: rankcast board put delays --range-attribute distance --rank
    delay --order desc -k 5 -k 10
    """
    from rankcast_client import Rankcast

    with told(), Rankcast(url, key) as client:
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
    show_resource(BOARD, board, url, key)


def _row(info: BoardInfo) -> dict[str, object]:
    return {
        "board": info.name,
        "ranges": ",".join(info.range_attributes),
        "rank": f"{info.rank} {info.order}",
        "k": ",".join(map(str, info.ks)),
        "objects": info.more.get("objects", 0),
        "subscriptions": info.more.get("subscriptions", 0),
    }


BOARD = Resource(
    "board", "that is on it", lambda client, name: client.board(name), lambda client: client.boards(), _row
)
add_commands(commands, BOARD)
