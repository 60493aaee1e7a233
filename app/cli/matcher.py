"""``rankcast matcher``: matchers, made, shown, listed and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.options import Name, Service, command
from app.cli.resources import Resource, add_commands, show_resource

if TYPE_CHECKING:
    from rankcast_client import MatcherInfo

commands = typer.Typer(help="Matchers: the subscriptions that score best for an event.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(commands, name="matcher")


@command(commands, "put")
def put(
    service: Service,
    matcher: Name,
    dimension: Annotated[
        list[str], typer.Option("--dimension", "-d", metavar="NAME", help="What intervals are of; once for each.")
    ],
    mode: Annotated[
        Literal["relaxed", "exact"],
        typer.Option(
            "--mode",
            help="relaxed: a subscription matches when one of its intervals does, and has a weight for each. "
            "exact: when all do, and has one score.",
        ),
    ],
    combine: Annotated[
        Literal["sum", "max", "product"] | None,
        typer.Option("--combine", help="In relaxed mode: how the weights that match make a score; sum by default."),
    ] = None,
    index: Annotated[
        Literal["auto", "sopt-r", "ir", "segment", "interval", "scored-r"] | None,
        typer.Option("--index", help="How subscriptions are kept; auto by default."),
    ] = None,
) -> None:
    """Create a matcher; one of the same configuration stays as it is.

    Example: rankcast matcher put ads --dimension age --dimension credit
    --mode relaxed
    """
    with service.connected() as client:
        client.matcher(matcher).put(dimension, mode, combine=combine, index=index)
    show_resource(MATCHER, matcher, service)


def _row(info: MatcherInfo) -> dict[str, object]:
    return {
        "matcher": info.name,
        "dimensions": ",".join(info.dimensions),
        "mode": info.mode if info.combine is None else f"{info.mode} {info.combine}",
        "index": info.index,
        "subscriptions": info.subscriptions,
    }


MATCHER = Resource("matcher", _row)
add_commands(commands, MATCHER)
