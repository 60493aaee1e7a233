"""Commands of ``rankcast``, a module each or one for some, named in ``app.cli.main``.

Most speak to a running service through the Python client. What they share is here: the connection, ranges as text, and
how a failure ends a command. `options` has the options that several commands share.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from app.runtime.interrupts import INTERRUPTED, interruptible

if TYPE_CHECKING:
    from rankcast_client import BoardInfo, Entry, Rankcast, Shape

T = TypeVar("T")


def name_of(text: str | None) -> str | None:
    """A name as the service takes it, from the command line. Raises typer.BadParameter for what cannot be one."""
    from rankcast_client.calls import segment

    if text is not None:
        try:
            segment(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return text


_RANGE = re.compile(r"(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)=)?(?P<low>[^:=]*):(?P<high>[^:=]*)")

Range = tuple[float | None, float | None]


def fail(message: str) -> typer.Exit:
    """Say on stderr why a command ends without success; raise what this returns."""
    typer.echo(f"rankcast: {message}", err=True)
    return typer.Exit(1)


def interrupted(message: str) -> typer.Exit:
    """Say on stderr how far a command came before Ctrl-C; raise what this returns."""
    typer.echo(f"rankcast: interrupted; {message}", err=True)
    return typer.Exit(INTERRUPTED)


def for_pipe(plain: bool = False) -> bool:
    """Whether the output is lines for a pipe: where stdout is no terminal, or `plain` asks for them."""
    return plain or not sys.stdout.isatty()


def say_none(noun: str, command: str) -> None:
    """Say on a terminal that a list is empty, and which command makes the first of it; a pipe gets nothing."""
    if not for_pipe():
        typer.echo(f"There is no {noun}. One is made by: rankcast {command}", err=True)


@contextmanager
def connected(url: str, key: str | None, timeout: float = 60.0) -> Iterator[Rankcast]:
    """A client of the service; a failure ends the command as in `reporting_failures`."""
    from rankcast_client import Rankcast

    with reporting_failures(), Rankcast(url, key, timeout=timeout) as client:
        yield client


@contextmanager
def reporting_failures() -> Iterator[None]:
    """End the command with a message when the service refuses or cannot be reached.

    Every request is made inside, and only inside Ctrl-C is a KeyboardInterrupt: before, there is nothing to clean up.
    """
    import httpx

    from rankcast_client import ProblemError, RankcastError

    try:
        with interruptible():
            yield
    except (RankcastError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        lacks_key = isinstance(error, ProblemError) and error.status == 401
        raise fail(f"{error}; commands take a key from --key or RANKCAST_KEY" if lacks_key else str(error)) from None


def parse_range(text: str) -> tuple[str | None, Range]:
    """The attribute, if named, and the ends of ``LOW:HIGH``; None for an end that is left out.

    Raises typer.BadParameter for anything else.

    >>> parse_range("500:1000"), parse_range(":-2.5"), parse_range("price=10:")
    ((None, (500, 1000)), (None, (None, -2.5)), ('price', (10, None)))
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no range: write LOW:HIGH, LOW:, :HIGH or NAME=LOW:HIGH")
    low, high = number(match["low"], text), number(match["high"], text)
    if low is not None and high is not None and low > high:
        raise typer.BadParameter(f"{text!r} is reversed: {low:g} is more than {high:g}")
    return match["name"], (low, high)


def number(text: str, whole: str) -> float | None:
    """One end of a range; integers stay integers, and nothing or an infinity is None."""
    text = text.strip()
    if not text:
        return None
    try:
        value = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise typer.BadParameter(f"{whole!r} is no range: {text!r} is not a number")
    return None if math.isinf(value) else value


def ranges_of(texts: Sequence[str] | None, attributes: Sequence[str]) -> dict[str, Range]:
    """The ranges of ``--range`` by attribute; those not given are unbounded.

    Raises typer.BadParameter for an attribute that the board lacks, one said twice, or a range that names none where
    there are several.
    """
    found: dict[str, Range] = {}
    for text in texts or ():
        name, ends = parse_range(text)
        if name is None and len(attributes) > 1:
            raise typer.BadParameter(
                f"the board has {' and '.join(attributes)}: write for instance {attributes[0]}={text}"
            )
        name = name or attributes[0]
        if name not in attributes:
            raise typer.BadParameter(f"the board has no range attribute {name!r}, only {', '.join(attributes)}")
        if name in found:
            raise typer.BadParameter(f"there are two ranges for {name}")
        found[name] = ends
    return found


def question(info: BoardInfo, ranges: Mapping[str, Range], k: int, offset: int = 0, shape: Shape | None = None) -> str:
    """In words: ``the 5 with the largest delay, distance from 500 to 1000``, or with a shape ``..., disc {...}``."""
    best = "largest" if info.order == "desc" else "smallest"
    which = f"ranks {offset + 1} to {offset + k} of those" if offset else f"the {k}"
    parts = [f"{which} with the {best} {info.rank}"]
    for name in info.range_attributes:
        low, high = ranges.get(name, (None, None))
        if low is not None and high is not None:
            parts.append(f"{name} from {shown(low)} to {shown(high)}")
        elif low is not None:
            parts.append(f"{name} from {shown(low)}")
        elif high is not None:
            parts.append(f"{name} up to {shown(high)}")
    if shape is not None:
        parts.append(f"{shape.name} {shown(shape.wire())}")
    return ", ".join(parts)


def shown(value: Any) -> str:
    """Text as it is, nothing for None, and other JSON compactly."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def columns(info: BoardInfo) -> tuple[str, ...]:
    """The attributes of a board as columns of a table: the one that ranks first."""
    return info.rank, *info.range_attributes


def cells(info: BoardInfo, entry: Entry) -> tuple[str, ...]:
    """An object as a row of a table: its id, its values and its payload's members."""
    values = (shown(entry.values.get(name)) for name in columns(info))
    return entry.id, *values, details(entry.payload)


def details(payload: Any) -> str:
    """A payload on one line."""
    if isinstance(payload, dict):
        return "  ".join(f"{name} {shown(value)}" for name, value in payload.items())
    return shown(payload)


def print_json(data: Mapping[str, Any]) -> None:
    """Print one line of JSON."""
    typer.echo(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


async def print_lines(
    events: AsyncIterator[T], line_of: Callable[[T], Mapping[str, Any] | None], count: int | None
) -> None:
    """Print the line of each event that has one, until there were `count`."""
    async for event in events:
        found = line_of(event)
        if found is not None:
            print_json(found)
            count = None if count is None else count - 1
            if count == 0:
                return


def line(*fields: object) -> str:
    """Fields of one line for a pipe, separated by tabs; JSON for what is neither text nor a number."""
    return "\t".join("-" if field is None else shown(field).replace("\t", " ").replace("\n", " ") for field in fields)
