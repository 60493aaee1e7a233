"""``rankcast webhooks``: events of subscriptions that the service sends to a URL."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import fail, line, say_none
from app.cli.options import Name, Service, command

if TYPE_CHECKING:
    from rankcast_client import Webhook

commands = typer.Typer(help="Webhooks: events of subscriptions, sent to a URL.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(commands, name="webhooks")


@command(commands, "list")
def list_all(service: Service) -> None:
    """List the webhooks in order of name.

    Lines have the name, the state, the resource, the events delivered and
    waiting, the URL and the last error, separated by tabs.

    Example: rankcast webhooks list
    """
    with service.connected() as client:
        every = list(client.webhooks.list())
    for one in every:
        fields = (one.name, one.state, one.resource, one.delivered, one.waiting, one.url, one.last_error)
        typer.echo(line(*fields))
    if not every:
        say_none("webhook", "webhooks put")


@command(commands, "put")
def put(
    service: Service,
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Where events are sent: https.")],
    resource: Annotated[
        str, typer.Option("--resource", metavar="TYPE/NAME", help="What the subscriptions are of: boards/delays.")
    ],
    ids: Annotated[list[str], typer.Option("--id", metavar="ID", help="A subscription or query; once for each.")],
    batch: Annotated[int, typer.Option("--batch", min=1, help="Send lists of up to so many events.")] = 1,
) -> None:
    """Make a webhook, or change the URL, the ids or the batch of one.

    Prints it as JSON. The secret, by which its receiver verifies messages, is
    shown when it is made and never again.

    Example: rankcast webhooks put ops --to https://example.org/in
    --resource boards/delays --id mine
    """
    with service.connected() as client:
        _show(client.webhooks.put(name, to, resource, ids, batch=batch))


@command(commands, "show")
def show(service: Service, name: Name) -> None:
    """Show a webhook: its state, and why the last request was not taken.

    Example: rankcast webhooks show ops
    """
    with service.connected() as client:
        _show(client.webhooks.get(name))


@command(commands, "delete")
def delete(service: Service, name: Name) -> None:
    """Delete a webhook, with the events that wait for its receiver.

    Example: rankcast webhooks delete ops
    """
    with service.connected() as client:
        client.webhooks.delete(name)
    typer.echo(f"deleted the webhook {name}")


@command(commands, "test")
def test(service: Service, name: Name) -> None:
    """Send a test now, once. Exits with 1 when the receiver does not take it.

    Example: rankcast webhooks test ops
    """
    with service.connected() as client:
        found = client.webhooks.test(name)
    if not found.taken:
        raise fail(f"the test was not taken: {found.error}")
    typer.echo(f"taken, status {found.status}")


@command(commands, "enable")
def enable(service: Service, name: Name) -> None:
    """Let a webhook start again that is disabled, or waits for its next try.

    Example: rankcast webhooks enable ops
    """
    with service.connected() as client:
        _show(client.webhooks.enable(name))


def _show(webhook: Webhook) -> None:
    data: dict[str, Any] = asdict(webhook)
    if data["secret"] is None:
        del data["secret"]
    typer.echo(json.dumps(data, indent=2))
