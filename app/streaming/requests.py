"""The requests that a client pipelines over one WebSocket; each is carried out as one over HTTP is.

Writes to one resource are carried out in the order of their frames (`app.runtime.write_order`); answers are sent in any
order, as soon as they are ready. The number of requests under way is bounded, and long answers are made one at a time,
each after the peer has taken the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from app.errors import Internal, ServiceError, TooMany
from app.runtime import logs
from app.runtime.write_order import WriteOrder
from app.security.callers import Caller
from app.streaming.frames import Content, encode_json, pack, pack_json
from app.streaming.operations import SocketRequest

log = logs.get("requests")

MOST_UNDER_WAY = 256
"""Requests of one socket that may wait for their answers."""

FEWEST, MOST = 9, 128
"""The least requests of a burst, and the most frames that are examined for one."""

INLINE = 1 << 18
"""Bytes up to which an answer becomes MessagePack on the event loop."""


class Answered(NamedTuple):
    """The answer to a request: its body as JSON text, and the headers that a client needs.

    A streamed one has no body yet: `rest` collects it, and returns the whole answer.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] | None = None
    rest: Callable[[], Awaitable[Answered]] | None = None


class Peer(Protocol):
    """What carrying out a request needs of its socket."""

    write_order: WriteOrder
    secret: str | None
    """The key or token of the peer, where it has sent one."""

    async def leave(self) -> None:
        """Return when the peer has gone."""

    def answer_grouped(
        self, request: SocketRequest, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer a request of a group. All such answers of a turn of the event loop are sent in one piece."""

    def answer_burst(self, refs: Sequence[int], answers: Sequence[tuple[int, bytes]]) -> None:
        """Answer a burst by the status and body of each, as `answer_grouped`."""

    async def carry_out(self, request: SocketRequest, work: Coroutine[Any, Any, Answered]) -> None:
        """Carry out and answer a request of a group that takes the slow path."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of a group."""


class Api(Protocol):
    """What carries out the requests of all sockets. `largest_frame` is how many bytes one may have."""

    largest_frame: int

    def begin(self, request: SocketRequest, caller: Caller, peer: Peer) -> Coroutine[Any, Any, Answered] | None:
        """Add a request to a group, which will answer it, and return None; or return a coroutine that carries it out.

        A write has its place in the peer's write order when this returns. Refusals are answers: the coroutine raises
        only on bugs.
        """

    def begin_burst(self, frames: Sequence[str], caller: Caller, peer: Peer) -> int:
        """Add the longest prefix of the requests that is a burst to a group, which answers it; returns its length."""


class Requests:
    """The requests of one socket that are under way.

    `answer` sends answers and `refusal` makes one of an error; `drained` waits until the peer has read all before.
    """

    def __init__(
        self,
        api: Api,
        answer: Callable[[Sequence[Content]], None],
        refusal: Callable[[ServiceError], Answered],
        drained: Callable[[], Awaitable[None]],
    ) -> None:
        self.write_order = WriteOrder()
        self.secret: str | None = None
        self._api = api
        self._answer = answer
        self._refusal = refusal
        self._drained = drained
        self._tasks: set[asyncio.Task[None]] = set()
        self._groups: set[asyncio.Task[None]] = set()
        self._grouped = 0
        """Requests in groups that are not answered."""
        self._none_grouped = asyncio.Event()
        self._to_send: list[Content] = []
        self._one_long = asyncio.Lock()
        self._left = asyncio.Event()

    def add(self, request: SocketRequest, caller: Caller) -> None:
        """Begin to carry out a request, or refuse it where too many are under way."""
        if len(self._tasks) + self._grouped >= MOST_UNDER_WAY:
            self.refuse(request, TooMany(f"{MOST_UNDER_WAY} requests of this socket wait for their answers"))
            return
        work = self._api.begin(request, caller, self)
        if work is None:
            self._grouped += 1
        else:
            self._start(self._tasks, self._run(request, work))

    def add_burst(self, frames: Sequence[str], caller: Caller) -> int:
        """Begin to carry out the longest prefix of the requests that is a burst; returns its length."""
        room = MOST_UNDER_WAY - len(self._tasks) - self._grouped
        if room < len(frames):
            frames = frames[: max(0, room)]
        if len(frames) < FEWEST:
            return 0
        taken = self._api.begin_burst(frames, caller, self)
        self._grouped += taken
        return taken

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of a group."""
        self._start(self._groups, work)

    def _start(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def answer_grouped(
        self, request: SocketRequest, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer a request of a group. All such answers of a turn of the event loop are sent in one piece."""
        self._send_soon([_frame(request, status, body, headers)])

    def answer_burst(self, refs: Sequence[int], answers: Sequence[tuple[int, bytes]]) -> None:
        """Answer a burst by the status and body of each, as `answer_grouped`."""
        self._send_soon([_answer(ref, status, body) for ref, (status, body) in zip(refs, answers, strict=True)])

    def _send_soon(self, answers: list[Content]) -> None:
        """Send answers of groups at the end of this turn of the event loop."""
        if not self._to_send:
            asyncio.get_running_loop().call_soon(self._send_grouped)
        self._to_send += answers
        self._end_grouped(len(answers))

    def _send_grouped(self) -> None:
        answers, self._to_send = self._to_send, []
        if answers:
            self._answer(answers)

    def _end_grouped(self, count: int = 1) -> None:
        self._grouped -= count
        if not self._grouped:
            self._none_grouped.set()

    async def carry_out(self, request: SocketRequest, work: Coroutine[Any, Any, Answered]) -> None:
        """Carry out and answer a request of a group that takes the slow path."""
        try:
            await self._run(request, work)
        finally:
            self._end_grouped()

    def refuse(self, request: SocketRequest, error: ServiceError) -> None:
        """Answer a request that is not carried out."""
        self._send(request, self._refusal(error))

    def lose(self) -> None:
        """The peer has gone: reads are given up, writes go on."""
        self._left.set()

    async def leave(self) -> None:
        """Return when the peer has gone."""
        await self._left.wait()

    async def finish(self, seconds: float) -> None:
        """Wait for the requests under way, for at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks or self._grouped:
                    if self._tasks:
                        await asyncio.wait(self._tasks)
                    else:
                        self._none_grouped.clear()
                        await self._none_grouped.wait()
        self._send_grouped()

    async def _run(self, request: SocketRequest, work: Coroutine[Any, Any, Answered]) -> None:
        try:
            status, body, headers, rest = answered = await work
            if rest is None:
                if request.packed and len(body) > INLINE:
                    self._answer([await asyncio.to_thread(_frame, request, status, body, headers)])
                else:
                    self._send(request, answered)
                return
            async with self._one_long:
                await self._drained()
                status, body, headers, _ = await rest()
                self._answer([await asyncio.to_thread(_frame, request, status, body, headers)])
        except Exception:
            log.exception("a request over a socket failed")
            self.refuse(request, Internal("the request failed; the service's log says why"))

    def _send(self, request: SocketRequest, answered: Answered) -> None:
        status, body, headers, _ = answered
        self._answer([_frame(request, status, body, headers)])


def _frame(request: SocketRequest, status: int, body: bytes, headers: Mapping[str, str] | None) -> Content:
    """An answer as a frame of the kind in which its request came."""
    ref = request.ref
    if request.packed:
        # A map whose last value is packed apart.
        found = {"event": "response", "ref": ref, "status": status}
        packed = pack({**found, **({"headers": dict(headers)} if headers else {}), "body": None})
        return packed[:-1] + pack_json(body or b"null")
    # The body is inserted unparsed.
    if type(ref) is int and not headers:
        return _answer(ref, status, body)
    more = f',"headers":{encode_json(dict(headers))}' if headers else ""
    begin = f'{{"event":"response","ref":{encode_json(ref)},"status":{status}{more},"body":'
    return begin.encode(), body or b"null", b"}"


def _answer(ref: int, status: int, body: bytes) -> Content:
    """An answer with an integer `ref` and no headers, as a text frame: most are."""
    return b'{"event":"response","ref":%d,"status":%d,"body":' % (ref, status), body or b"null", b"}"
