"""``rankcast bench``: the paper's counts and this machine's speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands import fail

bench = typer.Typer(help="The papers' counts, and the speed of this machine.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.add_typer(bench, name="bench")


@bench.command("boards")
def boards(
    table: Annotated[
        list[int] | None, typer.Option("--table", help="A table of the paper: 1, 3 or 4. May be repeated.")
    ] = None,
    kernels: Annotated[bool, typer.Option("--kernels", help="The painting kernels on one core.")] = False,
    register: Annotated[bool, typer.Option("--register", help="Subscriptions as one Arrow stream.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Events over HTTP, with the durable log.")] = False,
    streams: Annotated[bool, typer.Option("--streams", help="Live lists over SSE and WebSockets.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All of it, written to docs/results/boards.md: the default.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    prototype: Annotated[
        Path | None,
        typer.Option("--prototype", envvar="RANKCAST_PROTOTYPE", help="Folder of the kernels to compare ours with."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the page here in place of docs/results/boards.md.")
    ] = None,
) -> None:
    """Count as the paper counts, and measure kernels, requests and streams.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.boards.run import PAGE, PARTS, TABLES, run
    from bench.process import Failed

    chosen = {"tables": bool(table), "kernels": kernels, "register": register, "http": http, "streams": streams}
    parts = [part for part in PARTS if chosen[part]]
    for number in table or ():
        if number not in TABLES:
            raise typer.BadParameter(f"there is no table {number}, only {', '.join(map(str, TABLES))}")
    if everything or not parts:
        parts, out = list(PARTS), out or (None if quick else PAGE)
    try:
        run(parts, sorted(set(table or TABLES)), quick, prototype, out, typer.echo)
    except Failed as failure:
        raise fail(str(failure)) from None


@bench.command("durability")
def durability(
    churn: Annotated[bool, typer.Option("--churn", help="Subscriptions changing in place.")] = False,
    service: Annotated[bool, typer.Option("--service", help="Starts, memory, jobs under load, the audit.")] = False,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Also what needs Spark, and Java.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the page here in place of docs/results/durability.md.")
    ] = None,
) -> None:
    """Measure starts, memory, and what users notice of snapshots and rebuilds; everything unless parts are named.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.durability.run import PAGE, PARTS, run
    from bench.process import Failed

    chosen = {"churn": churn, "service": service}
    parts = [part for part in PARTS if chosen[part]]
    if not parts:
        parts, out = list(PARTS), out or (None if quick else PAGE)
    try:
        run(parts, quick, spark, out, typer.echo)
    except Failed as failure:
        raise fail(str(failure)) from None
