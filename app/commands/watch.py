"""``rankcast watch``: one list in the terminal, as it changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import (
    DEFAULT_URL,
    Key,
    Plain,
    Ranges,
    Url,
    cells,
    columns,
    fail,
    line,
    name_of,
    question,
    ranges_of,
    told,
)

if TYPE_CHECKING:
    from rich.console import Group

    from rankcast_client import AsyncBoard, BoardInfo, Entry, StreamEvent, Subscription, Watch

TTL = 60.0
"""A temporary subscription that could not be deleted goes by itself after so many seconds."""
MARK_SECONDS = 5.0
FRAME_SECONDS = 0.1


def register(cli: typer.Typer) -> None:
    """Adds the command."""
    cli.command("watch")(watch)


def watch(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board's name.", callback=name_of)],
    ranges: Ranges = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="How many; one that the board offers. Left out: its largest.")
    ] = None,
    existing: Annotated[
        str | None,
        typer.Option(
            "--id", help="Follow this subscription, which stays, in place of a temporary one.", callback=name_of
        ),
    ] = None,
    plain: Plain = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Follow the best objects of a board, live, until Ctrl-C.

    Registers a subscription for the time being and deletes it at the end;
    --id follows one that is there. A lost connection is made again, and the
    list goes on where it was.

    Plain lines have the seq, what happened (snapshot, change or reset), the
    old rank, the new rank, the id, the rank attribute, the range attributes
    and the payload, separated by tabs; a rank of - is outside the list.

    Example: rankcast watch delays --range 500:1000 -k 5
    """
    if existing is not None and (ranges or k is not None):
        raise typer.BadParameter("--id follows what is there: leave --range and -k out")
    show = _lines if plain or not sys.stdout.isatty() else _table
    with told():
        try:
            gone = asyncio.run(_watch(board, ranges, k, existing, url, key, show))
        except BrokenPipeError:
            # Whoever read the lines has gone; so must what Python would still flush at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if gone:
        raise fail("the subscription was deleted")


async def _watch(
    board: str, ranges: list[str] | None, k: int | None, existing: str | None, url: str, key: str | None, show: Any
) -> bool:
    """Follows until the subscription is gone (true) or the user ends it (false)."""
    from rankcast_client import AsyncRankcast

    task = asyncio.current_task()
    assert task is not None
    for end in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(end, task.cancel)
    try:
        async with AsyncRankcast(url, key) as client:
            handle = client.board(board)
            info = await handle.info()
            async with _subscription(handle, info, ranges, k, existing) as mine:
                async with handle.watch(mine.id) as stream:
                    await show(info, mine, stream)
                return True
    except asyncio.CancelledError:
        return False


@asynccontextmanager
async def _subscription(
    board: AsyncBoard, info: BoardInfo, ranges: list[str] | None, k: int | None, existing: str | None
) -> AsyncIterator[Subscription]:
    """The one that is there, or one that goes at the end."""
    from rankcast_client import RankcastError

    if existing is not None:
        yield await board.subscription(existing)
        return
    k = k or max(info.ks)
    if k not in info.ks:
        raise fail(f"{board.name} keeps lists of {', '.join(map(str, info.ks))}, not of {k}")
    mine = await board.register(ranges_of(ranges, info.range_attributes), k=k, ttl=TTL)
    try:
        yield mine
    finally:
        with suppress(RankcastError, TimeoutError):
            async with asyncio.timeout(3):
                await board.delete_subscription(mine.id)


async def _lines(info: BoardInfo, mine: Subscription, stream: Watch) -> None:
    from rankcast_client import Change

    async for event in stream:
        kind = type(event).__name__.lower()
        if isinstance(event, Change):
            moved = [(change.old_rank, change.new_rank, change.id, change.entry) for change in event.changes]
        else:
            moved = [(None, rank, entry.id, entry) for rank, entry in enumerate(stream.list, 1)]
        for old, new, id, entry in moved:
            values = [None if entry is None else entry.values.get(name) for name in columns(info)]
            typer.echo(line(event.seq, kind, old, new, id, *values, entry and entry.payload))


async def _table(info: BoardInfo, mine: Subscription, stream: Watch) -> None:
    from rich.live import Live

    picture = Picture(info, mine)
    with Live(picture.draw(_state(stream), stream.seq), auto_refresh=False, transient=False) as live:
        drawing = asyncio.create_task(_draw(picture, stream, live))
        try:
            async for event in stream:
                picture.take(event, stream.list)
        finally:
            drawing.cancel()
            live.update(picture.draw("ended", stream.seq), refresh=True)


def _state(stream: Watch) -> str:
    return "live" if stream.connected else "connecting ..."


async def _draw(picture: Picture, stream: Watch, live: Any) -> None:
    """Draws when something changed, at most ten times a second, so that a busy list costs no more."""
    drawn: object = None
    while True:
        state = (picture.events, stream.connected, int(time.monotonic()))
        if state != drawn:
            live.update(picture.draw(_state(stream), stream.seq), refresh=True)
            drawn = state
        await asyncio.sleep(FRAME_SECONDS)


class Picture:
    """What the terminal shows: the list, for a while where each member came from, and who left last."""

    def __init__(self, info: BoardInfo, mine: Subscription) -> None:
        self.events = 0
        self._info = info
        self._title = f"{info.name}: {question(info, dict(mine.range), mine.k)}"
        self._list: tuple[Entry, ...] = ()
        self._marks: dict[str, tuple[str, float]] = {}
        self._left: deque[str] = deque(maxlen=5)

    def take(self, event: StreamEvent, now: tuple[Entry, ...]) -> None:
        """Notes what an event did to the list."""
        from rankcast_client import Change

        before = {entry.id: (rank, entry) for rank, entry in enumerate(self._list, 1)}
        until = time.monotonic() + MARK_SECONDS
        for rank, entry in enumerate(now, 1) if isinstance(event, Change) else ():
            old = before.get(entry.id)
            if old is None:
                self._marks[entry.id] = ("[yellow]new[/]", until)
            elif old[0] != rank:
                up = old[0] > rank
                self._marks[entry.id] = (f"[green]▲ {old[0]}[/]" if up else f"[red]▼ {old[0]}[/]", until)
            elif old[1] != entry:
                self._marks[entry.id] = ("[cyan]•[/]", until)
        here = {entry.id for entry in now}
        self._left = deque((id for id in self._left if id not in here), maxlen=5)
        self._left.extend(id for id in before if id not in here)
        self._list = now
        self.events += 1

    def draw(self, state: str, seq: int | None) -> Group:
        """The picture at this moment. `state` is what the last line begins with; "ended" is the last picture."""
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table
        from rich.text import Text

        table = Table()
        table.add_column("rank", justify="right")
        table.add_column("was", min_width=4)
        table.add_column("id", min_width=8)
        for name in columns(self._info):
            table.add_column(name, justify="right")
        table.add_column("payload", no_wrap=True)
        now = time.monotonic()
        for rank, entry in enumerate(self._list, 1):
            mark, until = self._marks.get(entry.id, ("", 0.0))
            table.add_row(str(rank), mark if now < until else "", *map(escape, cells(self._info, entry)))
        left = f"left: {', '.join(reversed(self._left))}" if self._left else "left: nobody yet"
        at = "" if seq is None else f"seq {seq}, "
        end = "" if state == "ended" else " Ctrl-C ends."
        foot = f"{state}, {at}{max(0, self.events - 1)} changes.{end}"
        return Group(Text(self._title, style="bold"), table, Text(left, style="dim"), Text(foot))
