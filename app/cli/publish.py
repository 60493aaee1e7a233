"""``rankcast publish``: stream events of subscriptions to a broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import fail
from app.cli.connect import Metrics, MetricsHost, ending, say, tell
from app.cli.options import Service, flat
from app.connectors.addresses import parse_address
from app.connectors.destinations import parse_destination
from app.connectors.errors import ConnectorError

MOST_IDS = 10_000


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("publish")(flat(publish))


def publish(
    service: Service,
    resource: Annotated[str, typer.Argument(metavar="TYPE/NAME", help="What the subscriptions are of: boards/delays.")],
    ids: Annotated[
        list[str], typer.Option("--ids", metavar="ID[,ID...]", help="Subscriptions or queries; may be repeated.")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="TARGET", help="nats://host/SUBJECT, redis://host/STREAM, kafka://, mqtt:// or amqp://."
        ),
    ],
    form: Annotated[Literal["changes", "tiles"], typer.Option("--form", help="Boards: what events carry.")] = "changes",
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Where Kafka, MQTT and RabbitMQ need it: how far it is."),
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", min=1, help="Redis: cut the stream to about so many.")] = None,
    metrics_port: Metrics = None,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Send stream events of subscriptions to a broker, until SIGTERM or Ctrl-C.

    Each is the JSON that the WebSocket has. After any end they go on where
    they were, of several nodes, named by --url with commas, at another: NATS
    JetStream and Redis hold the cursors themselves, and have each event
    exactly once; for Kafka, MQTT and RabbitMQ a file holds them, and an event
    may come twice. What could not be resumed is a `reset`.

    Ends with one line of JSON that says what was counted, by itself when all
    subscriptions are gone.

    Example: rankcast publish boards/delays --ids mine --to nats://localhost/lists
    """
    try:
        counts = asyncio.run(_publish(service, resource, ids, to, form, state, keep, (metrics_host, metrics_port)))
    except ConnectorError as error:
        raise fail(str(error)) from None
    typer.echo(json.dumps(counts))


async def _publish(
    service: Service,
    resource: str,
    ids: list[str],
    to: str,
    form: Literal["changes", "tiles"],
    state: Path | None,
    keep: int | None,
    metrics: tuple[str, int | None],
) -> dict[str, int]:
    from app.connectors.counters import publishing
    from app.connectors.following import Following
    from app.connectors.publisher import Publisher
    from app.connectors.state_file import StateFile
    from app.connectors.targets.opening import target_of

    found = str(parse_destination(resource))
    named = list(dict.fromkeys(id for text in ids for id in text.split(",") if id))
    if not 0 < len(named) <= MOST_IDS:
        raise ConnectorError(f"name 1 to {MOST_IDS} subscriptions by --ids")
    address = parse_address(to)
    if keep is not None and address.broker != "redis":
        raise ConnectorError("--keep is for Redis: other brokers have limits of their own")
    target = target_of(address, found, keep)
    if target.exact and state is not None:
        raise ConnectorError(f"{address} holds the cursors itself: leave --state out")
    if not target.exact and state is None:
        raise ConnectorError(f"{address} holds no cursors: name a file for them by --state")
    counters = publishing()

    def away(why: str | None) -> None:
        counters.up.set(why is None)
        say("the service is back" if why is None else f"the service is away, trying again: {why}")

    def follow(cursors: Mapping[str, str | None]) -> Following:
        return Following(service.url, service.key, found, cursors, {"form": form}, away)

    kept = None if state is None else StateFile(state, f"{found} to {address}")
    publisher = Publisher(target, str(address), found, named, follow, counters, say, kept)
    if metrics[1] is not None:
        counters.serve(metrics[0], metrics[1])
    stop = ending()
    telling = asyncio.create_task(tell(counters.counts))
    try:
        await publisher.run(stop)
    finally:
        telling.cancel()
    return counters.counts
