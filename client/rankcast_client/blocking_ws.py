"""Requests over one WebSocket for the blocking client, by an event loop in a thread. Needs `rankcast-client[ws]`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from rankcast_client import ws
from rankcast_client.calls import Call
from rankcast_client.client import AsyncRankcast
from rankcast_client.models import Event, Messages, Mode, OnError, Published
from rankcast_client.nodes import Nodes
from rankcast_client.pipeline import WINDOW
from rankcast_client.transport import Retry

T = TypeVar("T")


class Connection(Protocol):
    """What a socket needs of the client that it is of."""

    nodes: Nodes
    key: str | None
    retry: Retry


class Socket:
    """`with client.socket() as socket`: many requests at a time on one WebSocket. Threads may share it.

        with client.socket() as socket:
            socket.request("GET", "/v1/boards/delays")
            waiting = [socket.begin("PUT", f"/v1/boards/delays/objects/{id}", body) for id, body in changes]
            answers = [one.result() for one in waiting]

    As `rankcast_client.ws.Socket`, without subscriptions, for which the blocking client has streams.
    """

    def __init__(
        self, client: Connection, *, heartbeat: float = 15.0, window: int = WINDOW, packed: bool = False
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rankcast-socket", daemon=True)
        self._thread.start()

        async def make() -> tuple[AsyncRankcast, ws.Socket]:
            inner = AsyncRankcast(client.nodes.urls, client.key, retry=client.retry)
            return inner, ws.Socket(inner, heartbeat=heartbeat, window=window, packed=packed)

        try:
            self._client, self._socket = self._run(make())
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and end the thread. Requests under way fail with Unreachable. Idempotent."""
        if self._loop.is_closed():
            return

        async def close() -> None:
            await self._socket.aclose()
            await self._client.aclose()

        try:
            self._run(close())
        finally:
            self._end()

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request of the API, and return the body of its answer. Raises ProblemError when it is refused."""
        return self._run(self._socket.request(method, path, body, headers))

    def begin(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Future[Any]:
        """Send a request as soon as there is room in the window; its answer comes in the future.

        Writes to one resource are applied in the order in which they were begun.
        """
        return self._begin(self._socket.request(method, path, body, headers))

    def send(self, call: Call[T], idempotency_key: str | None = None) -> T:
        """Send a request as the handles make them."""
        return self._run(self._socket.send(call, idempotency_key))

    def publish(
        self,
        board: str,
        events: Iterable[Event],
        *,
        mode: Mode = "each",
        messages: Messages = "count",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Apply events to a board, in order, as `Board.publish_many` does."""
        options: dict[str, Any] = {"mode": mode, "messages": messages, "on_error": on_error}
        return self._run(self._socket.publish(board, events, **options, idempotency_key=idempotency_key))

    def begin_publish(
        self,
        board: str,
        events: Iterable[Event],
        *,
        mode: Mode = "each",
        messages: Messages = "count",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Future[Published]:
        """As `publish`, without waiting for the answer, which comes in the future."""
        options: dict[str, Any] = {"mode": mode, "messages": messages, "on_error": on_error}
        return self._begin(self._socket.publish(board, events, **options, idempotency_key=idempotency_key))

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._begin(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
