"""Many live subscriptions on one WebSocket: the operations `subscribe`, `unsubscribe`, `move`, `ping` and `auth`, and
requests of the API.

Text frames are answered by JSON, binary ones by MessagePack. A refused operation is answered by an `error` with the
problem, and the socket stays open. One task sends and one receives; for back-pressure, no operation is taken from a
peer that does not read its answers.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import Any, Protocol

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import FieldError, Forbidden, Invalid, NotFound, ServiceError, TooMany, Unauthorized
from app.security.callers import NOBODY_ASKED, Caller
from app.security.keyring import Keyring, bearer_of
from app.security.scopes import Need
from app.security.tickets import Ticket, Tickets
from app.security.tokens import UnknownSigningKey
from app.streaming.buffer import Bundle, Message
from app.streaming.connection import POLICY, Connection, Reader
from app.streaming.frames import BINARY as BINARY_FRAME
from app.streaming.frames import TEXT as TEXT_FRAME
from app.streaming.frames import TEXT_HEADS, Content, head_of, pack, pack_json
from app.streaming.hub import Hub
from app.streaming.moves import Carry, Moves
from app.streaming.operations import LONG, REQUEST, Bad, Operation, SocketRequest, read_operation
from app.streaming.outlet import WAITS, Outlet
from app.streaming.requests import FEWEST, MOST, Answered, Api, Requests

MOST_ANSWERS = 256
MOST_ANSWER_BYTES = 4 << 20
"""Answers in the queue, and their bytes, above which nothing is taken from a peer."""

MOST_BEGUN = 4 << 20
SECONDS_TO_AUTHENTICATE = 10.0
MOST_WRONG_KEYS = 3
PATIENCE = 5.0
"""Seconds that an ending socket waits for the answers to its requests."""

WITH_TICKET = frozenset({"subscribe", "unsubscribe", "ping"})
"""Operations of a socket that was opened by a ticket."""

MOVING = "maps/"
"""The prefix of resources with moving subscribers."""

LARGEST, READ, WRITE, FRAMES = "rankcast.largest", "rankcast.read", "rankcast.write", "rankcast.frames"
"""Extensions of a socket's scope. LARGEST sets the most bytes of a message. READ returns the messages that have
arrived, without waiting, in the form of `receive`. WRITE sends messages in one piece; false, with nothing sent, if they
would have to wait. FRAMES is an outlet that takes frames."""

AT_ONCE = 1 << 16
"""Most bytes of messages in one write: no more is written ahead to a slow peer."""

TEXT, PACKED = "text", "packed"
"""The events of answers in the queue: the kind of their frames."""


class Refusal(Protocol):
    """A refusal as the API shows it."""

    status_code: int
    headers: Mapping[str, str] | None

    def document(self) -> dict[str, Any]:
        """As a member of a message."""

    def response(self) -> ASGIApp:
        """As the response to a handshake."""


class StreamSocket:
    """The ASGI application behind `/v1/stream`.

    `carry` applies the moves of clients of maps, `api` carries out requests; `refusal_of` translates an error for
    the peer.
    """

    def __init__(
        self,
        hub: Hub,
        keyring: Keyring,
        tickets: Tickets,
        carry: Carry,
        api: Api,
        refusal_of: Callable[[Exception], Refusal],
    ) -> None:
        self._hub = hub
        self._keyring = keyring
        self._tickets = tickets
        self._carry = carry
        self._api = api
        self._refusal_of = refusal_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._hub
        socket = Socket(hub, self._keyring, self._refusal_of, receive, send)
        extensions = scope.get("extensions") or {}
        socket.work_with(self._carry, self._api, extensions.get(LARGEST, _ignore))
        socket.exchange_by(extensions.get(READ, nothing_more), extensions.get(WRITE, not_now))
        socket.send_by(extensions.get(FRAMES, WAITS))
        await receive()
        try:
            handshake = HTTPConnection(scope)
            ticket = handshake.query_params.get("ticket")
            if ticket is not None:
                socket.admit_ticket(self._tickets.find(ticket))
            else:
                await socket.admit(handshake.headers.get("authorization"))
            socket.enter()
        except ServiceError as error:
            await self._refusal_of(error).response()(scope, receive, send)
            return
        await socket.carry()


class Entry(Reader):
    """A stream of a socket; `key` is its resource and the id of its subscription."""

    __slots__ = ("key",)

    def __init__(self, connection: Connection, operation: Operation) -> None:
        self.key = key = operation["resource"], operation["id"]
        wants_ready, squash = operation.get("ready", False), operation.get("squash")
        prefix = f'{{"resource":{json.dumps(key[0])},"id":{json.dumps(key[1])},'
        super().__init__(connection, prefix.encode(), wants_ready, squash)
        self.packed = operation.packed


class Socket(Connection):
    """A connection with any number of streams. It has no caller until the peer has sent its key."""

    hub: Hub
    transport = "websocket"
    bundles = True

    def __init__(
        self,
        hub: Hub,
        keyring: Keyring,
        refusal_of: Callable[[Exception], Refusal],
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(hub, hub.limits.stream_queue, hub.limits.stream_bytes)
        self._keyring = keyring
        self._refusal_of = refusal_of
        self._receive = receive
        self._send = send
        self._caller: Caller | None = None
        self._ticket: Ticket | None = None
        self._wrong_keys = 0
        self._open: dict[tuple[str, str], Entry] = {}
        self._answers = Reader(self)
        self._emptied = asyncio.Event()
        self._packs = False
        """Whether the last frame of the peer was binary."""

    def work_with(self, carry: Carry, api: Api, allow: Callable[[int], None]) -> None:
        """Set what applies moves (`carry`) and carries out requests (`api`), and what `allow`s larger messages."""
        self._moves = Moves(carry, self._answer, self._refuse)
        self._requests = Requests(api, self._queue_answers, self._refused, self._drained)
        self._allow_requests: Callable[[], None] = partial(allow, api.largest_frame)

    def exchange_by(self, read: Callable[[], list[Any]], write: Callable[[Sequence[Content]], bool]) -> None:
        """Set the functions that receive and send messages without waiting: see READ and WRITE."""
        self._read_more = read
        self._write = write

    def send_by(self, outlet: Outlet) -> None:
        """Set the outlet for frames: see FRAMES."""
        self.outlet = outlet

    def readers(self) -> Iterable[Reader]:
        return self._open.values()

    async def send_queue(self) -> None:
        while some := self.take_some(AT_ONCE):
            if self.outlet.is_open():
                self.outlet.write(self._framed(some))
                continue
            for reader, item in some:
                for one, message in item.messages() if isinstance(item, Bundle) else ((reader, item),):
                    text, data = self._frame(one, message)
                    await self._send_frame(data.decode() if text else data)
        self._emptied.set()

    def send_now(self) -> None:
        if self.outlet.is_open():
            self.outlet.write(self._framed(self.take_some(AT_ONCE)))
            if not self.queue:
                self._emptied.set()

    def _framed(self, some: list[tuple[Reader, Message]]) -> bytes:
        """Messages in frames, in one piece."""
        answers, heads, many = self._answers, TEXT_HEADS, len(TEXT_HEADS)
        pieces: list[bytes] = []
        add = pieces.append
        for reader, item in some:
            if reader is answers:
                text, data = self._frame(reader, item)
                pieces += (head_of(TEXT_FRAME if text else BINARY_FRAME, len(data)), data)
                continue
            if isinstance(item, Bundle) and item.frames is not None:
                add(item.frames)
                continue
            for one, rest in item.pairs() if isinstance(item, Bundle) else ((reader, item.made_rest or item.rest),):
                head = one.prefix
                if one.packed:
                    data = pack_json(head + rest)
                    pieces += (head_of(BINARY_FRAME, len(data)), data)
                    continue
                size = len(head) + len(rest)
                add(heads[size] if size < many else head_of(TEXT_FRAME, size))
                add(head)
                add(rest)
        return b"".join(pieces)

    def _frame(self, reader: Reader, item: Message) -> tuple[bool, bytes]:
        """A message as it is sent, and whether it is text."""
        if reader is self._answers:
            return item.event == TEXT, item.block
        whole = reader.prefix + item.rest
        return (False, pack_json(whole)) if reader.packed else (True, whole)

    async def _send_frame(self, frame: str | bytes) -> None:
        kind = "text" if isinstance(frame, str) else "bytes"
        await self._send({"type": "websocket.send", kind: frame})

    async def send_heartbeat(self) -> None:
        for frame in self._beats():
            await self._send_frame(frame)

    def beat_now(self) -> None:
        if self.outlet.is_open():
            self.heartbeat_due = False
            for frame in self._beats():
                kind, data = (TEXT_FRAME, frame.encode()) if isinstance(frame, str) else (BINARY_FRAME, frame)
                self.outlet.write(head_of(kind, len(data)) + data)

    def _beats(self) -> Iterator[str | bytes]:
        """The heartbeat: the positions of all streams, in one frame for those in JSON and one for those packed."""
        kinds = {entry.packed for entry in self._open.values()} or {self._packs}
        for packed in sorted(kinds):
            readers = [entry for entry in self._open.values() if entry.packed == packed]
            beat = {"event": "heartbeat", "cursors": self.hub.cursors(readers)}
            yield pack(beat) if packed else _compact(beat)

    async def send_end(self, code: int) -> None:
        # Requests under way are answered first: their writes may have been applied.
        self._emptied.set()
        await self._requests.finish(PATIENCE)
        await self.send_queue()
        await self._send({"type": "websocket.close", "code": code})

    def on_finish(self, reader: Reader) -> None:
        if isinstance(reader, Entry) and self._open.get(reader.key) is reader:
            del self._open[reader.key]

    # --- operations -------------------------------------------------------------------------------------------------

    async def admit(self, authorization: str | None) -> None:
        """Identify the caller by the key of the handshake, if it has one. Raises `Unauthorized` for an unknown key."""
        if self._keyring.open:
            self._caller = NOBODY_ASKED
        elif authorization is not None:
            await self._identify(bearer_of(authorization))

    def admit_ticket(self, ticket: Ticket) -> None:
        """Restrict the socket to what a ticket opens. Raises `Unauthorized` if the ticket's caller is shut out."""
        self._keyring.check(ticket.caller)
        self._caller, self._ticket = ticket.caller, ticket

    def enter(self) -> None:
        """Add the socket to the hub's connections. Raises as `Connections.add`."""
        self.hub.connections.add(self, counts=self.known)
        self.bind()

    async def carry(self) -> None:
        """Accept the handshake, and carry streams until the connection ends."""
        try:
            await self._send({"type": "websocket.accept"})
            await self.run()
        finally:
            self.hub.connections.remove(self)
            await self.finish()

    def bind(self) -> None:
        """Let the socket end with its caller."""
        if self._caller is not None:
            self.hub.connections.bind(self, self._caller)
            if self._ticket is None:
                self._allow_requests()

    @property
    def known(self) -> bool:
        """Whether the peer has sent its key, or needs none."""
        return self._caller is not None

    async def _identify(self, secret: str) -> None:
        try:
            self._caller = self._keyring.identify(secret)
        except UnknownSigningKey:
            if self._keyring.tokens is not None:
                await self._keyring.tokens.refresh()
            self._caller = self._keyring.identify(secret)
        self._requests.secret = secret

    async def listen(self) -> None:
        patience = None
        if self._caller is None:
            patience = asyncio.get_running_loop().call_later(SECONDS_TO_AUTHENTICATE, self._end_unless_known)
        try:
            some: deque[Any] = deque()
            while True:
                if not some:
                    some.append(await self._receive())
                    some.extend(self._read_more())
                    await self._take_bursts(some)
                    continue
                received = some.popleft()
                if received["type"] == "websocket.disconnect":
                    break
                if self.ending is None:
                    text = received.get("text")
                    work = self._take(received["bytes"] if text is None else text)
                    if work is not None:
                        await work
                    while self.queue and self._full:
                        await self._drained()
        finally:
            self._moves.stop()
            self._requests.lose()
            if patience is not None:
                patience.cancel()

    async def _take_bursts(self, some: deque[Any]) -> None:
        """Begin bursts at the head of the messages, and remove these."""
        while len(some) >= FEWEST and self.ending is None and self._caller is not None and self._ticket is None:
            frames = list(takewhile(bool, (each.get("text") for each in islice(some, MOST))))
            taken = self._requests.add_burst(frames, self._caller)
            if not taken:
                return
            self._packs = False
            for _ in range(taken):
                some.popleft()
            while self.queue and self._full:
                await self._drained()

    @property
    def _full(self) -> bool:
        """Whether the queue is so long that nothing more is taken from the peer."""
        answers = self._answers
        return self.begun > MOST_BEGUN or answers.waiting >= MOST_ANSWERS or answers.nbytes > MOST_ANSWER_BYTES

    async def _drained(self) -> None:
        """Wait until the queue is empty."""
        while self.queue and not self.lost:
            self._emptied.clear()
            await self._emptied.wait()

    async def finish(self) -> None:
        """Wait up to `PATIENCE` for the requests under way, without sending their answers."""
        self.lost = True
        self._emptied.set()
        self._requests.lose()
        await self._requests.finish(PATIENCE)

    def _end_unless_known(self) -> None:
        if self._caller is None:
            self.end(POLICY)

    def _take(self, frame: str | bytes) -> Coroutine[Any, Any, None] | None:
        """Begin the operation of a frame; returns what has to be awaited before the next one, if anything."""
        self._packs = isinstance(frame, bytes)
        may_request = self._caller is not None and self._ticket is None
        if len(frame) > LONG and may_request:
            return self._take_long(frame)
        try:
            read = read_operation(frame, may_request)
        except Bad as bad:
            self._refuse(bad.operation, bad.error)
            return None
        if isinstance(read, SocketRequest):
            self._request(read)
            return None
        return self._operate(read)

    async def _take_long(self, frame: str | bytes) -> None:
        try:
            read = await asyncio.to_thread(read_operation, frame, True)
        except Bad as bad:
            self._refuse(bad.operation, bad.error)
            return
        if isinstance(read, SocketRequest):
            self._request(read)
        else:
            await self._operate(read)

    async def _operate(self, operation: Operation) -> None:
        try:
            if self._ticket is not None and operation["op"] not in WITH_TICKET:
                raise _with_ticket()
            match operation["op"]:
                case "subscribe":
                    await self._subscribe(operation)
                case "unsubscribe":
                    self._unsubscribe(operation)
                case "move":
                    await self._move(operation)
                case "ping":
                    self._answer(operation, {"event": "pong"})
                case "auth":
                    await self._authenticate(operation)
        except ServiceError as error:
            self._refuse(operation, error)

    def _request(self, request: SocketRequest) -> None:
        if self._ticket is not None:
            operation = Operation(op=REQUEST, ref=request.ref)
            operation.packed = request.packed
            self._refuse(operation, _with_ticket())
        elif self._caller is None:
            self._requests.refuse(request, _unknown())
        else:
            self._requests.add(request, self._caller)

    async def _subscribe(self, operation: Operation) -> None:
        resource, id = key = operation["resource"], operation["id"]
        self._require(resource, "read", id)
        source, _ = self.hub.source(resource)
        old, squash = operation.get("old", False), operation.get("squash")
        form = source.form(operation.get("form", "changes"), old, squash)
        entry = Entry(self, operation)
        await self.hub.open_stream(entry, resource, id, form, operation.get("after"), self._open.get(key))
        if entry.channel is not None:
            self._open[key] = entry

    async def _move(self, operation: Operation) -> None:
        self._known()
        if not operation["resource"].startswith(MOVING):
            raise Invalid(FieldError("resource", "must be a map: the clients of its queries move"))
        self._require(operation["resource"], "subscribe", operation["id"])
        await self._moves.add(operation)

    def _known(self) -> Caller:
        """The caller. Raises `Unauthorized` before the peer has sent its key."""
        if self._caller is None:
            raise _unknown()
        return self._caller

    def _require(self, resource: str, right: str, id: str) -> None:
        """Raise `Unauthorized` or `Forbidden` where the peer has no such right on a resource and a subscription."""
        caller = self._known()
        resources, _, name = resource.partition("/")
        self._keyring.require(caller, Need(resources, right, name))
        caller.require_id(id)
        if self._ticket is not None and not self._ticket.opens(resource, id):
            raise Forbidden("the ticket does not open this stream")

    def _unsubscribe(self, operation: Operation) -> None:
        resource, id = operation["resource"], operation["id"]
        reader = self._open.pop((resource, id), None)
        if reader is None:
            raise NotFound("id", "this socket does not follow it")
        self.hub.close_stream(reader)
        self._answer(operation, {"resource": resource, "id": id, "event": "unsubscribed"})

    async def _authenticated(self, key: str) -> None:
        """Take a key that the peer has sent. Raises `Unauthorized`."""
        if not self._keyring.open:
            await self._identify(key)
            self.bind()

    async def _authenticate(self, operation: Operation) -> None:
        try:
            await self._authenticated(operation["key"])
            self.hub.connections.count(self)
        except Unauthorized:
            self._wrong_keys += 1
            if self._wrong_keys >= MOST_WRONG_KEYS:
                self.end(POLICY)
            raise
        except TooMany:
            self.end(POLICY)
            raise
        self._answer(operation, {"event": "authenticated"})

    def _refuse(self, operation: Operation, error: Exception) -> None:
        said = {field: operation.get(field) for field in ("resource", "id")}
        named: dict[str, Any] = {field: value for field, value in said.items() if isinstance(value, str)}
        if operation.get("op") == "move":
            # The query may be followed on this socket too: its stream continues.
            named["op"] = "move"
        elif operation.get("op") == REQUEST:
            named = {"op": REQUEST, **({"ref": operation["ref"]} if "ref" in operation else {})}
        problem = self._refusal_of(error).document()
        self._answer(operation, {"event": "error", "resource": None, "id": None, **named, "problem": problem})

    def _answer(self, operation: Operation, document: dict[str, Any]) -> None:
        self._queue_answers([pack(document) if operation.packed else _compact(document)])

    def _queue_answers(self, frames: Sequence[Content]) -> None:
        """Send answers at once or queue them; drop them if the peer has gone."""
        if self.lost:
            return
        # While the task that empties the queue is idle, it need not be woken.
        if self.waiter is not None and not self.queue and self._write(frames):
            return
        self._answers.begin(map(_message, frames))

    def _refused(self, error: ServiceError) -> Answered:
        refusal = self._refusal_of(error)
        return Answered(refusal.status_code, _compact(refusal.document()).encode(), refusal.headers)


def _message(frame: Content) -> Message:
    """An answer as a message of the queue."""
    if isinstance(frame, bytes):
        return Message(-1, PACKED, frame)
    return Message(-1, TEXT, frame.encode() if isinstance(frame, str) else b"".join(frame))


def _ignore(most: int) -> None:
    """LARGEST of a server without a limit that can be changed."""


def nothing_more() -> list[Any]:
    """READ of a server that returns messages one by one only."""
    return []


def not_now(frames: Sequence[Any]) -> bool:
    """WRITE of a server that cannot send without waiting."""
    return False


def _unknown() -> Unauthorized:
    return Unauthorized('send {"op": "auth", "key": ...} first')


def _with_ticket() -> Forbidden:
    return Forbidden(f"a ticket opens streams alone: {', '.join(sorted(WITH_TICKET))}")


def _compact(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
