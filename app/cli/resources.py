"""The commands that all resource types have: show one, list all, and delete one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from app.cli import for_pipe, line, say_none
from app.cli.options import Name, Plain, Service, flat

if TYPE_CHECKING:
    from rankcast_client import Rankcast


@dataclass(frozen=True)
class Resource:
    """A resource type on the command line: its noun, and the row of one in a list, by column."""

    noun: str
    row: Callable[[Any], Mapping[str, object]]

    def get(self, client: Rankcast, name: str) -> Any:
        """The client's handle of one."""
        return getattr(client, self.noun)(name)

    def every(self, client: Rankcast) -> Iterable[Any]:
        """All of them, in order of name."""
        found: Iterable[Any] = getattr(client, f"{self.noun}s")()
        return found


def add_commands(commands: typer.Typer, resource: Resource) -> None:
    """Add `show`, `list` and `delete`."""
    noun = resource.noun

    def show(service: Service, name: Name) -> None:
        show_resource(resource, name, service)

    def list_all(service: Service, plain: Plain = False) -> None:
        with service.connected() as client:
            rows = [resource.row(info) for info in resource.every(client)]
        if for_pipe(plain):
            for row in rows:
                typer.echo(line(*row.values()))
        elif rows:
            _print(rows)
        else:
            say_none(noun, f"{noun} put")

    def delete(service: Service, name: Name) -> None:
        with service.connected() as client:
            seq = resource.get(client, name).delete()
        typer.echo(f"deleted the {noun} {name}, seq {seq}")

    help = f"Show a {noun}: its configuration and sizes.\n\nExample: rankcast {noun} show NAME"
    commands.command("show", help=help)(flat(show))
    help = (
        f"List the {noun}s in order of name.\n\nPlain lines have the columns of the table, separated by tabs.\n\n"
        f"Example: rankcast {noun} list"
    )
    commands.command("list", help=help)(flat(list_all))
    help = (
        f"Delete a {noun} with all that is in it; its streams end. It cannot be undone.\n\n"
        f"Example: rankcast {noun} delete NAME"
    )
    commands.command("delete", help=help)(flat(delete))


def show_resource(resource: Resource, name: str, service: Service) -> None:
    """Print a resource as the service shows it."""
    with service.connected() as client:
        data = asdict(resource.get(client, name).info())
    more = data.pop("more", {})
    typer.echo(json.dumps({**data, **more}, indent=2))


def _print(rows: list[Mapping[str, object]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int | float) else "left")
    for row in rows:
        table.add_row(*(escape(f"{value:,}" if isinstance(value, int) else str(value)) for value in row.values()))
    Console().print(table)
