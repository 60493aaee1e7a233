"""What all handles share: the connection to a service, the stream that outlives lost connections, and the handle.

`tools/blocking_client.py` generates the blocking client in `rankcast_client/_sync` from this module and from those of
the resources. What they import from elsewhere does no I/O.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import WeakSet

import httpx

from rankcast_client.calls import Call, Page, ResourceCalls, segment
from rankcast_client.errors import ProblemError, Unreachable
from rankcast_client.followers import Follower
from rankcast_client.nodes import ASK_SECONDS, Nodes, role_of
from rankcast_client.sse import Parser
from rankcast_client.transport import BUSY, RECONNECT, STREAM_HEADERS, Retry, auth_headers, describe, problem_of

T = TypeVar("T")
E = TypeVar("E")
Info = TypeVar("Info")
Sub = TypeVar("Sub")

PAGE = 1_000
"""Elements of one page of a listing."""

ADMIN = "/v1/admin/"
"""How the paths begin that are asked of the leader, reads too: jobs are known where they run."""


class AsyncConnection:
    """The connections to the nodes of one service, and how requests are sent: with retries, a write at most once."""

    def __init__(
        self,
        base_url: str | Iterable[str] = "http://127.0.0.1:8000",
        key: str | None = None,
        *,
        retry: Retry | None = None,
        timeout: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.nodes = Nodes(base_url)
        self.key = key
        self.retry = retry or Retry()
        self.http, self.streams = (
            httpx.AsyncClient(
                base_url=self.base_url,
                headers=auth_headers(key),
                timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0), pool=None),
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=32),
                transport=transport,
            )
            # For every request a pool looks at each of its connections, so streams have a pool of their own.
            for most in (100, None)
        )
        self.opened: WeakSet[Stream[Any]] = WeakSet()

    @property
    def base_url(self) -> str:
        """The URL of the service; of several nodes the first."""
        return self.nodes.urls[0]

    @base_url.setter
    def base_url(self, url: str | Iterable[str]) -> None:
        self.nodes = Nodes(url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections, also those of streams that were left before their end."""
        for stream in tuple(self.opened):
            # One that is waited on elsewhere cannot be closed from here.
            with suppress(RuntimeError, ValueError):
                await stream.aclose()
        await self.http.aclose()
        await self.streams.aclose()

    async def send(self, call: Call[T], idempotency_key: str | None = None, *, node: str | None = None) -> T:
        """Send one call, again where that is needed, and return its value.

        Raises ProblemError when refused, Unreachable when every attempt failed. A write carries the same
        Idempotency-Key in every attempt, so that it is applied at most once even where a response was lost, and goes to
        the node that is known to lead. With `node`, no other is asked. Raises ValueError for a call that is about one
        node and does not say which of several.
        """
        if node is None:
            self.nodes.check_path(call.path)
        key, headers = idempotency_key, dict(call.headers)
        if call.write:
            key = key or uuid.uuid4().hex
            headers["Idempotency-Key"] = key
        failures, lost, again, tried = 0, "", False, set[str]()
        while True:
            at = node or await self._choose(tried, call.write or call.path.startswith(ADMIN))
            request = self.http.build_request(
                call.method, at + call.path, params=dict(call.params), content=call.content, headers=headers
            )
            problem: ProblemError | None = None
            try:
                response = await self.http.send(request)
            except (httpx.UnsupportedProtocol, httpx.LocalProtocolError):
                raise
            except httpx.TransportError as error:
                lost = describe(error)
                self.nodes.failed(at)
            else:
                self.nodes.worked(at)
                if response.is_success:
                    return call.read(call.decode(response.content))
                problem = problem_of(response)
                # A 409 may be an earlier attempt, whose answer was lost or a 503 of a service that ended, in progress.
                in_progress = problem.status == 409 and problem.slug == "in-progress"
                if not (problem.status in BUSY or (again and in_progress)):
                    raise problem
                self.nodes.doubt(at)
            again = True
            tried.add(at)
            # A write that was refused for now is the leader's, whichever node is asked: that takes time, not a node.
            if node is None and not (problem and call.write) and self.nodes.left(tried):
                continue
            failures += 1
            if failures >= self.retry.attempts:
                raise problem or Unreachable(f"{self.nodes} does not answer: {lost}", key)
            await asyncio.sleep(self.retry.pause(failures, problem.retry_after if problem else None))

    async def _choose(self, tried: set[str], leads: bool = False) -> str:
        """The node that is tried next, after those that were `tried`; with `leads`, first find out which leads."""
        if leads and self.nodes.wants_leader:
            said = {url: await self._about(url) for url in self.nodes.asking()}
            self.nodes.learn(said)
        return self.nodes.turn(tried)

    async def _follows(self, node: str) -> bool:
        """Whether a node of several says that it is a replica, which may not have yet what others have."""
        return self.nodes.several and role_of(await self._about(node)) == "replica"

    async def _about(self, node: str) -> Any:
        """What a node says of itself; None where it does not."""
        try:
            return (await self.http.get(f"{node}/readyz", timeout=ASK_SECONDS)).json()
        except httpx.TransportError:
            self.nodes.failed(node)
        except ValueError:
            pass
        return None

    async def listing(self, get: Callable[[int, str | None], Call[Page[T]]]) -> AsyncIterator[T]:
        """All elements of a listing, fetched page by page."""
        cursor: str | None = None
        while True:
            page = await self.send(get(PAGE, cursor))
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return


class AsyncFollowed(Protocol):
    """What a stream needs of the resource whose subscription it follows."""

    client: AsyncConnection
    name: str
    _calls: ResourceCalls[Any, Any]


class AsyncHandle(Generic[Info, Sub]):
    """A resource by name, whether it exists or not. Raises ValueError for what cannot be a name."""

    _calls: ResourceCalls[Info, Sub]

    def __init__(self, client: AsyncConnection, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    async def info(self) -> Info:
        """The configuration, and how much is in it."""
        return await self.client.send(self._calls.info(self.name))

    async def delete(self) -> int:
        """Delete the resource with all that is in it and end its streams. Return the seq."""
        return await self.client.send(self._calls.delete(self.name))


class AsyncSubscriptions(AsyncHandle[Info, Sub]):
    """A resource whose subscriptions are read and deleted as most are."""

    async def subscription(self, id: str) -> Sub:
        """The subscription as it is now, with its list if it has one."""
        return await self.client.send(self._calls.get_subscription(self.name, id))

    async def delete_subscription(self, id: str) -> int:
        """Delete it and end its streams. Return the seq."""
        return await self.client.send(self._calls.delete_subscription(self.name, id))

    async def delete_subscriptions(self, ids: Iterable[str]) -> int:
        """Delete many; unknown ids are passed over. Return how many there were."""
        return await self.client.send(self._calls.delete_many(self.name, "subscriptions", ids))

    def subscriptions(self) -> AsyncIterator[Sub]:
        """All subscriptions, in order of id and without lists, fetched page by page."""
        return self.client.listing(lambda limit, cursor: self._calls.all_subscriptions(self.name, limit, cursor))


class Stream(AsyncIterator[E]):
    """The events of one subscription over lost connections.

    Ends when the subscription or its resource is deleted; `gone` is true then. `before` is awaited with the name of its
    event and the node that sent it before a message is applied.
    """

    def __init__(
        self,
        resource: AsyncFollowed,
        id: str,
        follower: Follower[E],
        heartbeat: float,
        before: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        self.id, client = id, resource.client
        path = resource._calls.path_of(resource.name, id, "stream")
        # The session does not hold the stream: one without references is closed at once, from the outside in.
        self._session = _Session(client, path, follower, 3 * heartbeat, before)
        self._events = self._session.run()
        client.opened.add(self)

    @property
    def gone(self) -> bool:
        """Whether the subscription or its resource was deleted."""
        return self._session.gone

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._session.connected

    @property
    def current(self) -> bool:
        """Whether this connection has caught up: what comes from now on is new."""
        return self._session.follower.current

    @property
    def reconnects(self) -> int:
        """How often a lost connection was made again, attempts included."""
        return self._session.reconnects

    @property
    def cursor(self) -> str | None:
        """The position up to which all is known: `epoch:seq`."""
        return self._session.follower.cursor

    async def __anext__(self) -> E:
        try:
            return await anext(self._events)
        except asyncio.CancelledError:
            self._events = self._session.run()
            raise

    async def aclose(self) -> None:
        """Close the stream, as the end of an `async with` and closing the client do."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Session(Generic[E]):
    """One connection after the other, until the subscription is gone."""

    def __init__(
        self,
        client: AsyncConnection,
        path: str,
        follower: Follower[E],
        dead_after: float,
        before: Callable[[str, str], Awaitable[None]] | None,
    ) -> None:
        self.gone = False
        self.connected = False
        self.reconnects = 0
        self.follower = follower
        self._client = client
        self._path = path
        self._ever = False
        self._dead_after = dead_after
        self._before = before

    async def run(self) -> AsyncGenerator[E, None]:
        failures, tried = 0, set[str]()
        client, retry = self._client, self._client.retry
        while not self.gone:
            refusal, retry_after, delivered = None, None, False
            at = await client._choose(tried)
            try:
                async with aclosing(self._connection(at)) as events:
                    async for event in events:
                        failures, delivered = 0, True
                        yield event
                why = "the stream ended"
            except httpx.TransportError as error:
                why = describe(error)
                client.nodes.failed(at)
            except Unreachable as error:
                # What a message needs could not be asked where it came from.
                why = describe(error)
            except ProblemError as problem:
                behind = problem.status == 404 and await client._follows(at)
                if problem.status == 404 and self._ever and not behind:
                    self.gone = True
                elif not behind and problem.status not in BUSY and not (problem.status == 429 and self._ever):
                    raise
                why, refusal = str(problem), problem if behind else None
                retry_after = problem.retry_after
            finally:
                self.connected = self.follower.current = False
            if self.gone:
                return
            self.reconnects += self._ever
            if delivered:
                tried.clear()
            tried.add(at)
            # A node that gave something and broke is not left in a hurry: the next one may do the same.
            if client.nodes.left(tried) and not delivered:
                continue
            failures += 1
            if not self._ever and failures >= retry.attempts:
                raise refusal or Unreachable(f"{client.nodes} does not answer: {why}")
            await asyncio.sleep((RECONNECT if self._ever else retry).pause(failures, retry_after))

    async def _connection(self, at: str) -> AsyncGenerator[E, None]:
        """The events of one connection to a node, until it ends or breaks."""
        follower, http = self.follower, self._client.streams
        headers = dict(STREAM_HEADERS)
        if follower.cursor:
            headers["Last-Event-ID"] = follower.cursor
        async with http.stream(
            "GET",
            at + self._path,
            params={n: value if isinstance(value, str) else json.dumps(value) for n, value in follower.options.items()},
            headers=headers,
            timeout=httpx.Timeout(http.timeout.connect, read=self._dead_after),
        ) as response:
            if not response.is_success:
                await response.aread()
                raise problem_of(response)
            self.connected = self._ever = True
            self._client.nodes.worked(at)
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
                    if self._before is not None:
                        await self._before(block.event, at)
                    event = follower.take(block.event, json.loads(block.data))
                    if block.id is not None and follower.begun:
                        follower.cursor = block.id
                    if event is not None:
                        yield event
