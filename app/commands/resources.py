"""What the commands of all resources share: to show one, list all, and delete one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import DEFAULT_URL, Key, Plain, Url, line, name_of, told

if TYPE_CHECKING:
    from rankcast_client import Rankcast

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.", callback=name_of)]


@dataclass(frozen=True)
class Resource:
    """A type of resource: what it is called, how the client gets one and all of them, and what a list says of one, by
    column."""

    noun: str
    contents: str
    get: Callable[[Rankcast, str], Any]
    every: Callable[[Rankcast], Iterable[Any]]
    row: Callable[[Any], Mapping[str, object]]


def add_commands(commands: typer.Typer, resource: Resource) -> None:
    """Adds `show`, `list` and `delete`."""
    noun = resource.noun

    def show(name: Name, url: Url = DEFAULT_URL, key: Key = None) -> None:
        show_resource(resource, name, url, key)

    def list_all(plain: Plain = False, url: Url = DEFAULT_URL, key: Key = None) -> None:
        from rankcast_client import Rankcast

        with told(), Rankcast(url, key) as client:
            rows = [resource.row(info) for info in resource.every(client)]
        if plain or not sys.stdout.isatty():
            for row in rows:
                typer.echo(line(*row.values()))
        elif rows:
            _print(rows)
        else:
            typer.echo(f"There is no {noun}. One is made by: rankcast {noun} put", err=True)

    def delete(name: Name, url: Url = DEFAULT_URL, key: Key = None) -> None:
        from rankcast_client import Rankcast

        with told(), Rankcast(url, key) as client:
            seq = resource.get(client, name).delete()
        typer.echo(f"deleted the {noun} {name}, seq {seq}")

    help = f"Show a {noun}: its configuration and sizes.\n\nExample: rankcast {noun} show NAME"
    commands.command("show", help=help)(show)
    help = (
        f"List the {noun}s in order of name.\n\nPlain lines have the columns of the table, separated by tabs.\n\n"
        f"Example: rankcast {noun} list"
    )
    commands.command("list", help=help)(list_all)
    help = (
        f"Delete a {noun} with all {resource.contents}; its streams end. Nothing brings it back.\n\n"
        f"Example: rankcast {noun} delete NAME"
    )
    commands.command("delete", help=help)(delete)


def show_resource(resource: Resource, name: str, url: str, key: str | None) -> None:
    """Prints a resource as the service shows it."""
    from rankcast_client import Rankcast

    with told(), Rankcast(url, key) as client:
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
