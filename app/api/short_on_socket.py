"""Short requests of a socket, one by one and as a burst: see `app.api.together.kind`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from pydantic_core import SchemaValidator
from starlette.responses import Response

from app.api.guard import ENDING
from app.api.problems import Problem
from app.api.together.kind import Answer, CheckedOnce, Outcome, Verb
from app.runtime.tracing import RequestTrace, Sampling
from app.runtime.write_order import WriteOrder
from app.security.callers import Caller
from app.streaming.bursts import Burst
from app.streaming.frames import encode_json
from app.streaming.operations import SocketRequest, read_operation
from app.streaming.requests import Answered, Peer
from app.write_path.idempotency import hash_request

Target: TypeAlias = tuple[Verb, str, str, str]
"""What the method and the path of a short request say: its verb, the name of the resource, the id in it or "", and the
query string."""

OWN = "websocket"
"""How the scope of a request says that it came over a socket."""

TRACED = ("traceparent", "tracestate")
"""Headers that change nothing but whether a request is traced."""


class SlowPath(Protocol):
    """Carries out requests of sockets that do not take the fast path, or have left it."""

    def target_of(self, method: str, target: str) -> Target | None:
        """The target of requests with this method and path; None if they cannot be short."""

    def body_of(self, request: SocketRequest) -> bytes:
        """The body of a request as JSON. Raises the problems 400 and 413."""

    def answered(self, request: SocketRequest, response: Response) -> Answered:
        """A response as an answer."""

    def respond(
        self,
        request: SocketRequest,
        caller: Caller,
        peer: Peer,
        ordered: bool = True,
        sampling: Sampling | None = None,
    ) -> Coroutine[Any, Any, Answered]:
        """Carry out a request; `ordered` after the writes before it on its socket."""


class _OnSocket:
    """What came on a socket for a group of its lane."""

    __slots__ = ()

    _peer: Peer

    def at_end_of_turn(self, fn: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(fn)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._peer.run(work)


class ShortOnSocket(_OnSocket, CheckedOnce):
    """A short request of a socket: see `app.api.together.kind.ShortRequest`."""

    __slots__ = (
        "_peer",
        "_raw",
        "_request",
        "_slow_path",
        "began",
        "caller",
        "id",
        "key",
        "name",
        "query",
        "sampling",
        "trace",
        "verb",
        "write_order",
    )

    host = authorization = b""

    def __init__(
        self, slow_path: SlowPath, request: SocketRequest, caller: Caller, peer: Peer, target: Target, key: str
    ) -> None:
        self.began = perf_counter()
        self._slow_path, self._request, self._peer, self._raw = slow_path, request, peer, b""
        self.verb, self.name, self.id, self.query = target
        self.key = key
        self.caller: Caller | None = caller
        self.write_order: WriteOrder | None = peer.write_order
        self.sampling: Sampling | None = None
        self.trace: RequestTrace | None = None
        self._checked = None

    def headers(self) -> Iterable[tuple[bytes, bytes]]:
        found = self._request.headers
        return [(name.encode(), found[name].encode()) for name in TRACED if name in found]

    def check_body(self, validator: SchemaValidator) -> Any:
        if not self._request.packed and not self.key:
            return validator.validate_python(self._request.body)
        # MessagePack has more than JSON, and the digest is that of the text.
        self._raw = encode_json(self._request.body).encode()
        return validator.validate_json(self._raw)

    def digest(self) -> bytes:
        path, _, query = self._request.path.partition("?")
        return hash_request(f"{OWN} {self.verb.method}", path, query, self._raw)

    def answer(self, status: int, body: bytes) -> None:
        self._peer.answer_grouped(self._request, status, body)

    def refuse(self, problem: Problem) -> None:
        try:
            self._slow_path.body_of(self._request)
        except Problem as error:
            # A number beyond the range of float64: only what is refused has one.
            problem = error
        self.fail(problem)

    def fail(self, problem: Problem) -> None:
        status, body, headers, _ = self._slow_path.answered(self._request, problem.response())
        self._peer.answer_grouped(self._request, status, body, headers)

    async def take_slow_path(self) -> None:
        """Have the routes carry it out, as part of its group's ordered write. Returns when it is answered."""
        # Routes may ask for the current task: from here on there is one.
        await asyncio.sleep(0)
        request, caller, peer = self._request, self.caller, self._peer
        assert caller is not None, "the socket has settled that"
        work = self._slow_path.respond(request, caller, peer, ordered=False, sampling=self.sampling)
        await peer.carry_out(request, work)


class BurstOnSocket(_OnSocket):
    """A burst of short requests of a socket: see `app.api.together.kind.ShortBurst`. Where they are not carried out and
    answered together, each becomes a request by itself."""

    __slots__ = (
        "_peer", "_slow_path", "began", "caller", "count", "name", "query", "requests", "verb",
        "write_order",
    )  # fmt: skip

    host = authorization = b""
    id = key = ""
    sampling: Sampling | None = None
    trace: RequestTrace | None = None

    def __init__(self, slow_path: SlowPath, burst: Burst, caller: Caller, peer: Peer, target: Target) -> None:
        self.began = perf_counter()
        self._slow_path, self._peer = slow_path, peer
        self.requests, self.count = burst, len(burst.refs)
        self.verb, self.name, _, self.query = target
        self.caller: Caller | None = caller
        self.write_order: WriteOrder | None = peer.write_order

    def keep(self, count: int) -> None:
        self.requests, self.count = self.requests.part(count), count

    def answer_each(self, outcomes: Sequence[Outcome]) -> None:
        answers = [one for one in outcomes if isinstance(one, Answer)]
        if len(answers) == self.count:
            self._peer.answer_burst(self.requests.refs, [(status, body) for status, body, _ in answers])
            return
        for short, outcome in zip(self._one_by_one(), outcomes, strict=True):
            if isinstance(outcome, Answer):
                short.answer(outcome.status, outcome.body)
            else:
                short.refuse(outcome)

    def fail(self, problem: Problem) -> None:
        # From the references alone: whatever has gone wrong, each is answered.
        for ref in self.requests.refs:
            request = SocketRequest(ref, self.verb.method, "", None, None, False, 0)
            status, body, headers, _ = self._slow_path.answered(request, problem.response())
            self._peer.answer_grouped(request, status, body, headers)

    async def take_slow_path(self) -> None:
        some = iter(self._one_by_one())
        try:
            for short in some:
                await short.take_slow_path()
        except asyncio.CancelledError:
            # As the lane answers those that are left of a group.
            for short in some:
                short.fail(Problem("not-ready", ENDING))
            raise

    def _one_by_one(self) -> Iterable[ShortOnSocket]:
        """The requests, each by itself."""
        for frame in self.requests.frames:
            request = read_operation(frame, may_request=True)
            assert isinstance(request, SocketRequest), "it was cut as one"
            target = self._slow_path.target_of(request.method, request.path)
            assert self.caller is not None and target is not None, "the socket, and the burst, have settled that"
            short = ShortOnSocket(self._slow_path, request, self.caller, self._peer, target, "")
            short.began = self.began
            yield short
