"""Many live subscriptions on one WebSocket: `subscribe`, `unsubscribe`, `move`, `ping` and `auth`, and what comes back.

What is refused is answered by an `error` with the problem, and the socket stays open. One task sends, one receives: a
peer that does not read is waited for before more of its operations are taken.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from app.delivery.feed import Message, socket_text
from app.delivery.hub import Hub
from app.delivery.moves import Carry, Moves
from app.delivery.readers import POLICY, Outbox, Reader
from app.problems import FieldError, Problem, invalid, many, not_found
from app.security import ANONYMOUS, Keyring

LARGEST_MESSAGE = 1 << 12
MOST_ANSWERS = 256
MOST_BEGUN = 4 << 20
SECONDS_TO_AUTHENTICATE = 30.0
MOVING = "maps/"
"""How the names of resources begin whose subscribers have a place."""

_NEEDED = {
    "subscribe": ("resource", "id"),
    "unsubscribe": ("resource", "id"),
    "move": ("resource", "id", "location"),
    "ping": (),
    "auth": ("key",),
}
_OPTIONAL = {"subscribe": ("form", "after", "old", "ready", "squash")}
_SWITCH = (bool,), "must be true or false"
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "old": _SWITCH,
    "ready": _SWITCH,
    "squash": ((int, float), "must be a number"),
    "location": ((list,), "must be a list"),
}
"""What the fields have to be that are no strings."""


class StreamSocket:
    """The ASGI application behind `/v1/stream`. `hub` is asked for when a socket comes, since it may start later;
    `carry` takes the moves of clients of maps."""

    def __init__(self, hub: Callable[[], Hub], keyring: Keyring, carry: Carry) -> None:
        self._hub = hub
        self._keyring = keyring
        self._carry = carry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._hub()
        socket = _Socket(hub, self._keyring, self._carry, receive, send)
        await receive()
        try:
            socket.admit(HTTPConnection(scope).headers.get("authorization"))
            hub.join(socket)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        try:
            await send({"type": "websocket.accept"})
            await socket.run()
        finally:
            hub.part(socket)


class _Entry(Reader):
    """A stream of a socket, by the resource and the id that its peer calls it."""

    __slots__ = ("key",)

    def __init__(self, outbox: Outbox, key: tuple[str, str], unready: bool, squash: float | None) -> None:
        super().__init__(outbox, f'{{"resource":{json.dumps(key[0])},"id":{json.dumps(key[1])},', unready, squash)
        self.key = key

    def begin(self, items: Iterable[Message]) -> None:
        items = list(items)
        assert isinstance(self.outbox, _Socket)
        self.outbox.begun += sum(len(item.block) for item in items)
        super().begin(items)


class _Socket(Outbox):
    """A connection with any number of streams. `key_id` is None until the peer has said its key."""

    transport = "websocket"

    def __init__(self, hub: Hub, keyring: Keyring, carry: Carry, receive: Receive, send: Send) -> None:
        super().__init__(hub, hub.limits.stream_queue)
        self._keyring = keyring
        self._receive = receive
        self._send = send
        self._key_id: str | None = None
        self._open: dict[tuple[str, str], Reader] = {}
        self._answers = Reader(self)
        self._emptied = asyncio.Event()
        self._moves = Moves(carry, self._answer, self._refuse)
        self.begun = 0
        """Bytes that streams began with since the queue was empty."""

    def readers(self) -> Iterable[Reader]:
        return self._open.values()

    async def send_queue(self) -> None:
        while (entry := self.take()) is not None:
            reader, item = entry
            text = item.block.decode() if reader is self._answers else socket_text(reader.prefix, item)
            await self._send({"type": "websocket.send", "text": text})
        self.begun = 0
        self._emptied.set()

    async def send_heartbeat(self) -> None:
        beat = {"event": "heartbeat", "cursors": self.hub.cursors(self.readers())}
        await self._send({"type": "websocket.send", "text": _compact(beat)})

    async def send_end(self, code: int) -> None:
        await self._send({"type": "websocket.close", "code": code})

    def on_finish(self, reader: Reader) -> None:
        if isinstance(reader, _Entry) and self._open.get(reader.key) is reader:
            del self._open[reader.key]

    # --- what the peer says -----------------------------------------------------------------------------------------

    def admit(self, authorization: str | None) -> None:
        """Take the key of the handshake, if it has one. Raises the problem 401 when nobody knows it."""
        if self._keyring.open:
            self._take_key(ANONYMOUS)
        elif authorization is not None:
            scheme, _, secret = authorization.partition(" ")
            self._identify(secret.strip() if scheme.lower() == "bearer" else "")

    def _identify(self, secret: str) -> None:
        key = self._keyring.identify(secret)
        if key is None:
            raise Problem("unauthorized", "the key is not known", headers={"WWW-Authenticate": "Bearer"})
        self._take_key(key.id)

    def _take_key(self, key_id: str) -> None:
        self._key_id = key_id
        self.keys.add(key_id)

    async def listen(self) -> None:
        patience = None
        if self._key_id is None:
            patience = asyncio.get_running_loop().call_later(SECONDS_TO_AUTHENTICATE, self._end_unless_known)
        try:
            while (received := await self._receive())["type"] != "websocket.disconnect":
                await self._take(received.get("text"))
                while self._answers.waiting >= MOST_ANSWERS or (self.begun > MOST_BEGUN and self.queue):
                    self._emptied.clear()
                    await self._emptied.wait()
        finally:
            self._moves.stop()
            if patience is not None:
                patience.cancel()

    def _end_unless_known(self) -> None:
        if self._key_id is None:
            self.end(POLICY)

    async def _take(self, text: str | None) -> None:
        operation: dict[str, Any] = {}
        try:
            operation = _parse(text)
            match operation["op"]:
                case "subscribe":
                    await self._subscribe(operation)
                case "unsubscribe":
                    self._unsubscribe(operation["resource"], operation["id"])
                case "move":
                    await self._move(operation)
                case "ping":
                    self._answer({"event": "pong"})
                case "auth":
                    self._authenticate(operation["key"])
        except _Bad as bad:
            self._refuse(bad.operation, bad.problem)
        except Problem as problem:
            self._refuse(operation, problem)

    async def _subscribe(self, operation: dict[str, Any]) -> None:
        resource, id = key = operation["resource"], operation["id"]
        key_id = self._known()
        source, _ = self.hub.source(resource)
        squash = operation.get("squash")
        form = source.form(operation.get("form", "changes"), operation.get("old", False), squash)
        self._check_scope(key_id, source.scope)
        entry = _Entry(self, key, operation.get("ready", False), squash)
        await self.hub.open(entry, resource, id, form, operation.get("after"), self._open.get(key))
        if entry.feed is not None:
            self._open[key] = entry

    async def _move(self, operation: dict[str, Any]) -> None:
        key_id = self._known()
        if not operation["resource"].startswith(MOVING):
            raise invalid("resource", "must be a map: the clients of its queries move")
        self._check_scope(key_id, f"{MOVING[:-1]}:write")
        await self._moves.add(operation)

    def _known(self) -> str:
        """The key's id. Raises the problem 401 where none was said."""
        if self._key_id is None:
            raise Problem("unauthorized", 'send {"op": "auth", "key": ...} first')
        return self._key_id

    def _check_scope(self, key_id: str, scope: str) -> None:
        if not self._keyring.allows(key_id, scope):
            raise Problem("forbidden", f"the key does not have the scope {scope}")

    def _unsubscribe(self, resource: str, id: str) -> None:
        reader = self._open.pop((resource, id), None)
        if reader is None:
            raise not_found("id", "this socket does not follow it")
        self.hub.leave(reader)
        self._answer({"resource": resource, "id": id, "event": "unsubscribed"})

    def _authenticate(self, secret: str) -> None:
        if not self._keyring.open:
            self._identify(secret)
        self._answer({"event": "authenticated"})

    def _refuse(self, operation: dict[str, Any], problem: Problem) -> None:
        named = {field: value for field in ("resource", "id") if isinstance(value := operation.get(field), str)}
        if operation.get("op") == "move":
            # The query may be followed on this socket too: its stream goes on.
            named["op"] = "move"
        self._answer({"event": "error", "resource": None, "id": None, **named, "problem": problem.document()})

    def _answer(self, document: dict[str, Any]) -> None:
        self._answers.begin([Message(-1, "answer", _compact(document).encode())])


class _Bad(Exception):
    """An operation that cannot be carried out as it stands, with as much of it as could be read."""

    def __init__(self, problem: Problem, operation: dict[str, Any] | None = None) -> None:
        self.problem = problem
        self.operation = operation or {}


def _parse(text: str | None) -> dict[str, Any]:
    """An operation whose fields are there and are what they have to be. Raises `_Bad`."""
    if text is None:
        raise _Bad(Problem("malformed", "operations are text, not binary"))
    if len(text) > LARGEST_MESSAGE:
        raise _Bad(Problem("too-large", f"an operation has at most {LARGEST_MESSAGE} characters"))
    try:
        read = json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        raise _Bad(Problem("malformed", "the message is not JSON")) from None
    if not isinstance(read, dict):
        raise _Bad(invalid("op", "an operation is an object"))
    optional = _OPTIONAL["subscribe"]
    operation = {field: value for field, value in read.items() if value is not None or field not in optional}
    op = operation.get("op")
    if not isinstance(op, str) or op not in _NEEDED:
        raise _Bad(invalid("op", f"must be one of {', '.join(_NEEDED)}"), operation)
    known = ("op", *_NEEDED[op], *_OPTIONAL.get(op, ()))
    errors = [FieldError(field, "is required") for field in _NEEDED[op] if field not in operation]
    for field, value in operation.items():
        if field not in known:
            errors.append(FieldError(field[:80], "is not a known field"))
        else:
            kinds, reason = _KINDS.get(field, ((str,), "must be a string"))
            if type(value) not in kinds:
                errors.append(FieldError(field, reason))
    if errors:
        raise _Bad(many(errors), operation)
    return operation


def _no_json(literal: str) -> None:
    """NaN and Infinity, which Python would read."""
    raise ValueError(literal)


def _compact(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
