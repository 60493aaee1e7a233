"""Options that several commands share, as dataclasses that stand for them in a command's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from app.cli import connected, name_of

if TYPE_CHECKING:
    from rankcast_client import AsyncRankcast, Rankcast

F = TypeVar("F", bound=Callable[..., None])

FILE_SECONDS = 600.0
"""The time-out of requests that carry many rows of a file."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.", callback=name_of)]
Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        metavar="LOW:HIGH",
        help="Which objects, both ends included. Either end may be left out: 500: or :1000. Left out altogether: all. "
        "With several range attributes NAME=LOW:HIGH, once for each.",
    ),
]
OnError = Annotated[
    Literal["refuse", "skip"], typer.Option("--on-error", help="Stop at a bad row, or skip it and report it.")
]
Offset = Annotated[int, typer.Option("--offset", min=0, help="How many ranks to pass over before the first.")]
Plain = Annotated[bool, typer.Option("--plain", help="Lines for pipes; the default when the output is no terminal.")]
Key = Annotated[str | None, typer.Option("--key", envvar="RANKCAST_KEY", help="An API key, if the service has keys.")]
Count = Annotated[int | None, typer.Option("--count", min=1, help="End after so many lines.")]


@dataclass(frozen=True)
class Service:
    """The running service that a command speaks to."""

    url: Annotated[
        str, typer.Option("--url", envvar="RANKCAST_URL", help="The running service; of several nodes with commas.")
    ] = "http://127.0.0.1:8000"
    key: Key = None

    def connected(self, timeout: float = 60.0) -> AbstractContextManager[Rankcast]:
        """A client of it; a failure ends the command."""
        self._check()
        return connected(self.url, self.key, timeout)

    def connection(self) -> AsyncRankcast:
        """An asynchronous client of it, to be used inside `reporting_failures`."""
        from rankcast_client import AsyncRankcast

        self._check()
        return AsyncRankcast(self.url, self.key)

    def _check(self) -> None:
        from rankcast_client.nodes import Nodes

        try:
            nodes = Nodes(self.url)
        except ValueError as error:
            raise typer.BadParameter(f"--url: {error}") from None
        for url in nodes.urls:
            if not url.lower().startswith(("http://", "https://")):
                raise typer.BadParameter(f"--url: {url!r} does not begin with http:// or https://")


@dataclass(frozen=True)
class RowFile:
    """A file of rows that become objects."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, Parquet or NDJSON, also as .gz; - is the input.")]
    format: Annotated[
        Literal["csv", "parquet", "ndjson"] | None, typer.Option("--format", help="Left out: by the file's name.")
    ] = None
    id: Annotated[
        str, typer.Option("--id", metavar="COLUMN[,COLUMN...]", help="Whose values, joined, are the object's id.")
    ] = "id"
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="COLUMN[,COLUMN...]", help="Columns that make up the payload.")
    ] = None
    null: Annotated[
        list[str] | None, typer.Option("--null", metavar="TEXT", help="Also means an empty cell in a CSV, such as NA.")
    ] = None
    on_error: OnError = "refuse"
    from_row: Annotated[
        int, typer.Option("--from-row", min=1, help="Begin at this row, such as after one that was loaded before.")
    ] = 1

    @property
    def ids(self) -> tuple[str, ...]:
        """The columns of the id."""
        return tuple(self.id.split(","))

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the payload."""
        return tuple(self.payload.split(",")) if self.payload else ()


def command(cli: typer.Typer, name: str) -> Callable[[F], F]:
    """Add a command. A parameter whose type is a dataclass stands for options, one for each field."""

    def add(function: F) -> F:
        cli.command(name)(flat(function))
        return function

    return add


def flat(function: Callable[..., None]) -> Callable[..., None]:
    """The function with the fields of its dataclasses as parameters."""
    plain: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
        else:
            plain.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))
    # In the help, what only this command has comes first, and where the service is comes last.
    parameters = plain + [one for name in reversed(groups) for one in _fields(groups[name])]

    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        function(**given)

    call.__doc__, call.__name__ = function.__doc__, function.__name__
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _fields(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
            annotation=hints[one.name],
        )
        for one in fields(group)
    ]
