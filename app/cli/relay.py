"""``rankcast relay``: relays from the shell; subscriptions and commands from files, notifications, and streams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli import fail, name_of, parse_range, print_json, print_lines, reporting_failures
from app.cli.inputs import Unreadable, json_rows, opened
from app.cli.options import FILE_SECONDS, Count, Name, OnError, Ranges, Service, command
from app.cli.progress import Show, progress
from app.cli.resources import Resource, add_commands, show_resource

if TYPE_CHECKING:
    from rankcast_client import Answer, NotificationEvent, RelayInfo

AT_ONCE = 10_000
"""Subscriptions, and notifications, in a request."""

File = Annotated[Path, typer.Argument(metavar="[FILE]", help="NDJSON; - or nothing is the input.")]

commands = typer.Typer(help="Relays: what to forward, and links to other services.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(commands, name="relay")


@command(commands, "put")
def put(
    service: Service,
    relay: Name,
    attribute: Annotated[list[str], typer.Option("--attribute", "-a", help="An attribute; once for each.")],
    graph: Annotated[Literal["G", "G*", "poset"] | None, typer.Option("--graph", help="What is kept.")] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", min=1, help="How many coverers G keeps of each.")] = None,
    index: Annotated[
        Literal["kd", "zorder", "linear"] | None, typer.Option("--index", help="How coverers are found.")
    ] = None,
) -> None:
    """Create a relay; one of the same configuration stays as it is."""
    with service.connected() as client:
        client.relay(relay).put(attribute, graph=graph, k=k, index=index)
    show_resource(RELAY, relay, service)


@command(commands, "link")
def link(
    service: Service,
    relay: Name,
    name: Annotated[str, typer.Argument(metavar="LINK", help="What the link is called here.", callback=name_of)],
    to: Annotated[str | None, typer.Option("--to", help="The other service; none takes the link out.")] = None,
    other: Annotated[str | None, typer.Option("--relay", help="The relay there; as here, if left out.")] = None,
    back: Annotated[
        str | None, typer.Option("--link", help="What the link is called there; as here if left out.")
    ] = None,
    secret: Annotated[
        str | None, typer.Option("--link-key", envvar="RANKCAST_LINK_KEY", help="A key of that service.")
    ] = None,
) -> None:
    """Add or change one side of a link, or without --to take it out."""
    with service.connected() as client:
        handle = client.relay(relay)
        if to is None:
            handle.link({name: None})
            return
        given = {"url": to, "relay": other or relay, "link": back or name}
        info = handle.link({name: given if secret is None else {**given, "key": secret}})  # type: ignore[dict-item]
        typer.echo(f"{name}\t{info.links[name].state}")


@command(commands, "subscribe")
def subscribe(service: Service, relay: Name, file: File = Path("-"), on_error: OnError = "refuse") -> None:
    """Make subscriptions of a file, a line each: {"id", "box": {"price": [0, 50]}}.

    Prints a line for each: what to do about it upstream.
    """
    with _rows(file) as rows, service.connected(FILE_SECONDS) as client:
        handle = client.relay(relay)
        while some := list(islice(rows, AT_ONCE)):
            answer = handle.subscribe_many(some, on_error=on_error)  # type: ignore[arg-type]
            for one in answer.results:
                print_json({"id": one.id, "forward": one.forward, "covered_by": one.covered_by})
            for error in answer.errors:
                typer.echo(f"rankcast: {error.field}: {error.reason}", err=True)


@command(commands, "commands")
def run(service: Service, relay: Name, file: File = Path("-"), on_error: OnError = "refuse") -> None:
    """Apply commands of a file, a line each: {"op": "subscribe", "id", "box"} or {"op": "unsubscribe", "id"}.

    Prints a line for each, in order. A line that cannot be applied ends it, unless --on-error is skip; what was
    printed was applied.
    """
    with _rows(file) as rows, service.connected(FILE_SECONDS) as client:
        for answer in client.relay(relay).commands(rows, on_error=on_error):
            print_json(_fields(answer))


@command(commands, "notify")
def notify(service: Service, relay: Name, file: File = Path("-"), on_error: OnError = "refuse") -> None:
    """Publish notifications of a file, a line each: {"values": {...}, "payload": ...}, or the values alone.

    Prints a line for each: its recipients.
    """
    with _rows(file) as rows, service.connected(FILE_SECONDS) as client:
        handle = client.relay(relay)
        events = (row if isinstance(row.get("values"), dict) else {"values": row} for row in rows)
        while some := list(islice(events, AT_ONCE)):
            answer = handle.notify_many(some, on_error=on_error)  # type: ignore[arg-type]
            for one in answer.results:
                print_json({"subscriptions": one.subscriptions, "links": one.links})
            for error in answer.errors:
                typer.echo(f"rankcast: {error.field}: {error.reason}", err=True)


@command(commands, "watch")
def watch(
    service: Service,
    relay: Name,
    id: Annotated[str | None, typer.Option("--id", help="A subscription; else one is made for the time.")] = None,
    range: Ranges = None,
    count: Count = None,
) -> None:
    """Follow the notifications that a subscription meets, a line of JSON each, wherever they are published."""
    with reporting_failures():
        asyncio.run(_watch(relay, id, _box(range), count, service))


async def _watch(relay: str, id: str | None, box: dict[str, Any], count: int | None, service: Service) -> None:
    async with service.connection() as client:
        handle = client.relay(relay)
        mine = id
        if mine is None or box:
            made = [{"box": box}] if mine is None else [{"id": mine, "box": box}]
            mine = (await handle.subscribe_many(made)).results[0].id  # type: ignore[arg-type]
        try:
            await print_lines(handle.watch(mine, ready=True), partial(_line_of, mine), count)
        finally:
            if id is None:
                await handle.delete_subscription(mine)


def _line_of(id: str, event: NotificationEvent) -> dict[str, Any] | None:
    """The line for a notification; other events are for stderr."""
    from rankcast_client import Arrived, Ready

    if isinstance(event, Arrived):
        return {"seq": event.seq, "values": event.values, "payload": event.payload}
    if isinstance(event, Ready):
        typer.echo(f"following {id}; Ctrl-C ends", err=True)
    else:
        typer.echo(f"rankcast: some may have been missed up to seq {event.seq}", err=True)
    return None


@contextmanager
def _rows(file: Path) -> Iterator[Iterator[dict[str, Any]]]:
    """The rows of a file, with how far that is on stderr; ends the command where one is no object."""
    size = file.stat().st_size if str(file) != "-" and file.is_file() else 0
    try:
        with opened(file) as source, progress() if size else nullcontext() as show:
            yield _counted(source, size, show)
    except Unreadable as error:
        raise fail(f"{file}: {error}") from None


def _counted(source: IO[str], size: int, show: Show | None) -> Iterator[dict[str, Any]]:
    done = 0

    def lines() -> Iterator[str]:
        nonlocal done
        for line in source:
            done += len(line.encode())
            yield line

    for _, read in json_rows(lines()):
        if show is not None:
            show(min(1.0, done / size), "rows")
        yield read


def _box(ranges: list[str] | None) -> dict[str, Any]:
    box: dict[str, Any] = {}
    for text in ranges or ():
        name, ends = parse_range(text)
        if name is None:
            raise typer.BadParameter(f"write NAME={text}")
        box[name] = ends
    return box


def _fields(answer: Answer) -> dict[str, Any]:
    from rankcast_client import Ended, Routed

    if isinstance(answer, Routed):
        return {"seq": answer.seq, "id": answer.id, "forward": answer.forward, "covered_by": answer.covered_by}
    if isinstance(answer, Ended):
        forward = {"forward_unsubscribe": answer.forward_unsubscribe, "forward_subscribe": answer.forward_subscribe}
        return {"seq": answer.seq, "id": answer.id, **forward}
    return {"index": answer.index, "errors": [f"{error.field}: {error.reason}" for error in answer.errors]}


def _row(info: RelayInfo) -> dict[str, object]:
    return {
        "relay": info.name,
        "attributes": ",".join(info.attributes),
        "graph": info.graph if info.k is None else f"{info.graph} {info.k}",
        "index": info.index,
        "subscriptions": info.subscriptions,
        "links": ",".join(f"{name} {link.state}" for name, link in info.links.items()) or "-",
    }


RELAY = Resource("relay", _row)
add_commands(commands, RELAY)
