"""Following one subscription over server-sent events, across lost connections and restarts of the service.

The list is right after every event: a snapshot or reset replaces it, changes (or tiles) move it on. After a lost
connection the stream is resumed where it was by `Last-Event-ID`; what can no longer be filled in comes as a reset.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx

from rankcast_client import calls
from rankcast_client.errors import ProblemError, Unreachable
from rankcast_client.lists import TopKList, apply_changes
from rankcast_client.models import (
    Change,
    ChangedEntry,
    Entry,
    Form,
    Reset,
    Snapshot,
    StreamEvent,
    Tile,
    Tiles,
    ends,
    entries,
)
from rankcast_client.sse import Parser
from rankcast_client.transport import BUSY, Retry, describe, problem_of

if TYPE_CHECKING:
    from rankcast_client.client import AsyncBoard

RECONNECT = Retry(attempts=0, first=0.1, most=10.0)


class Follower:
    """One subscription's list, kept by what its stream says; the same for both kinds of stream.

    `cursor` is the position (`epoch:seq`) up to which the list is right, None before the first list.
    """

    def __init__(self, form: Form = "changes") -> None:
        self.form = form
        self.entries: tuple[Entry, ...] = ()
        self.seq: int | None = None
        self.cursor: str | None = None
        self.begun = False
        self._best: TopKList | None = None

    async def ask(self, board: AsyncBoard, id: str) -> None:
        """Learns the question itself, which tiles need: the list's k and how it is ordered.

        Asked once the stream is open: when the question is changed from then on, a `reset` follows and it is asked
        anew.
        """
        subscription, info = await board.subscription(id), await board.info()
        box = {name: ends(subscription.range.get(name, (None, None))) for name in info.range_attributes}
        low: Any = {name: pair[0] for name, pair in box.items()}
        high: Any = {name: pair[1] for name, pair in box.items()}
        self._best = TopKList(low, high, subscription.k, info.order, rank=info.rank)

    def take(self, event: str, data: Mapping[str, Any]) -> StreamEvent | None:
        """Applies one message of the stream. None for what is not known here or comes before the first list."""
        if event in ("snapshot", "reset"):
            self.entries = entries(data["list"])
            if self._best is not None:
                self._best.reset(self.entries)
            self.begun = True
            self.seq = data["seq"]
            return (Snapshot if event == "snapshot" else Reset)(data["seq"], self.entries)
        if not self.begun:
            return None
        if event == "change":
            changes = tuple(ChangedEntry.from_json(change) for change in data["changes"])
            self.entries = tuple(apply_changes(self.entries, changes))
            self.seq = data["seq"]
            return Change(data["seq"], changes)
        if event == "tiles" and self._best is not None:
            tiles = tuple(Tile.from_json(tile) for tile in data["tiles"])
            for tile in tiles:
                self._best.apply(tile)
            self.entries = self._best.entries
            self.seq = data["seq"]
            return Tiles(data["seq"], tiles)
        return None


class Watch(AsyncIterator[StreamEvent]):
    """`async for change in board.watch(id)`: the list of one subscription as it changes.

    Yields a `Snapshot`, then a `Change` (with `form="tiles"`: `Tiles`) for everything that changes the list, and a
    `Reset` after a gap or, with tiles, when the question was changed. `list` is the whole list at that moment. Ends
    when the subscription or its board is deleted; `gone` is true then.

    Raises ProblemError when the stream is refused (also later, as when a key was revoked), and Unreachable when the
    first connection could not be made. A connection that is lost later is made again for as long as it takes.
    Giving up a wait, as with `asyncio.timeout`, loses nothing: the next one resumes.
    """

    def __init__(self, board: AsyncBoard, id: str, form: Form = "changes", heartbeat: float = 15.0) -> None:
        self.id = id
        # What runs does not hold the watch: one that nobody holds any more is closed at once, from the outside in.
        self._course = _Course(board, id, form, 3 * heartbeat)
        self._events = self._course.run()

    @property
    def gone(self) -> bool:
        """Whether the subscription or its board was deleted."""
        return self._course.gone

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._course.connected

    @property
    def reconnects(self) -> int:
        """How often a lost connection was made again, attempts included."""
        return self._course.reconnects

    @property
    def list(self) -> tuple[Entry, ...]:
        """The present list, best first."""
        return self._course.follower.entries

    @property
    def seq(self) -> int | None:
        """The board's seq at which the list last changed, None before the snapshot."""
        return self._course.follower.seq

    @property
    def cursor(self) -> str | None:
        """The position up to which the list is known to be right: `epoch:seq`."""
        return self._course.follower.cursor

    async def __anext__(self) -> StreamEvent:
        try:
            return await anext(self._events)
        except asyncio.CancelledError:
            self._events = self._course.run()
            raise

    async def aclose(self) -> None:
        """Closes the stream. Done by itself at the end of an `async with`, and when the client is closed."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Course:
    """What a watch goes through: one connection after the other, until the subscription is gone."""

    def __init__(self, board: AsyncBoard, id: str, form: Form, dead_after: float) -> None:
        self.gone = False
        self.connected = False
        self.reconnects = 0
        self.follower = Follower(form)
        self._board = board
        self._id = id
        self._ever = False
        self._dead_after = dead_after

    async def run(self) -> AsyncGenerator[StreamEvent, None]:
        failures = 0
        retry = self._board.client.retry
        while not self.gone:
            asked = None
            try:
                async with aclosing(self._connection()) as events:
                    async for event in events:
                        failures = 0
                        self._ever = True
                        yield event
                why = "the stream ended"
            except httpx.TransportError as error:
                why = describe(error)
            except ProblemError as problem:
                if problem.status == 404 and self._ever:
                    self.gone = True
                elif problem.status not in BUSY and not (problem.status == 429 and self._ever):
                    raise
                why = str(problem)
                asked = problem.retry_after
            finally:
                self.connected = False
            if self.gone:
                return
            failures += 1
            if not self._ever and failures >= retry.attempts:
                raise Unreachable(f"{self._board.client.base_url} does not answer: {why}")
            self.reconnects += self._ever
            await asyncio.sleep((RECONNECT if self._ever else retry).pause(failures, asked))

    async def _connection(self) -> AsyncGenerator[StreamEvent, None]:
        """The events of one connection, until it ends or breaks."""
        follower, http = self.follower, self._board.client.streams
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if follower.cursor:
            headers["Last-Event-ID"] = follower.cursor
        async with http.stream(
            "GET",
            calls.board_path(self._board.name, "subscriptions", calls.segment(self._id), "stream"),
            params={"form": follower.form} if follower.form == "tiles" else {},
            headers=headers,
            timeout=httpx.Timeout(http.timeout.connect, read=self._dead_after),
        ) as response:
            if not response.is_success:
                await response.aread()
                raise problem_of(response)
            self.connected = True
            parser = Parser()
            async for chunk in response.aiter_bytes():
                for block in parser.feed(chunk):
                    if block.data is None:
                        if block.id is not None and follower.begun:
                            follower.cursor = block.id
                        continue
                    if block.event == "gone":
                        self.gone = True
                        return
                    if block.event in ("snapshot", "reset") and follower.form == "tiles":
                        await follower.ask(self._board, self._id)
                    event = follower.take(block.event, json.loads(block.data))
                    if block.id is not None and follower.begun:
                        follower.cursor = block.id
                    if event is not None:
                        yield event
