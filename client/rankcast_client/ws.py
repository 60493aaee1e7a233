"""Many subscriptions on one WebSocket. Needs the extra `rankcast-client[ws]`.

Every subscription's list is kept as in `watch.Watch`, and those of feeds as in `feeds.FeedWatch`; those of matchers and
relays have occasions, and standing queries of maps have answers. When the connection is lost it is made again and each
subscription is resumed at its own position, so that a list is either continued or reset, never silently wrong, and wins
are told or said to be missed.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from rankcast_client import calls
from rankcast_client.errors import ProblemError, Unreachable
from rankcast_client.feed_models import FeedEvent, FeedFollower, FeedPost
from rankcast_client.map_models import ResultEvent, ResultFollower
from rankcast_client.matches import WinEvent, follow_wins
from rankcast_client.models import Entry, Form, Gone, StreamEvent
from rankcast_client.occasions import OccasionFollower
from rankcast_client.relay_models import NotificationEvent, follow_notifications
from rankcast_client.transport import describe
from rankcast_client.watch import RECONNECT, Follower
from rankcast_client.zones import Location

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
except ImportError as missing:
    raise ImportError("the WebSocket needs an extra: pip install 'rankcast-client[ws]'") from missing

if TYPE_CHECKING:
    from rankcast_client.client import AsyncRankcast

BOARDS = "boards/"

AnyFollower: TypeAlias = Follower | OccasionFollower[Any] | ResultFollower | FeedFollower

OTHERS: dict[str, Callable[[bool], OccasionFollower[Any] | ResultFollower | FeedFollower]] = {
    "feeds/": FeedFollower,
    "maps/": ResultFollower,
    "matchers/": follow_wins,
    "relays/": follow_notifications,
}
"""How subscriptions of others than boards are followed, by how the names of their resources begin."""

Lost = (OSError, ConnectionClosed, InvalidHandshake, TimeoutError)


@dataclass(frozen=True, slots=True)
class Refused:
    """The service refused a subscribe; the socket stays open and follows the others."""

    problem: ProblemError


Key: TypeAlias = tuple[str, str]
SocketEvent: TypeAlias = StreamEvent | WinEvent | NotificationEvent | ResultEvent | FeedEvent | Gone | Refused


@dataclass(frozen=True, slots=True)
class Message:
    """What happened to one of the followed subscriptions, and its list right after, which begins at rank offset + 1.

    `board` is what was said to `subscribe`: a board's name, or `feeds/<name>`, whose lists are `posts`, or
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

    def __init__(self, client: AsyncRankcast, *, heartbeat: float = 15.0) -> None:
        self.reconnects = 0
        self._client = client
        self._heartbeat = heartbeat
        self._resumed = False
        self._followed: dict[Key, AnyFollower] = {}
        self._said: dict[Key, AnyFollower] = {}
        self._leaving: Counter[Key] = Counter()
        self._moves: defaultdict[Key, deque[asyncio.Future[tuple[int, bool]]]] = defaultdict(deque)
        self._closed = False
        self._connection: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._ever = False
        self._messages = self._run()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection; the iteration ends. Subscriptions stay registered."""
        self._closed = True
        connection, self._connection = self._connection, None
        self._lose_moves()
        if connection is not None:
            await connection.close()

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
        """Follows one more subscription of a board or, as `matchers/<name>` or `relays/<name>`, of a matcher or relay,
        or of `feeds/<name>`, or a standing query of `maps/<name>`; one followed already starts anew with a snapshot.

        With `ready` there is a `Ready` too, each time that a connection has brought the list up to date. With `old`
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
            await self._follow(board, id, Follower(form, ready=ready, old=old, squash=squash))

    async def _follow(self, board: str, id: str, follower: AnyFollower) -> None:
        key = _key(board, id)
        self._followed[key] = follower
        connection = await self._connected()
        if self._said.get(key) is not follower:
            await self._say(connection, self._subscribing(key, follower))

    async def move(self, map: str, id: str, location: Location) -> bool:
        """Says where the client of a standing query of `maps/<name>` is; whether that is within the zone that the
        service holds. Elsewhere the new answer comes as a message to those who follow the query.

        Said again where the connection was lost. Someone must iterate the socket meanwhile. Raises ProblemError when it
        is refused, and ValueError for what is no map.
        """
        return (await self._move(map, id, location))[1]

    async def _move(self, map: str, id: str, location: Location) -> tuple[int, bool]:
        key = _key(map, id)
        if not key[0].startswith("maps/"):
            raise ValueError(f"{map!r} is no map, as maps/<name> is")
        said = {"op": "move", "resource": key[0], "id": id, "location": list(location)}
        while True:
            connection = await self._connected()
            answer: asyncio.Future[tuple[int, bool]] = asyncio.get_running_loop().create_future()
            self._moves[key].append(answer)
            await self._say(connection, said)
            try:
                return await answer
            except ConnectionError:
                continue

    async def unsubscribe(self, board: str, id: str) -> None:
        """Follows it no longer. The subscription itself stays."""
        key = _key(board, id)
        if self._followed.pop(key, None) is not None and self._connection is not None:
            self._leaving[key] += 1
            await self._say(self._connection, {"op": "unsubscribe", "resource": key[0], "id": id})

    def list(self, board: str, id: str) -> tuple[Entry, ...]:
        """The present list of a followed subscription, best first; empty where there are none. KeyError if it is not
        followed."""
        return _listed(self._followed[_key(board, id)])[0]

    def posts(self, feed: str, id: str) -> tuple[FeedPost, ...]:
        """The present list of a followed subscription of `feeds/<name>`, best first. KeyError if it is not followed."""
        return _posts(self._followed[_key(feed, id)])

    def current(self, board: str, id: str) -> bool:
        """Whether all that there was has been told, as the service has said on this connection. KeyError as with
        `list`."""
        return self._followed[_key(board, id)].current

    async def __anext__(self) -> Message:
        try:
            return await anext(self._messages)
        except asyncio.CancelledError:
            # Giving up a wait ends the generator, not the socket: another one goes on where it was.
            self._messages = self._run()
            raise

    def _subscribing(self, key: Key, follower: AnyFollower) -> dict[str, Any]:
        self._said[key] = follower
        said: dict[str, Any] = {"op": "subscribe", "resource": key[0], "id": key[1], "form": "changes"}
        said |= follower.options
        return said | ({"after": follower.cursor} if follower.cursor else {})

    async def _say(self, connection: ClientConnection, message: Mapping[str, Any]) -> None:
        try:
            await connection.send(json.dumps(message))
        except ConnectionClosed:
            # The reading side notices as well, and subscribes all that are followed anew.
            return

    async def _connected(self) -> ClientConnection:
        """The open connection; made, with all subscriptions resumed, where there is none."""
        async with self._connecting:
            failures = 0
            while self._connection is None:
                if self._closed:
                    raise Unreachable("this socket has been closed")
                asked = None
                try:
                    self._connection = await self._open()
                    break
                except InvalidStatus as refusal:
                    response = refusal.response
                    problem = ProblemError.from_response(
                        response.status_code,
                        response.reason_phrase,
                        bytes(response.body or b""),
                        response.headers.get("Retry-After"),
                    )
                    if 400 <= problem.status < 500 and problem.status != 429:
                        raise problem from None
                    why, asked = str(problem), problem.retry_after
                except Lost as error:
                    why = describe(error)
                failures += 1
                if not self._ever and failures >= self._client.retry.attempts:
                    raise Unreachable(f"{self._client.base_url} does not answer: {why}")
                await asyncio.sleep((RECONNECT if self._ever else self._client.retry).pause(failures, asked))
            return self._connection

    async def _open(self) -> ClientConnection:
        url = "ws" + self._client.base_url.removeprefix("http") + "/v1/stream"
        headers = {"Authorization": f"Bearer {self._client.key}"} if self._client.key else {}
        connection = await connect(url, additional_headers=headers, max_size=None, compression=None, ping_interval=None)
        self.reconnects += self._ever
        self._ever = True
        self._said = {}
        self._leaving.clear()
        for key, follower in tuple(self._followed.items()):
            await connection.send(json.dumps(self._subscribing(key, follower)))
        self._resumed = not any(follower.begun for follower in self._followed.values())
        if not self._resumed:
            # Operations are answered in order. Until this one is, a list may still lack what it missed, and the cursor
            # of a heartbeat would skip it.
            await connection.send('{"op":"ping"}')
        return connection

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
                    await self._say(connection, {"op": "ping"})
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
                message = await self._take(json.loads(text))
            except asyncio.CancelledError:
                self._drop(connection)
                raise
            if message is not None:
                yield message

    def _drop(self, connection: ClientConnection) -> None:
        """Gives a connection up without a word; the next one resumes from the cursors."""
        if self._connection is connection:
            self._connection = None
            self._lose_moves()
            for follower in self._followed.values():
                follower.current = False
        connection.transport.abort()

    def _lose_moves(self) -> None:
        """Whether moves that were said were heard is not known any more."""
        for answers in self._moves.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(ConnectionError("the connection was lost"))
        self._moves.clear()

    def _moved(self, key: Key, data: Mapping[str, Any]) -> None:
        """Takes the answer to the oldest move of a query that was said on this connection."""
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
            del self._followed[key]
            problem = ProblemError.from_json(data["problem"])
            follower.take(event, data)
            was_there = problem.status == 404 and follower.begun
            return Message(
                board, id, Gone(None) if was_there else Refused(problem), _listed(follower)[0], posts=_posts(follower)
            )
        if event in ("snapshot", "reset") and isinstance(follower, Follower) and follower.form == "tiles":
            try:
                await follower.ask(self._client.board(board), id)
            except ProblemError as problem:
                if problem.status != 404:
                    raise
        told = follower.take(event, data)
        if follower.begun and data.get("cursor"):
            follower.cursor = data["cursor"]
        return None if told is None else Message(board, id, told, *_listed(follower), _posts(follower))


def _key(board: str, id: str) -> Key:
    """What the service calls a subscription. Raises ValueError for what cannot be followed."""
    resource = board if "/" in board else BOARDS + board
    kind, _, name = resource.partition("/")
    if kind + "/" not in (BOARDS, *OTHERS):
        raise ValueError(
            f"{board!r} is neither a board's name nor feeds/<name>, maps/<name>, matchers/<name> or relays/<name>"
        )
    return f"{kind}/{calls.segment(name)}", id


def _listed(follower: AnyFollower) -> tuple[tuple[Entry, ...], int]:
    """A list and how many ranks lie before it."""
    return (follower.entries, follower.offset) if isinstance(follower, Follower) else ((), 0)


def _posts(follower: AnyFollower) -> tuple[FeedPost, ...]:
    """The present list of one that is of a feed."""
    return follower.posts if isinstance(follower, FeedFollower) else ()
