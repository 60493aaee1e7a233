"""``rankcast connect``: events from a broker into a resource."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import fail
from app.cli.options import Service, flat
from app.connectors.addresses import parse_address
from app.connectors.batches import Limits
from app.connectors.errors import ConnectorError

STATUS_SECONDS = 30.0
"""Between lines that say how far it is."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("connect")(flat(connect))


def name_of_connector(text: str | None) -> str | None:
    """A connector's name. Raises typer.BadParameter."""
    if text is not None and not _NAME.fullmatch(text):
        raise typer.BadParameter("a name has 1 to 64 letters, digits, _ . or -")
    return text


Metrics = Annotated[
    int | None, typer.Option("--metrics-port", min=1, max=65535, help="Answer Prometheus on this port.")
]
MetricsHost = Annotated[str, typer.Option("--metrics-host", metavar="HOST", help="The address of that port.")]


def connect(
    service: Service,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="nats://host/STREAM, redis://, kafka://, mqtt:// or amqp://.")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="TYPE/NAME", help="boards/delays; feeds take posts, maps objects, relays notifications."
        ),
    ],
    map: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="TOML or JSON: where in a message an event's parts are."),
    ] = None,
    dead: Annotated[
        Path | None, typer.Option("--dead", metavar="FILE", help="Refused events go here, not to SOURCE.dead.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", help="What keeps its place at the source; left out: TYPE-NAME.", callback=name_of_connector
        ),
    ] = None,
    begin: Annotated[
        Literal["first", "new"], typer.Option("--from", help="Where to begin when no place is kept.")
    ] = "first",
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=10_000, help="Events of one request, at the most.")
    ] = 1_000,
    max_message: Annotated[
        int, typer.Option("--max-message", metavar="BYTES", min=1, max=8 << 20, help="Larger messages are refused.")
    ] = 256 << 10,
    k: Annotated[int, typer.Option("-k", min=1, max=1_000, help="Matchers: how many winners an event notifies.")] = 20,
    once: Annotated[bool, typer.Option("--once", help="End when nothing waits.")] = False,
    metrics_port: Metrics = None,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Carry events from a broker into a resource, until SIGTERM or Ctrl-C.

    Messages are JSON: an event or a list. They are sent in the order of the
    source, as many a request as wait, and acknowledged when the service has
    answered; while it is away they wait at the broker. Of several nodes,
    named by --url with commas, another one is asked when one does not answer.
    From NATS JetStream, Redis streams and Kafka each arrives exactly once,
    whatever ends in between; from RabbitMQ and MQTT at least once.

    Ends with one line of JSON that says what was counted.

    Example: rankcast connect nats://localhost/FLIGHTS --to boards/delays
    """
    try:
        counts = asyncio.run(
            _connect(
                service, source, to, map, dead, name, begin, Limits(batch), max_message, k, once,
                (metrics_host, metrics_port),
            )
        )  # fmt: skip
    except ConnectorError as error:
        raise fail(str(error)) from None
    typer.echo(json.dumps(counts))


def say(text: str) -> None:
    """Tell an operator."""
    typer.echo(text, err=True)


async def _connect(
    service: Service,
    source: str,
    to: str,
    map: Path | None,
    dead: Path | None,
    name: str | None,
    begin: Literal["first", "new"],
    limits: Limits,
    max_message: int,
    k: int,
    once: bool,
    metrics: tuple[str, int | None],
) -> dict[str, int]:
    from app.connectors.connector import Connector
    from app.connectors.counters import connecting
    from app.connectors.dead_letters import DeadFile
    from app.connectors.destinations import parse_destination
    from app.connectors.mapping.reading import Reader
    from app.connectors.mapping.spec import read_spec
    from app.connectors.service import Service as Target
    from app.connectors.sources.base import Options
    from app.connectors.sources.opening import source_of

    destination = parse_destination(to, k)
    limits = Limits(destination.most(limits.events), limits.bytes, limits.ahead)
    spec = None if map is None else read_spec(map, destination.type)
    address = parse_address(source)
    options = Options(
        name or re.sub(r"[^A-Za-z0-9_.-]", "_", f"{destination.type}-{destination.name}")[:64],
        begin,
        limits.ahead * limits.events,
        dead is not None,
        (spec and spec.redis_field) or "data",
    )
    counters = connecting()

    def away(why: str | None) -> None:
        counters.up.set(why is None)
        say("the service is back" if why is None else f"the service is away, trying again: {why}")

    target = Target(service.url, service.key, away)
    connector = Connector(
        source_of(address, options),
        str(address),
        options.name,
        target,
        destination,
        Reader(spec, max_message),
        limits,
        counters,
        say,
        None if dead is None else DeadFile(dead),
        once,
    )
    if metrics[1] is not None:
        counters.serve(metrics[0], metrics[1])
    stop = ending()
    telling = asyncio.create_task(tell(counters.counts))
    try:
        await connector.run(stop)
    finally:
        telling.cancel()
        await target.close()
        if connector.dead is not None:
            connector.dead.close()
    return counters.counts


def ending() -> asyncio.Event:
    """Set by SIGTERM and Ctrl-C."""
    stop = asyncio.Event()
    for end in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(end, stop.set)
    return stop


async def tell(counts: dict[str, int]) -> None:
    """Say now and then how far it is, if it has moved."""
    told = dict(counts)
    while True:
        await asyncio.sleep(STATUS_SECONDS)
        if counts != told:
            told = dict(counts)
            say(", ".join(f"{count} {name}" for name, count in told.items() if count))
