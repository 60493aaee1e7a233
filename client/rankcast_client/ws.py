"""Many subscriptions, and requests, over a WebSocket. Needs the extra `rankcast-client[ws]`.

Every subscription's list is kept as in `boards.Watch`, and those of feeds as in `feeds.FeedWatch`; those of
matchers and relays have single events, and standing queries of maps have answers. When the connection is lost it is
made again and each subscription is resumed at its own position, so that a list is either continued or reset, never
silently wrong, and single events are complete or followed by `Missed`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from rankcast_client._base import AsyncConnection
from rankcast_client.board_calls import BOARDS as BOARD_CALLS
from rankcast_client.calls import Call, segment
from rankcast_client.connecting import ClientConnection, ConnectionClosed, connect_again
from rankcast_client.errors import ProblemError
from rankcast_client.feed_models import FeedEvent, FeedFollower, FeedPost
from rankcast_client.followers import EventFollower, ListFollower
from rankcast_client.frames import frames, load
from rankcast_client.map_models import ResultEvent, ResultFollower
from rankcast_client.matches import WinEvent, follow_wins
from rankcast_client.models import (
    Entry,
    Event,
    Form,
    Gone,
    Messages,
    Mode,
    OnError,
    Published,
    StreamEvent,
)
from rankcast_client.pipeline import WINDOW, Pipeline
from rankcast_client.relay_models import NotificationEvent, follow_notifications
from rankcast_client.transport import RECONNECT
from rankcast_client.zones import Location

T = TypeVar("T")

BOARDS = "boards/"

AnyFollower: TypeAlias = ListFollower | EventFollower[Any] | ResultFollower | FeedFollower

OTHERS: dict[str, Callable[[bool], EventFollower[Any] | ResultFollower | FeedFollower]] = {
    "feeds/": FeedFollower,
    "maps/": ResultFollower,
    "matchers/": follow_wins,
    "relays/": follow_notifications,
}
"""How subscriptions of others than boards are followed, by how the names of their resources begin."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The service refused a subscribe; the socket stays open and follows the others."""

    problem: ProblemError


Key: TypeAlias = tuple[str, str]
SocketEvent: TypeAlias = StreamEvent | WinEvent | NotificationEvent | ResultEvent | FeedEvent | Gone | Refused


@dataclass(frozen=True, slots=True)
class Message:
    """What happened to one of the followed subscriptions, and its list right after, which begins at rank offset + 1.

    `board` is the argument of `subscribe`: a board's name, or `feeds/<name>`, whose lists are `posts`, or
    `maps/<name>`, `matchers/<name>` or `relays/<name>`, where there are no lists.
    """

    board: str
    id: str
    event: SocketEvent
    list: tuple[Entry, ...]
    offset: int = 0
    posts: tuple[FeedPost, ...] = ()


class Socket(AsyncIterator[Message]):
    """`async for message in socket`: the lists of many subscriptions as they change, and what others win.

        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            await socket.subscribe("matchers/ads", "mortgage")
            async for message in socket:
                print(message.id, message.event, message.list)

    Connects when it is first used. Raises ProblemError when the service refuses the connection (a bad key) and
    Unreachable when the first one cannot be made; one that is lost later is made again for as long as it takes. The
    last message about a subscription that was deleted has the event `Gone`. Giving up a wait, as with
    `asyncio.timeout`, loses nothing.
    """

    def __init__(
        self, client: AsyncConnection, *, heartbeat: float = 15.0, window: int = WINDOW, packed: bool = False
    ) -> None:
        self.reconnects = 0
        self._client = client
        self._frames = frames(packed)
        self._pipeline = Pipeline(client, window=window, packed=packed, heartbeat=heartbeat)
        self._heartbeat = heartbeat
        self._resumed = False
        self._followed: dict[Key, AnyFollower] = {}
        self._subscribed: dict[Key, AnyFollower] = {}
        self._leaving: Counter[Key] = Counter()
        self._moves: defaultdict[Key, deque[asyncio.Future[tuple[int, bool]]]] = defaultdict(deque)
        self._closed = False
        self._connection: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._ever = False
        self._node = ""
        self._tried: set[str] = set()
        """Nodes whose connection was lost, until there is another one."""
        self._behind = 0
        """How many nodes in a row did not have what is followed."""
        self._messages = self._run()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; the iteration ends. Subscriptions stay registered."""
        self._closed = True
        connection, self._connection = self._connection, None
        self._lose_moves()
        await self._pipeline.aclose()
        if connection is not None:
            await connection.close()

    async def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request of the API, and return the body of its answer.

        Any number of tasks may do so: as many as the `window` are under way, the others wait. Writes to one resource
        are applied in the order of these calls, and a write without an Idempotency-Key gets one. Raises ProblemError
        when the service refuses. Requests have a connection of their own, which need not be iterated.
        """
        return await self._pipeline.request(method, path, body, headers)

    async def send(self, call: Call[T], idempotency_key: str | None = None) -> T:
        """Send a request as the handles make them: `rankcast_client.board_calls.BOARDS` has those of boards."""
        return await self._pipeline.send(call, idempotency_key)

    async def publish(
        self,
        board: str,
        events: Iterable[Event],
        *,
        mode: Mode = "each",
        messages: Messages = "count",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Apply events to a board, in order, as `AsyncBoard.publish_many` does."""
        rest = {"mode": mode, "messages": messages, "on_error": on_error}
        call = BOARD_CALLS.publish(board, "events", list(events), Published.from_json, **rest)
        return await self._pipeline.send(call, idempotency_key)

    async def subscribe(
        self,
        board: str,
        id: str,
        *,
        form: Form = "changes",
        ready: bool = False,
        old: bool = False,
        squash: float | None = None,
    ) -> None:
        """Follow one more subscription of a board or, as `matchers/<name>` or `relays/<name>`, of a matcher or relay,
        or of `feeds/<name>`, or a standing query of `maps/<name>`; one followed already restarts with a snapshot.

        With `ready` there is a `Ready` too, each time that a connection has caught up. With `old`
        changes have old values, with `squash` there is at most one in so many seconds; these two and tiles go with
        boards only. Raises ValueError for what cannot be followed.
        """
        key = _key(board, id)
        begin = OTHERS.get(key[0].partition("/")[0] + "/")
        if begin is not None:
            if form != "changes" or old or squash is not None:
                raise ValueError("form, old and squash go with boards only")
            await self._follow(board, id, begin(ready))
        else:
            await self._follow(board, id, ListFollower(form, ready=ready, old=old, squash=squash))

    async def _follow(self, board: str, id: str, follower: AnyFollower) -> None:
        key = _key(board, id)
        self._followed[key] = follower
        connection = await self._connected()
        if self._subscribed.get(key) is not follower:
            await self._send(connection, self._subscribing(key, follower))

    async def move(self, map: str, id: str, location: Location) -> bool:
        """Move the client of a standing query of `maps/<name>`; whether it is still within the zone that the service
        holds. Elsewhere the new answer comes as a message to those who follow the query.

        Sent again where the connection was lost. Someone must iterate the socket meanwhile. Raises ProblemError when it
        is refused, and ValueError for what is no map.
        """
        return (await self._move(map, id, location))[1]

    async def _move(self, map: str, id: str, location: Location) -> tuple[int, bool]:
        key = _key(map, id)
        if not key[0].startswith("maps/"):
            raise ValueError(f"{map!r} is no map, as maps/<name> is")
        request = {"op": "move", "resource": key[0], "id": id, "location": list(location)}
        while True:
            connection = await self._connected()
            answer: asyncio.Future[tuple[int, bool]] = asyncio.get_running_loop().create_future()
            self._moves[key].append(answer)
            await self._send(connection, request)
            try:
                return await answer
            except ConnectionError:
                continue

    async def unsubscribe(self, board: str, id: str) -> None:
        """Stop following it. The subscription itself stays."""
        key = _key(board, id)
        if self._followed.pop(key, None) is not None and self._connection is not None:
            self._leaving[key] += 1
            await self._send(self._connection, {"op": "unsubscribe", "resource": key[0], "id": id})

    def list(self, board: str, id: str) -> tuple[Entry, ...]:
        """The present list of a followed subscription, best first; empty where there are none. KeyError if it is not
        followed."""
        return _listed(self._followed[_key(board, id)])[0]

    def posts(self, feed: str, id: str) -> tuple[FeedPost, ...]:
        """The present list of a followed subscription of `feeds/<name>`, best first. KeyError if it is not followed."""
        return _posts(self._followed[_key(feed, id)])

    def current(self, board: str, id: str) -> bool:
        """Whether this connection has caught up with the subscription. KeyError as with `list`."""
        return self._followed[_key(board, id)].current

    async def __anext__(self) -> Message:
        try:
            return await anext(self._messages)
        except asyncio.CancelledError:
            # Giving up a wait ends the generator, not the socket: another one goes on where it was.
            self._messages = self._run()
            raise

    def _subscribing(self, key: Key, follower: AnyFollower) -> dict[str, Any]:
        self._subscribed[key] = follower
        request: dict[str, Any] = {"op": "subscribe", "resource": key[0], "id": key[1], "form": "changes"}
        request |= follower.options
        return request | ({"after": follower.cursor} if follower.cursor else {})

    async def _send(self, connection: ClientConnection, message: Mapping[str, Any]) -> None:
        try:
            await connection.send(self._frames.dump(message))
        except ConnectionClosed:
            # The reading side notices as well, and subscribes all that are followed again.
            return

    async def _connected(self) -> ClientConnection:
        """The open connection; made, with all subscriptions resumed, where there is none."""
        async with self._connecting:
            if self._connection is None:
                connection, self._node = await connect_again(
                    self._client, RECONNECT, self._ever, lambda: self._closed, self._tried
                )
                await self._begin(connection)
                self._connection = connection
            return self._connection

    async def _begin(self, connection: ClientConnection) -> None:
        """Resume all subscriptions on a new connection."""
        self.reconnects += self._ever
        self._ever = True
        self._subscribed = {}
        self._leaving.clear()
        for key, follower in tuple(self._followed.items()):
            await self._send(connection, self._subscribing(key, follower))
        self._resumed = not any(follower.begun for follower in self._followed.values())
        if not self._resumed:
            # Operations are answered in order. Until this one is, a list may still lack what it missed, and the cursor
            # of a heartbeat would skip it.
            await self._send(connection, {"op": "ping"})

    async def _run(self) -> AsyncGenerator[Message, None]:
        silent = 0
        while not self._closed:
            connection = await self._connected()
            try:
                async with asyncio.timeout(self._heartbeat):
                    text = await connection.recv()
            except TimeoutError:
                silent += 1
                if silent < 3:
                    await self._send(connection, {"op": "ping"})
                else:
                    silent = 0
                    self._drop(connection)
                continue
            except ConnectionClosed:
                silent = 0
                self._drop(connection)
                if not self._closed:
                    await asyncio.sleep(RECONNECT.pause(1))
                continue
            silent = 0
            try:
                message = await self._take(load(text))
            except asyncio.CancelledError:
                self._drop(connection)
                raise
            if message is not None:
                yield message

    def _drop(self, connection: ClientConnection) -> None:
        """Abort a connection; the next one resumes from the cursors."""
        if self._connection is connection:
            self._connection = None
            self._tried.add(self._node)
            self._lose_moves()
            for follower in self._followed.values():
                follower.current = False
        connection.transport.abort()

    async def _leave_behind(self) -> None:
        """Leave a replica that does not have yet, or any more, what was followed elsewhere."""
        if self._connection is not None:
            self._drop(self._connection)
        self._behind += 1
        await asyncio.sleep(RECONNECT.pause(self._behind))

    def _lose_moves(self) -> None:
        """Fail the moves whose responses are outstanding: whether they were applied is unknown."""
        for answers in self._moves.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(ConnectionError("the connection was lost"))
        self._moves.clear()

    def _moved(self, key: Key, data: Mapping[str, Any]) -> None:
        """Take the response to the oldest outstanding move of a query."""
        answers = self._moves.get(key)
        answer = answers.popleft() if answers else None
        if answer is None or answer.done():
            return
        if data["event"] == "error":
            answer.set_exception(ProblemError.from_json(data["problem"]))
        else:
            answer.set_result((int(data["seq"]), bool(data["inside"])))

    async def _take(self, data: Mapping[str, Any]) -> Message | None:
        event = data.get("event", "")
        if event == "pong":
            self._resumed = True
            return None
        if event == "heartbeat":
            for (resource, _), follower in self._followed.items():
                if self._resumed and follower.begun and resource in data["cursors"]:
                    follower.cursor = data["cursors"][resource]
            return None
        key = (str(data.get("resource", "")), str(data.get("id", "")))
        if event == "error" and data.get("resource") is None:
            raise ProblemError.from_json(data["problem"])
        if event == "moved" or (event == "error" and data.get("op") == "move"):
            self._moved(key, data)
            return None
        if self._leaving[key]:
            # What comes before the answer to an unsubscribe is about the list that was followed then.
            self._leaving[key] -= event in ("unsubscribed", "error")
            return None
        if key not in self._followed:
            return None
        follower = self._followed[key]
        board, id = key[0].removeprefix(BOARDS), key[1]
        if event == "gone":
            del self._followed[key]
            follower.take(event, data)
            return Message(board, id, Gone(data.get("seq")), _listed(follower)[0], posts=_posts(follower))
        if event == "error":
            problem = ProblemError.from_json(data["problem"])
            if problem.status == 404 and follower.begun and await self._client._follows(self._node):
                await self._leave_behind()
                return None
            del self._followed[key]
            follower.take(event, data)
            was_there = problem.status == 404 and follower.begun
            return Message(
                board, id, Gone(None) if was_there else Refused(problem), _listed(follower)[0], posts=_posts(follower)
            )
        if isinstance(follower, ListFollower) and follower.needs_subscription(event):
            try:
                subscription = await self._client.send(BOARD_CALLS.get_subscription(board, id), node=self._node)
                follower.learn(subscription, await self._client.send(BOARD_CALLS.info(board), node=self._node))
            except ProblemError as problem:
                if problem.status != 404:
                    raise
        self._behind = 0
        found = follower.take(event, data)
        if follower.begun and data.get("cursor"):
            follower.cursor = data["cursor"]
        return None if found is None else Message(board, id, found, *_listed(follower), _posts(follower))


def _key(board: str, id: str) -> Key:
    """What the service calls a subscription. Raises ValueError for what cannot be followed."""
    resource = board if "/" in board else BOARDS + board
    type, _, name = resource.partition("/")
    if type + "/" not in (BOARDS, *OTHERS):
        raise ValueError(
            f"{board!r} is neither a board's name nor feeds/<name>, maps/<name>, matchers/<name> or relays/<name>"
        )
    return f"{type}/{segment(name)}", id


def _listed(follower: AnyFollower) -> tuple[tuple[Entry, ...], int]:
    """A list and how many ranks lie before it."""
    return (follower.entries, follower.offset) if isinstance(follower, ListFollower) else ((), 0)


def _posts(follower: AnyFollower) -> tuple[FeedPost, ...]:
    """The present list of one that is of a feed."""
    return follower.posts if isinstance(follower, FeedFollower) else ()
