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
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import httpx

from rankcast_client import calls
from rankcast_client.errors import ProblemError, Unreachable
from rankcast_client.lists import TopKList, apply_changes
from rankcast_client.models import (
    Change,
    ChangedEntry,
    Entry,
    Form,
    Ready,
    Reset,
    Snapshot,
    StreamEvent,
    Tile,
    Tiles,
    entries,
)
from rankcast_client.sse import Parser
from rankcast_client.transport import BUSY, Retry, describe, problem_of

if TYPE_CHECKING:
    from rankcast_client.client import AsyncBoard, AsyncRankcast

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)

RECONNECT = Retry(attempts=0, first=0.1, most=10.0)


class Follower:
    """One subscription's list, kept by what its stream says; the same for both kinds of stream.

    The first of the `entries` has the rank offset + 1. `cursor` is the position (`epoch:seq`) up to which the list is
    right, None before the first list. `current` says that the service has told all that there was when the stream
    began; with `ready` that is an event of its own. `options` are what else the stream is asked for.
    """

    def __init__(
        self,
        form: Form = "changes",
        *,
        ready: bool = False,
        old: bool = False,
        squash: float | None = None,
        asking: tuple[AsyncBoard, str] | None = None,
    ) -> None:
        self.form = form
        self.ready = ready
        self._asking = asking
        self.options: dict[str, Any] = {"ready": True}
        if form == "tiles":
            self.options["form"] = form
        if old:
            self.options["old"] = True
        if squash is not None:
            self.options["squash"] = squash
        self.current = False
        self.entries: tuple[Entry, ...] = ()
        self.offset = 0
        self.seq: int | None = None
        self.cursor: str | None = None
        self.begun = False
        self._best: TopKList | None = None

    async def ask(self, board: AsyncBoard, id: str) -> None:
        """Learns the question itself, which tiles need: how deep the list reaches and how it is ordered.

        Asked once the stream is open: when the question is changed from then on, a `reset` follows and it is asked
        anew.
        """
        subscription, info = await board.subscription(id), await board.info()
        self.offset = subscription.offset
        depth, where = self.offset + subscription.k, subscription.where
        self._best = TopKList.of(subscription.region, depth, info.order, rank=info.rank, where=where)

    async def before(self, event: str) -> None:
        """Asks, where tiles are followed and a list comes whole."""
        if event in ("snapshot", "reset") and self.form == "tiles" and self._asking is not None:
            await self.ask(*self._asking)

    def take(self, event: str, data: Mapping[str, Any]) -> StreamEvent | None:
        """Applies one message of the stream. None for what is not known here or comes before the first list."""
        if event in ("snapshot", "reset"):
            self.entries = entries(data["list"])
            if self._best is not None:
                self._best.reset(self.entries)
                self.entries = self._best.entries[self.offset :]
            else:
                self.offset = data.get("offset", 0)
            self.begun = True
            self.seq = data["seq"]
            return (Snapshot if event == "snapshot" else Reset)(data["seq"], self.entries, self.offset)
        if not self.begun:
            return None
        if event == "ready":
            self.current = True
            return Ready(data["seq"]) if self.ready else None
        if event == "change":
            changes = tuple(ChangedEntry.from_json(change) for change in data["changes"])
            self.entries = tuple(apply_changes(self.entries, changes, self.offset))
            self.seq = data["seq"]
            return Change(data["seq"], changes)
        if event == "tiles" and self._best is not None:
            tiles = tuple(Tile.from_json(tile) for tile in data["tiles"])
            for tile in tiles:
                self._best.apply(tile)
            self.entries = self._best.entries[self.offset :]
            self.seq = data["seq"]
            return Tiles(data["seq"], tiles)
        return None


class Heard(Protocol[E_co]):
    """What a stream has said, kept by whoever follows it. `cursor` is the position (`epoch:seq`) up to which it is
    known, None before it has `begun`."""

    begun: bool
    current: bool
    cursor: str | None
    options: dict[str, Any]

    async def before(self, event: str, /) -> None:
        """Learn what is needed to take a message of this kind."""

    def take(self, event: str, data: Mapping[str, Any], /) -> E_co | None:
        """Take one message. None where there is nothing to tell."""


class Stream(AsyncIterator[E]):
    """A subscription's stream over lost connections, as what is told of it.

    Ends when the subscription or its resource is deleted; `gone` is true then.
    """

    def __init__(self, client: AsyncRankcast, path: str, heard: Heard[E], heartbeat: float) -> None:
        # What runs does not hold the stream: one that nobody holds any more is closed at once, from the outside in.
        self._course = _Course(client, path, heard, 3 * heartbeat)
        self._events = self._course.run()

    @property
    def gone(self) -> bool:
        """Whether the subscription or its resource was deleted."""
        return self._course.gone

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._course.connected

    @property
    def current(self) -> bool:
        """Whether all that there was has been told, as the service has said on this connection: what comes is news."""
        return self._course.heard.current

    @property
    def reconnects(self) -> int:
        """How often a lost connection was made again, attempts included."""
        return self._course.reconnects

    @property
    def cursor(self) -> str | None:
        """The position up to which all is known: `epoch:seq`."""
        return self._course.heard.cursor

    async def __anext__(self) -> E:
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


class Watch(Stream[StreamEvent]):
    """`async for change in board.watch(id)`: the list of one subscription as it changes.

    Yields a `Snapshot`, then a `Change` (with `form="tiles"`: `Tiles`) for everything that changes the list, and a
    `Reset` after a gap or, with tiles, when the question was changed. `list` is the whole list at that moment. With
    `ready` it yields a `Ready` too, each time that a connection has brought the list up to date, and with `old` changes
    have old values. With `squash` there is at most one `Change` in so many seconds, the net of what happened. Ends when
    the subscription or its board is deleted; `gone` is true then.

    Raises ProblemError when the stream is refused (also later, as when a key was revoked), and Unreachable when the
    first connection could not be made. A connection that is lost later is made again for as long as it takes.
    Giving up a wait, as with `asyncio.timeout`, loses nothing: the next one resumes.
    """

    def __init__(
        self,
        board: AsyncBoard,
        id: str,
        form: Form = "changes",
        heartbeat: float = 15.0,
        *,
        ready: bool = False,
        old: bool = False,
        squash: float | None = None,
    ) -> None:
        self.id = id
        self._follower = Follower(form, ready=ready, old=old, squash=squash, asking=(board, id))
        path = calls.board_path(board.name, "subscriptions", calls.segment(id), "stream")
        super().__init__(board.client, path, self._follower, heartbeat)

    @property
    def list(self) -> tuple[Entry, ...]:
        """The present list, best first."""
        return self._follower.entries

    @property
    def offset(self) -> int:
        """How many ranks lie before the list: its first entry has the rank offset + 1."""
        return self._follower.offset

    @property
    def seq(self) -> int | None:
        """The board's seq at which the list last changed, None before the snapshot."""
        return self._follower.seq


class _Course(Generic[E]):
    """What a watch goes through: one connection after the other, until the subscription is gone."""

    def __init__(self, client: AsyncRankcast, path: str, heard: Heard[E], dead_after: float) -> None:
        self.gone = False
        self.connected = False
        self.reconnects = 0
        self.heard = heard
        self._client = client
        self._path = path
        self._ever = False
        self._dead_after = dead_after

    async def run(self) -> AsyncGenerator[E, None]:
        failures = 0
        retry = self._client.retry
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
                self.connected = self.heard.current = False
            if self.gone:
                return
            failures += 1
            if not self._ever and failures >= retry.attempts:
                raise Unreachable(f"{self._client.base_url} does not answer: {why}")
            self.reconnects += self._ever
            await asyncio.sleep((RECONNECT if self._ever else retry).pause(failures, asked))

    async def _connection(self) -> AsyncGenerator[E, None]:
        """The events of one connection, until it ends or breaks."""
        heard, http = self.heard, self._client.streams
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if heard.cursor:
            headers["Last-Event-ID"] = heard.cursor
        async with http.stream(
            "GET",
            self._path,
            params={n: value if isinstance(value, str) else json.dumps(value) for n, value in heard.options.items()},
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
                        if block.id is not None and heard.begun:
                            heard.cursor = block.id
                        continue
                    if block.event == "gone":
                        self.gone = True
                        return
                    await heard.before(block.event)
                    event = heard.take(block.event, json.loads(block.data))
                    if block.id is not None and heard.begun:
                        heard.cursor = block.id
                    if event is not None:
                        yield event
