"""Requests over one WebSocket, many under way at a time. Needs the extra `rankcast-client[ws]`.

Writes to one resource are applied in the order in which they were sent. When the connection is lost, all that is not
answered is sent again over the next one, in the same order and under the same Idempotency-Keys, so that nothing is
applied twice.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from rankcast_client._base import AsyncConnection
from rankcast_client.calls import Call, dumps
from rankcast_client.connecting import ClientConnection, ConnectionClosed, connect_again
from rankcast_client.errors import ProblemError, RankcastError, Unreachable
from rankcast_client.frames import Frame, frames, load
from rankcast_client.transport import BUSY, RECONNECT

T = TypeVar("T")

WINDOW = 128
"""Requests under way at a time, unless it is said; the service lets 256 wait."""

MOST_WINDOW = 256

TOO_BIG = 1009
"""The code with which a service closes a connection for a frame that is larger than it takes."""

READS = frozenset({"GET", "HEAD"})


class _Under:
    """A request under way: its frame, the connection that it was sent on last, and who waits for the answer. `again`
    says that it was sent before."""

    __slots__ = ("again", "answer", "frame", "sent_on")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.sent_on: ClientConnection | None = None
        self.answer: asyncio.Future[tuple[int, Mapping[str, Any]]] = asyncio.get_running_loop().create_future()
        self.again = False


class Pipeline:
    """The requests of one socket, at most `window` of them under way; with `packed` as MessagePack.

    Connects when it is first used. A connection on which nothing comes for three `heartbeat`s is given up.
    """

    def __init__(
        self, client: AsyncConnection, *, window: int = WINDOW, packed: bool = False, heartbeat: float = 15.0
    ) -> None:
        if not 1 <= window <= MOST_WINDOW:
            raise ValueError(f"window must be from 1 to {MOST_WINDOW}, not {window}")
        self.reconnects = 0
        self._client = client
        self._frames = frames(packed)
        self._heartbeat = heartbeat
        self._room = asyncio.Semaphore(window)
        self._sending = asyncio.Lock()
        """Held by who sends: none overtakes another that waits for room or for the connection."""
        self._under_way: dict[int, _Under] = {}
        self._last = 0
        self._connection: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._ever = False
        self._closed = False
        self._node = ""
        self._tried: set[str] = set()
        """Nodes whose connection was lost, until there is another one."""

    async def aclose(self) -> None:
        """Close the connection. Requests under way fail with Unreachable: whether they were applied is not known."""
        self._closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
        connection, self._connection = self._connection, None
        self._fail(Unreachable("this socket has been closed"))
        if connection is not None:
            await connection.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request as soon as there is room, and return the body of its answer.

        A write without an Idempotency-Key gets one. Raises ProblemError when it is refused, and ValueError for what is
        not JSON.
        """
        content = None if body is None else dumps(body)
        return await self._send(method, path, content, dict(headers or {}), method.upper() not in READS)

    async def send(self, call: Call[T], idempotency_key: str | None = None) -> T:
        """Send a call of one of the client's modules, as `AsyncRankcast` sends it over HTTP."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        path = f"{call.path}?{urlencode(call.params)}" if call.params else call.path
        return call.read(await self._send(call.method, path, _json_of(call), headers, call.write))

    async def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str], write: bool) -> Any:
        self._client.nodes.check_path(path)
        if write and not any(name.lower() == "idempotency-key" for name in headers):
            headers["Idempotency-Key"] = uuid.uuid4().hex
        named = {"headers": headers} if headers else {}
        failures = 0
        while True:
            async with self._sending:
                ref, under = await self._begin({"method": method, "path": path, **named}, body)
            try:
                status, answer = await under.answer
            finally:
                del self._under_way[ref]
                self._room.release()
            if status < 400:
                return answer.get("body")
            problem = ProblemError.from_json(answer.get("body") or {}, status)
            problem.retry_after = _seconds(answer)
            in_progress = (under.again or failures) and status == 409 and problem.slug == "in-progress"
            failures += 1
            if not (status in BUSY or status == 429 or in_progress) or failures >= self._client.retry.attempts:
                raise problem
            await asyncio.sleep(self._client.retry.pause(failures, problem.retry_after))

    async def _begin(self, request: Mapping[str, Any], body: bytes | None) -> tuple[int, _Under]:
        """Send a request once there is room, and a connection. Raises as `_connected`."""
        await self._room.acquire()
        self._last += 1
        ref = self._last
        try:
            under = _Under(self._frames.request({"op": "request", "ref": ref, **request}, body))
            if self._connection is None:
                await self._connected()
            self._under_way[ref] = under
            if self._connection is not None:
                await self._catch_up(self._connection, under)
        except BaseException:
            self._under_way.pop(ref, None)
            self._room.release()
            raise
        return ref, under

    async def _connected(self) -> None:
        """Make the connection where there is none, and send again what is not answered."""
        async with self._connecting:
            if self._connection is not None:
                return
            connection, self._node = await connect_again(
                self._client, RECONNECT, self._ever, lambda: self._closed, self._tried, leads=True
            )
            self.reconnects += self._ever
            self._ever = True
            for under in tuple(self._under_way.values()):
                under.again = True
                await self._catch_up(connection, under)
            self._connection = connection
            if self._reader is None:
                self._reader = asyncio.create_task(self._read())

    @staticmethod
    async def _catch_up(connection: ClientConnection, under: _Under) -> None:
        """Send a request over a connection, unless it was sent there. One that breaks is noticed by the reader, and all
        that is not answered is sent over the next one."""
        if under.sent_on is not connection:
            under.sent_on = connection
            await _say(connection, under.frame)

    async def _read(self) -> None:
        """Take answers, and connect again as long as any are to come."""
        silent = 0
        while not self._closed:
            connection = self._connection
            if connection is None:
                if not self._under_way:
                    self._reader = None
                    return
                try:
                    await self._connected()
                except RankcastError as error:
                    self._fail(error)
                    self._reader = None
                    return
                continue
            try:
                async with asyncio.timeout(self._heartbeat):
                    frame = await connection.recv()
            except TimeoutError:
                silent += 1
                if silent < 3:
                    await _say(connection, self._frames.dump({"op": "ping"}))
                else:
                    silent = 0
                    self._drop(connection)
                continue
            except ConnectionClosed as closed:
                silent = 0
                self._drop(connection)
                self._refuse_largest(closed)
                if self._under_way and not self._closed:
                    await asyncio.sleep(RECONNECT.pause(1))
                continue
            silent = 0
            self._take(load(frame))

    def _take(self, answer: Mapping[str, Any]) -> None:
        under = self._under_way.get(answer.get("ref", 0))
        if under is None or under.answer.done():
            return
        if answer["event"] == "response":
            under.answer.set_result((int(answer["status"]), answer))
        elif answer["event"] == "error":
            under.answer.set_exception(ProblemError.from_json(answer["problem"]))

    def _drop(self, connection: ClientConnection) -> None:
        if self._connection is connection:
            self._connection = None
            self._tried.add(self._node)
            self._client.nodes.lost(self._node)
        connection.transport.abort()

    def _refuse_largest(self, closed: ConnectionClosed) -> None:
        """Fail the request for which the service closed the connection, if that was its reason: it is too large."""
        waiting = [under for under in self._under_way.values() if not under.answer.done()]
        if closed.rcvd is None or closed.rcvd.code != TOO_BIG or not waiting:
            return
        largest = max(waiting, key=lambda under: len(under.frame))
        detail = closed.rcvd.reason or "the frame is larger than the service takes"
        largest.answer.set_exception(ProblemError(413, "/problems/too-large", "The request is too large", detail))

    def _fail(self, error: RankcastError) -> None:
        for under in self._under_way.values():
            if not under.answer.done():
                under.answer.set_exception(error)


async def _say(connection: ClientConnection, frame: Frame) -> None:
    try:
        await connection.send(frame)
    except ConnectionClosed:
        # The reader notices as well, and sends all that is not answered again.
        return


def _seconds(answer: Mapping[str, Any]) -> float | None:
    text = (answer.get("headers") or {}).get("Retry-After")
    return float(text) if text and text.isdigit() else None


def _json_of(call: Call[Any]) -> bytes | None:
    """The body of a call as JSON; the elements of NDJSON become the list that the end of the path names."""
    if call.content is None or call.content_type == "application/json":
        return call.content
    if call.content_type == "application/x-ndjson":
        name = call.path.rpartition("/")[2]
        return b'{"%b":[%b]}' % (name.encode(), call.content.replace(b"\n", b","))
    raise ValueError(f"{call.content_type} is not for a socket")
