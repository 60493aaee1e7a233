"""``rankcast feed``: feeds from the shell; posts and subscriptions of files, questions, and live lists."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from app.commands import DEFAULT_URL, Key, Url, fail, interrupted, name_of, told
from app.commands.documents import rows
from app.commands.inputs import Unreadable
from app.commands.resources import Name, Resource, add_commands, show_resource

if TYPE_CHECKING:
    from rankcast_client import FeedEvent, FeedInfo, FeedPost, FeedSubscription

AT_ONCE = 10_000
"""Posts, and subscriptions, in a request."""

File = Annotated[Path, typer.Argument(metavar="[FILE]", help="NDJSON or Parquet; - or nothing is the input.")]
Format: TypeAlias = Annotated[
    Literal["ndjson", "parquet"] | None, typer.Option("--format", help="Left out: by the file's name; input is NDJSON.")
]
OnError = Annotated[
    Literal["refuse", "skip"], typer.Option("--on-error", help="Stop at a bad row, or pass it over and say so.")
]
Word = Annotated[
    list[str] | None, typer.Option("--keyword", "-w", metavar="WORD[=WEIGHT]", help="A keyword; once for each.")
]
Text = Annotated[str | None, typer.Option("--text", help="In place of keywords: its words.")]
At = Annotated[str, typer.Option("--at", metavar="X,Y", help="The place.")]
Length = Annotated[int | None, typer.Option("-k", "--k", min=1, help="How long the list is; 10 unless said.")]
Alpha = Annotated[
    float | None, typer.Option("--alpha", min=0, max=1, help="How much nearness counts; 0.5 unless said.")
]

commands = typer.Typer(help="Feeds: the most relevant recent posts nearby.", no_args_is_help=True)


def register(cli: typer.Typer) -> None:
    """Adds the commands."""
    cli.add_typer(commands, name="feed")


@commands.command("put")
def put(
    feed: Name,
    bounds: Annotated[str, typer.Option("--bounds", metavar="X0,Y0,X1,Y1", help="Where places are.")],
    window: Annotated[int | None, typer.Option("--window", min=1, help="How many posts are kept, the newest.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Or for how long each is kept.")] = None,
    weighting: Annotated[
        Literal["tfidf", "given"] | None, typer.Option("--weighting", help="What words weigh: tfidf unless said.")
    ] = None,
    buffer: Annotated[
        Literal["cost", "kscore", "fixed", "kmax"] | None,
        typer.Option("--buffer", help="How many posts beyond each list are kept."),
    ] = None,
    stop_word: Annotated[
        list[str] | None, typer.Option("--stop-word", help="A word that texts are read without; replaces English ones.")
    ] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Make a feed, or say that it is there.

    Example: rankcast feed put city --window 20000 --bounds=-180,-90,180,90
    """
    from rankcast_client import Rankcast

    if (window is None) == (seconds is None):
        raise typer.BadParameter("give --window or --seconds")
    with told(), Rankcast(url, key) as client:
        client.feed(feed).put(
            _numbers(bounds, 4, "--bounds"),
            window=window,
            seconds=seconds,
            weighting=weighting,
            buffer=buffer,
            stop_words=stop_word or None,
        )
    show_resource(FEED, feed, url, key)


@commands.command("post")
def post(
    feed: Name,
    at: At,
    keyword: Word = None,
    text: Text = None,
    id: Annotated[str | None, typer.Option("--id", help="The post's id; made up if left out.")] = None,
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON", help="What goes with it.")] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Post one; prints its id, and in how many lists it is then.

    Example: rankcast feed post city --at 13.4,52.5 -w ramen -w coupon
    """
    from rankcast_client import Rankcast

    place, words, data = _place(at), _words(keyword, text), None
    if payload is not None:
        try:
            data = json.loads(payload)
        except ValueError as error:
            raise typer.BadParameter(f"--payload is not JSON: {error}") from None
    with told(), Rankcast(url, key) as client:
        made = client.feed(feed).post(place, words, text=text, id=id, payload=data)
    _say({"id": made.id, "reached": made.reached})


@commands.command("load")
def load(
    feed: Name,
    file: File = Path("-"),
    format: Format = None,
    on_error: OnError = "refuse",
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Post the rows of a file in order, 10,000 a request.

    A line is {"id", "keywords" or "text", "location", "payload"}. Parquet
    has such columns, or x and y in place of location; its payload is JSON
    text. Prints a line for each post: in how many lists it was then.
    """
    from rankcast_client import ProblemError, Rankcast

    with told(), Rankcast(url, key, timeout=600.0) as client:
        handle, done = client.feed(feed), 0
        try:
            with closing(rows(file, format)) as source:
                while some := list(islice(source, AT_ONCE)):
                    answer = handle.post_many(some, on_error=on_error)  # type: ignore[arg-type]
                    for one in answer.results:
                        _say({"id": one.id, "reached": one.reached})
                    _errors(answer.errors, done)
                    done += len(some)
        except (Unreadable, ProblemError, ValueError) as error:
            raise fail(f"{file}: {error}; {done} rows before are posted") from None
        except KeyboardInterrupt:
            raise interrupted(f"the first {done:,} rows of {file} are posted; the next may be, too") from None


@commands.command("subscribe")
def subscribe(
    feed: Name,
    file: File = Path("-"),
    format: Format = None,
    on_error: OnError = "refuse",
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Make subscriptions of a file, 10,000 a request.

    A line is {"id", "keywords" or "text", "location", "k", "alpha", "ttl"};
    Parquet as for load. Prints the id of each.
    """
    from rankcast_client import ProblemError, Rankcast

    with told(), Rankcast(url, key, timeout=600.0) as client:
        handle, done = client.feed(feed), 0
        try:
            with closing(rows(file, format)) as source:
                while some := list(islice(source, AT_ONCE)):
                    answer = handle.register_many(some, lists=False, on_error=on_error)  # type: ignore[arg-type]
                    for one in answer.subscriptions:
                        typer.echo(one.id)
                    _errors(answer.errors, done)
                    done += len(some)
        except (Unreadable, ProblemError, ValueError) as error:
            raise fail(f"{file}: {error}; {done} rows before are subscribed") from None
        except KeyboardInterrupt:
            raise interrupted(f"the first {done:,} rows of {file} are subscribed; the next may be, too") from None


@commands.command("top")
def top(
    feed: Name,
    id: Annotated[str, typer.Option("--id", help="A subscription.", callback=name_of)],
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Print the list of a subscription, a line of JSON for each post, the best first."""
    from rankcast_client import Rankcast

    with told(), Rankcast(url, key) as client:
        found: FeedSubscription = client.feed(feed).subscription(id)
    for rank, one in enumerate(found.list or (), 1):
        _say({"rank": rank, **_entry(one)})


@commands.command("watch")
def watch(
    feed: Name,
    id: Annotated[str | None, typer.Option("--id", help="A subscription; else one is made for the time.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="X,Y", help="The place, where one is made.")] = None,
    keyword: Word = None,
    text: Text = None,
    k: Length = None,
    alpha: Alpha = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many lines.")] = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
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
        words = _words(keyword, text)
        asked = {"location": _place(at), "keywords": words, "text": text, "k": k, "alpha": alpha}
    elif any(given is not None for given in (at, keyword, text, k, alpha)):
        raise typer.BadParameter("with --id the subscription is there already: leave the rest out")
    with told():
        asyncio.run(_watch(feed, id, asked, count, url, key))


async def _watch(
    feed: str, id: str | None, asked: dict[str, Any] | None, count: int | None, url: str, key: str | None
) -> None:
    from rankcast_client import AsyncRankcast

    async with AsyncRankcast(url, key) as client:
        handle = client.feed(feed)
        made = None if asked is None else (await handle.register(**asked)).id
        mine = id or made
        assert mine is not None, "one or the other is given"
        left = count
        try:
            async for event in handle.watch(mine):
                if (line := _line(event)) is None:
                    continue
                _say(line)
                left = None if left is None else left - 1
                if left == 0:
                    return
        finally:
            if made is not None:
                await handle.delete_subscription(made)


@commands.command("withdraw")
def withdraw(
    feed: Name,
    id: Annotated[str, typer.Argument(metavar="POST", help="The post's id.", callback=name_of)],
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Take a post out of the window; whoever had it gets the next best."""
    from rankcast_client import Rankcast

    with told(), Rankcast(url, key) as client:
        _say({"seq": client.feed(feed).withdraw(id)})


def _line(event: FeedEvent) -> dict[str, Any] | None:
    """What a line says of an event of a stream; None where there is nothing to say."""
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


def _errors(errors: Any, before: int) -> None:
    for error in errors:
        row = "" if error.index is None else f"row {before + error.index + 1}: "
        typer.echo(f"rankcast: {row}{error.field}: {error.reason}", err=True)


def _say(line: dict[str, Any]) -> None:
    typer.echo(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


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


def _words(given: list[str] | None, text: str | None) -> list[str] | dict[str, float] | None:
    """The keywords of the options: a list, or where one has a weight all by weight, 1 unless said."""
    if bool(given) == (text is not None):
        raise typer.BadParameter("give keywords or --text")
    if not given:
        return None
    if not any("=" in word for word in given):
        return given
    found: dict[str, float] = {}
    for one in given:
        word, _, weight = one.partition("=")
        try:
            found[word] = found.get(word, 0.0) + (float(weight) if weight else 1.0)
        except ValueError:
            raise typer.BadParameter(f"{one!r} is no keyword: write WORD or WORD=WEIGHT") from None
    return found


def _row(info: FeedInfo) -> dict[str, object]:
    return {
        "feed": info.name,
        "bounds": ",".join(f"{end:g}" for end in info.bounds),
        "window": f"{info.window:,} posts" if info.window is not None else f"{info.seconds:g} s",
        "weighting": info.weighting,
        "posts": info.posts,
        "subscriptions": info.subscriptions,
    }


FEED = Resource("feed", "that is in it", lambda client, name: client.feed(name), lambda client: client.feeds(), _row)
add_commands(commands, FEED)
