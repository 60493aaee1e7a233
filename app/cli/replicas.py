"""``rankcast replicas`` and ``promote``: the nodes of a group, and which of them leads."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli import line
from app.cli.options import Service, flat


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command("replicas")(flat(replicas))
    cli.command("promote")(flat(promote))


def replicas(service: Service) -> None:
    """List the replicas that follow a leader.

    Lines have the name or the node, whether it follows now, the last row on
    its disk, the rows that its reads lack, the seconds since it was heard of,
    and its address, separated by tabs. A replica lists none.

    Example: rankcast replicas
    """
    with service.connected() as client:
        for one in client.replicas():
            state = "follows" if one.connected else "away"
            typer.echo(line(one.name or one.node, state, one.durable, one.rows, one.seconds, one.address))


def promote(
    service: Service,
    force: Annotated[
        bool, typer.Option("--force", help="Also where another node has more of the log, which is given up.")
    ] = False,
) -> None:
    """Make the replica at --url the leader.

    A leader that can be reached ends its writes first, so that nothing is
    lost. Refused where another replica that can be reached has more.

    Example: rankcast promote --url http://127.0.0.1:8001
    """
    if "," in service.url:
        raise typer.BadParameter("name the one node that is to lead with --url")
    with service.connected() as client:
        done = client.promote(force=force)
    typer.echo(f"{done.role} in term {done.term}, at row {done.lsn}")
