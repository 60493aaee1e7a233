"""``rankcast feed``: feeds from the shell; posts and subscriptions of files, questions, and live lists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from app.cli import fail, interrupted, name_of, print_json, print_lines, reporting_failures
from app.cli.documents import rows
from app.cli.inputs import Unreadable
from app.cli.options import FILE_SECONDS, Count, Name, OnError, Service, command
from app.cli.resources import Resource, add_commands, show_resource

if TYPE_CHECKING:
    from rankcast_client import Feed, FeedEvent, FeedInfo, FeedPost, FeedSubscription, FieldError

    Errors: TypeAlias = tuple[FieldError, ...]

AT_ONCE = 10_000
"""Posts, and subscriptions, in a request."""

File = Annotated[Path, typer.Argument(metavar="[FILE]", help="NDJSON or Parquet; - or nothing is the input.")]
Format: TypeAlias = Annotated[
    Literal["ndjson", "parquet"] | None, typer.Option("--format", help="Left out: by the file's name; input is NDJSON.")
]
At = Annotated[str, typer.Option("--at", metavar="X,Y", help="The place.")]
Length = Annotated[int | None, typer.Option("-k", "--k", min=1, help="How long the list is; 10 by default.")]
Alpha = Annotated[float | None, typer.Option("--alpha", min=0, max=1, help="How much nearness counts; 0.5 by default.")]


@dataclass(frozen=True)
class Words:
    """Keywords, or a text that has them."""

    keyword: Annotated[
        list[str] | None, typer.Option("--keyword", "-w", metavar="WORD[=WEIGHT]", help="A keyword; once for each.")
    ] = None
    text: Annotated[str | None, typer.Option("--text", help="In place of keywords: its words.")] = None

    def read(self) -> list[str] | dict[str, float] | None:
        """The keywords: a list, or where one has a weight all by weight, 1 by default; None where there is a text."""
        if bool(self.keyword) == (self.text is not None):
            raise typer.BadParameter("give keywords or --text")
        if not self.keyword or not any("=" in word for word in self.keyword):
            return self.keyword
        found: dict[str, float] = {}
        for one in self.keyword:
            word, _, weight = one.partition("=")
            try:
                found[word] = found.get(word, 0.0) + (float(weight) if weight else 1.0)
            except ValueError:
                raise typer.BadParameter(f"{one!r} is no keyword: write WORD or WORD=WEIGHT") from None
        return found


commands = typer.Typer(help="Feeds: the most relevant recent posts nearby.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.add_typer(commands, name="feed")


@command(commands, "put")
def put(
    service: Service,
    feed: Name,
    bounds: Annotated[str, typer.Option("--bounds", metavar="X0,Y0,X1,Y1", help="Where places are.")],
    window: Annotated[int | None, typer.Option("--window", min=1, help="How many posts are kept, the newest.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Or for how long each is kept.")] = None,
    weighting: Annotated[
        Literal["tfidf", "given"] | None, typer.Option("--weighting", help="What words weigh: tfidf by default.")
    ] = None,
    buffer: Annotated[
        Literal["cost", "kscore", "fixed", "kmax"] | None,
        typer.Option("--buffer", help="How many posts beyond each list are kept."),
    ] = None,
    stop_word: Annotated[
        list[str] | None, typer.Option("--stop-word", help="A word that texts are read without; replaces English ones.")
    ] = None,
) -> None:
    """Create a feed; one of the same configuration stays as it is.

    Example: rankcast feed put city --window 20000 --bounds=-180,-90,180,90
    """
    if (window is None) == (seconds is None):
        raise typer.BadParameter("give --window or --seconds")
    with service.connected() as client:
        client.feed(feed).put(
            _numbers(bounds, 4, "--bounds"),
            window=window,
            seconds=seconds,
            weighting=weighting,
            buffer=buffer,
            stop_words=stop_word or None,
        )
    show_resource(FEED, feed, service)


@command(commands, "post")
def post(
    service: Service,
    words: Words,
    feed: Name,
    at: At,
    id: Annotated[str | None, typer.Option("--id", help="The post's id; generated if left out.")] = None,
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON", help="What goes with it.")] = None,
) -> None:
    """Post one; print its id, and how many lists it entered.

    Example: rankcast feed post city --at 13.4,52.5 -w ramen -w coupon
    """
    place, keywords, data = _place(at), words.read(), None
    if payload is not None:
        try:
            data = json.loads(payload)
        except ValueError as error:
            raise typer.BadParameter(f"--payload is not JSON: {error}") from None
    with service.connected() as client:
        made = client.feed(feed).post(place, keywords, text=words.text, id=id, payload=data)
    print_json({"id": made.id, "reached": made.reached})


@command(commands, "load")
def load(
    service: Service,
    feed: Name,
    file: File = Path("-"),
    format: Format = None,
    on_error: OnError = "refuse",
) -> None:
    """Post the rows of a file in order, 10,000 a request.

    A line is {"id", "keywords" or "text", "location", "payload"}. Parquet
    has such columns, or x and y in place of location; its payload is JSON
    text. Prints a line for each post: how many lists it entered.
    """

    def send(handle: Feed, some: list[Any]) -> Errors:
        answer = handle.post_many(some, on_error=on_error)
        for one in answer.results:
            print_json({"id": one.id, "reached": one.reached})
        return answer.errors

    _send_rows(service, feed, file, format, send, "posted")


@command(commands, "subscribe")
def subscribe(
    service: Service,
    feed: Name,
    file: File = Path("-"),
    format: Format = None,
    on_error: OnError = "refuse",
) -> None:
    """Make subscriptions of a file, 10,000 a request.

    A line is {"id", "keywords" or "text", "location", "k", "alpha", "ttl"};
    Parquet as for load. Prints the id of each.
    """

    def send(handle: Feed, some: list[Any]) -> Errors:
        answer = handle.register_many(some, lists=False, on_error=on_error)
        for one in answer.subscriptions:
            typer.echo(one.id)
        return answer.errors

    _send_rows(service, feed, file, format, send, "subscribed")


def _send_rows(
    service: Service, feed: str, file: Path, format: Format, send: Callable[[Feed, list[Any]], Errors], done: str
) -> None:
    """Send the rows of a file, `AT_ONCE` a request; say how far that came where it ends before."""
    from rankcast_client import ProblemError

    with service.connected(FILE_SECONDS) as client:
        handle, sent = client.feed(feed), 0
        try:
            with closing(rows(file, format)) as source:
                while some := list(islice(source, AT_ONCE)):
                    for error in send(handle, some):
                        row = "" if error.index is None else f"row {sent + error.index + 1}: "
                        typer.echo(f"rankcast: {row}{error.field}: {error.reason}", err=True)
                    sent += len(some)
        except (Unreadable, ProblemError, ValueError) as error:
            raise fail(f"{file}: {error}; {sent} rows before are {done}") from None
        except KeyboardInterrupt:
            raise interrupted(f"the first {sent:,} rows of {file} are {done}; the next may be, too") from None


@command(commands, "top")
def top(
    service: Service,
    feed: Name,
    id: Annotated[str, typer.Option("--id", help="A subscription.", callback=name_of)],
) -> None:
    """Print the list of a subscription, a line of JSON for each post, the best first."""
    with service.connected() as client:
        found: FeedSubscription = client.feed(feed).subscription(id)
    for rank, one in enumerate(found.list or (), 1):
        print_json({"rank": rank, **_entry(one)})


@command(commands, "watch")
def watch(
    service: Service,
    words: Words,
    feed: Name,
    id: Annotated[str | None, typer.Option("--id", help="A subscription; else one is made for the time.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="X,Y", help="The place, where one is made.")] = None,
    k: Length = None,
    alpha: Alpha = None,
    count: Count = None,
) -> None:
    """Follow a list, a line of JSON for each event: the list first, then what changes.

    Examples:

    rankcast feed watch city --at 13.3,52.5 -w ramen

    rankcast feed watch city --id mine --count 1
    """
    asked: dict[str, Any] | None = None
    if id is None:
        if at is None:
            raise typer.BadParameter("give --id, or --at and keywords")
        asked = {"location": _place(at), "keywords": words.read(), "text": words.text, "k": k, "alpha": alpha}
    elif any(given is not None for given in (at, words.keyword, words.text, k, alpha)):
        raise typer.BadParameter("with --id the subscription is there already: leave the rest out")
    with reporting_failures():
        asyncio.run(_watch(feed, id, asked, count, service))


async def _watch(feed: str, id: str | None, asked: dict[str, Any] | None, count: int | None, service: Service) -> None:
    async with service.connection() as client:
        handle = client.feed(feed)
        made = None if asked is None else (await handle.register(**asked)).id
        mine = id or made
        assert mine is not None, "one or the other is given"
        try:
            await print_lines(handle.watch(mine), _line, count)
        finally:
            if made is not None:
                await handle.delete_subscription(made)


@command(commands, "withdraw")
def withdraw(
    service: Service,
    feed: Name,
    id: Annotated[str, typer.Argument(metavar="POST", help="The post's id.", callback=name_of)],
) -> None:
    """Withdraw a post from the window; lists that had it get the next best."""
    with service.connected() as client:
        print_json({"seq": client.feed(feed).withdraw(id)})


def _line(event: FeedEvent) -> dict[str, Any] | None:
    """The line for an event of a stream; None for none."""
    from rankcast_client import FeedChange, FeedReset, FeedSnapshot

    if isinstance(event, FeedSnapshot | FeedReset):
        found = [{"rank": rank, **_entry(one)} for rank, one in enumerate(event.entries, 1)]
        return {"event": "snapshot" if isinstance(event, FeedSnapshot) else "reset", "seq": event.seq, "list": found}
    if not isinstance(event, FeedChange):
        return None
    changes = [
        {"id": one.id, "old_rank": one.old_rank, "new_rank": one.new_rank, **(_entry(one.entry) if one.entry else {})}
        for one in event.changes
    ]
    return {"event": "change", "seq": event.seq, "changes": changes}


def _entry(one: FeedPost) -> dict[str, Any]:
    found = {"id": one.id, "score": one.score, "location": one.location, "keywords": one.keywords}
    return found if one.payload is None else {**found, "payload": one.payload}


def _numbers(text: str, many: int, option: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != many:
        raise typer.BadParameter(f"{option} is {text!r}: write {many} numbers with commas between them")
    return found


def _place(text: str) -> tuple[float, float]:
    x, y = _numbers(text, 2, "--at")
    return x, y


def _row(info: FeedInfo) -> dict[str, object]:
    return {
        "feed": info.name,
        "bounds": ",".join(f"{end:g}" for end in info.bounds),
        "window": f"{info.window:,} posts" if info.window is not None else f"{info.seconds:g} s",
        "weighting": info.weighting,
        "posts": info.posts,
        "subscriptions": info.subscriptions,
    }


FEED = Resource("feed", _row)
add_commands(commands, FEED)
