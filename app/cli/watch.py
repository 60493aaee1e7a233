"""``rankcast watch``: one list in the terminal, as it changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from app.cli import cells, columns, fail, for_pipe, line, name_of, question, ranges_of, reporting_failures
from app.cli.options import Offset, Plain, Ranges, Service, flat

if TYPE_CHECKING:
    from rich.console import Group

    from rankcast_client import AsyncBoard, BoardInfo, Entry, StreamEvent, Subscription, Watch

TTL = 60.0
"""A temporary subscription that could not be deleted goes by itself after so many seconds."""
MARK_SECONDS = 5.0
FRAME_SECONDS = 0.1


Moved: TypeAlias = "tuple[int | None, int | None, str | None, Entry | None, Mapping[str, float] | None]"
"""Old rank, new rank, id, the object as it is, and its values before."""


def register(cli: typer.Typer) -> None:
    """Add the command."""
    cli.command("watch")(flat(watch))


@dataclass(frozen=True)
class Which:
    """The list to follow."""

    ranges: Ranges = None
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="How many; with the offset one that the board offers. Left out: its largest."),
    ] = None
    offset: Offset = 0
    existing: Annotated[
        str | None,
        typer.Option(
            "--id", help="Follow this subscription, which stays, in place of a temporary one.", callback=name_of
        ),
    ] = None


@dataclass(frozen=True)
class How:
    """What its stream carries."""

    squash: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="At most one change in so many seconds: the net of what happened."),
    ] = None
    ready: Annotated[
        bool, typer.Option("--ready", help="Plain lines: one says `ready` when the stream has caught up.")
    ] = False
    old: Annotated[bool, typer.Option("--old", help="Plain lines: end with the values before.")] = False


def watch(
    service: Service,
    how: How,
    which: Which,
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board's name.", callback=name_of)],
    plain: Plain = False,
) -> None:
    """Follow the best objects of a board, live, until Ctrl-C.

    Registers a subscription for the time being and deletes it at the end;
    --id follows one that is there. A lost connection is made again, and the
    list goes on where it was.

    Plain lines have the seq, what happened (snapshot, change, reset; with
    --ready also ready), the old rank, the new rank, the id, the rank attribute, the range attributes
    and the payload, separated by tabs; a rank of - is outside the list.

    With --old they end with the attributes as they were.

    Example: rankcast watch delays --range 500:1000 -k 5
    """
    if which.existing is not None and (which.ranges or which.k is not None or which.offset):
        raise typer.BadParameter("--id follows what is there: leave --range, -k and --offset out")
    show = partial(_lines, old=how.old) if for_pipe(plain) else _table
    with reporting_failures():
        try:
            gone = asyncio.run(_watch(service, board, which, how, show))
        except BrokenPipeError:
            # Whoever read the lines has gone; so must what Python would still flush at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if gone:
        raise fail("the subscription was deleted")


async def _watch(service: Service, board: str, which: Which, how: How, show: Any) -> bool:
    """Follow until the subscription is gone (true) or the user ends it (false)."""
    task = asyncio.current_task()
    assert task is not None
    for end in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(end, task.cancel)
    try:
        async with service.connection() as client:
            handle = client.board(board)
            info = await handle.info()
            async with _subscription(handle, info, which) as mine:
                async with handle.watch(mine.id, ready=how.ready, old=how.old, squash=how.squash) as stream:
                    await show(info, mine, stream)
                return True
    except asyncio.CancelledError:
        return False


@asynccontextmanager
async def _subscription(board: AsyncBoard, info: BoardInfo, which: Which) -> AsyncIterator[Subscription]:
    """The one that is there, or one that goes at the end."""
    from rankcast_client import RankcastError

    if which.existing is not None:
        yield await board.subscription(which.existing)
        return
    k, offset = which.k, which.offset
    depth = max(info.ks) if k is None else offset + k
    if depth not in info.ks or depth <= offset:
        asked = f"{depth}" if not offset else f"rank {offset + 1} to {depth}" if k else f"rank {offset + 1} on"
        raise fail(f"{board.name} keeps lists of {', '.join(map(str, info.ks))}, not of {asked}")
    wanted = ranges_of(which.ranges, info.range_attributes)
    mine = await board.register(wanted, k=depth - offset, offset=offset, ttl=TTL)
    try:
        yield mine
    finally:
        with suppress(RankcastError, TimeoutError):
            async with asyncio.timeout(3):
                await board.delete_subscription(mine.id)


async def _lines(info: BoardInfo, mine: Subscription, stream: Watch, old: bool) -> None:
    from rankcast_client import Change, Ready

    names = columns(info)
    async for event in stream:
        moved: Sequence[Moved]
        if isinstance(event, Change):
            moved = [(c.old_rank, c.new_rank, c.id, c.entry, c.old_values) for c in event.changes]
        elif isinstance(event, Ready):
            moved = [(None, None, None, None, None)]
        else:
            moved = [(None, rank, entry.id, entry, None) for rank, entry in enumerate(stream.list, stream.offset + 1)]
        for was, now, id, entry, before in moved:
            values = [None if entry is None else entry.values.get(name) for name in names]
            more = [None if before is None else before.get(name) for name in names] if old else []
            text = line(event.seq, type(event).__name__.lower(), was, now, id, *values, entry and entry.payload, *more)
            typer.echo(text)


async def _table(info: BoardInfo, mine: Subscription, stream: Watch) -> None:
    from rich.live import Live

    from rankcast_client import Ready

    picture = Picture(info, mine)
    with Live(picture.draw(_state(stream), stream.seq), auto_refresh=False, transient=False) as live:
        drawing = asyncio.create_task(_draw(picture, stream, live))
        try:
            async for event in stream:
                if not isinstance(event, Ready):
                    picture.take(event, stream.list, stream.offset)
        finally:
            drawing.cancel()
            live.update(picture.draw("ended", stream.seq), refresh=True)


def _state(stream: Watch) -> str:
    return "live" if stream.current else "connecting ..." if not stream.connected else "catching up ..."


async def _draw(picture: Picture, stream: Watch, live: Any) -> None:
    """Draw when something changed, at most ten times a second, so that a busy list costs no more."""
    drawn: object = None
    while True:
        state = (picture.events, _state(stream), int(time.monotonic()))
        if state != drawn:
            live.update(picture.draw(_state(stream), stream.seq), refresh=True)
            drawn = state
        await asyncio.sleep(FRAME_SECONDS)


class Picture:
    """What the terminal shows: the list, for a while the former rank of each entry, and the last ones that left."""

    def __init__(self, info: BoardInfo, mine: Subscription) -> None:
        self.events = 0
        self._info = info
        self._title = f"{info.name}: {question(info, dict(mine.range), mine.k, mine.offset, mine.shape)}"
        self._list: tuple[Entry, ...] = ()
        self._offset = 0
        self._marks: dict[str, tuple[str, float]] = {}
        self._left: deque[str] = deque(maxlen=5)

    def take(self, event: StreamEvent, now: tuple[Entry, ...], offset: int = 0) -> None:
        """Note what an event did to the list, which begins after `offset` ranks."""
        from rankcast_client import Change

        before = {entry.id: (rank, entry) for rank, entry in enumerate(self._list, self._offset + 1)}
        until = time.monotonic() + MARK_SECONDS
        for rank, entry in enumerate(now, offset + 1) if isinstance(event, Change) else ():
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
        self._list, self._offset = now, offset
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
        for rank, entry in enumerate(self._list, self._offset + 1):
            mark, until = self._marks.get(entry.id, ("", 0.0))
            table.add_row(str(rank), mark if now < until else "", *map(escape, cells(self._info, entry)))
        left = f"left: {', '.join(reversed(self._left))}" if self._left else "left: none yet"
        at = "" if seq is None else f"seq {seq}, "
        end = "" if state == "ended" else " Ctrl-C ends."
        changes = max(0, self.events - 1)
        foot = f"{state}, {at}{changes} change{'s' * (changes != 1)}.{end}"
        return Group(Text(self._title, style="bold"), table, Text(left, style="dim"), Text(foot))
