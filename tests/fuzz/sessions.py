"""Sessions: requests and socket messages to a service in this process, which are the input of several targets.

A session is lines of JSON, one a request (`method`, `target`, `headers`, and `text` or `base64` for its body) or a
message on the socket (`socket`). After it everything is verified, and a second service takes up its log.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import msgpack
import structlog
from starlette.types import Message, Scope

from app.main import create_app
from app.service import Service
from app.settings import Settings
from app.streaming.operations import Bad, SocketRequest, read_operation
from app.write_path.lifetimes import Expiry
from tests.fuzz.fuzzing import Fell, bounded, parts_left_out
from tests.fuzz.grammar import DEAD_LINK, KINDS

PATIENCE = 60.0
"""Seconds without an answer after which a request hangs; how much of the processor it may take is bounded by less."""

RETRY_LATER = ("not-ready", "busy", "queue-full")
"""What may be answered with 503 while the disk is good."""

CHANGES_BY_ITSELF = (
    "statistics",
    "zone",
    "candidates",
    "state",
    "reason",
    "streams",
    "live",
    "kept",
    "bytes",
    "service",
)
"""Fields that depend on time or on other processes, or that a restart may change: answers of standing queries of maps
are updated while the service runs and searched anew when it starts, with other zones and further candidates.
"""

BY_ITSELF = ("restart", "rederive")
"""Commands that a service gives itself."""

Request = dict[str, Any]


class Served:
    """A running service in this process, without tasks that change it by themselves."""

    def __init__(self, app: Any, service: Service) -> None:
        self.app = app
        self.service = service
        self.secrets: list[str] = []
        self.known: set[str] = set()

    async def send(self, request: Request, admin: str | None = None) -> tuple[int, dict[str, str], bytes]:
        """The answer to a request; what streams is left after its first piece. Raises what the application raises."""
        body = body_of(request)
        headers = [(b"host", b"127.0.0.1")]
        for name, value in request.get("headers", {}).items():
            for n, secret in enumerate(self.secrets):
                value = value.replace(f"{{key:{n}}}", secret)
            headers.append((name.lower().encode("latin-1"), value.encode("latin-1", "replace")))
        if admin is not None:
            headers.append((b"authorization", f"Bearer {admin}".encode()))
        if not any(name in (b"content-length", b"transfer-encoding") for name, _ in headers):
            headers.append((b"content-length", str(len(body)).encode()))
        path, _, query = request["target"].partition("?")
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request["method"],
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("utf-8", "replace"),
            "root_path": "",
            "query_string": query.encode("utf-8", "replace"),
            "headers": headers,
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
        }
        half = len(body) // 2 if any(name == b"transfer-encoding" for name, _ in headers) else 0
        coming = [{"type": "http.request", "body": body[half:], "more_body": False}]
        if half:
            coming.append({"type": "http.request", "body": body[:half], "more_body": True})
        left = asyncio.Event()
        start: Message = {}
        pieces: list[bytes] = []
        streams = False

        async def receive() -> Message:
            if coming:
                return coming.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def answer(message: Message) -> None:
            nonlocal start, streams
            if message["type"] == "http.response.start":
                if start:
                    raise Fell("a request is answered twice")
                start = message
                streams = (b"content-type", b"text/event-stream; charset=utf-8") in message["headers"] or any(
                    value.startswith(b"text/event-stream") for name, value in message["headers"]
                )
                return
            pieces.append(bytes(message.get("body", b"")))
            if streams or not message.get("more_body", False):
                left.set()

        await asyncio.wait_for(self.app(scope, receive, answer), PATIENCE)
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        return start["status"], found, b"".join(pieces)

    async def get(self, target: str) -> Any:
        """What a GET by the administrator answers, parsed."""
        request = {"method": "GET", "target": target}
        status, _, body = await self.send(request, self.secrets[0] if self.secrets else None)
        if status != 200:
            raise Fell(f"GET {target.partition('?')[0]} of what is listed answers {status}")
        return json.loads(body)

    async def pages(self, target: str) -> list[Any]:
        """The items of all pages."""
        items: list[Any] = []
        cursor = ""
        while True:
            page = await self.get(f"{target}?limit=1000{cursor}")
            items += page["items"]
            if page["next"] is None:
                return items
            cursor = f"&cursor={page['next']}"

    async def state(self, lists: bool = False) -> dict[str, Any]:
        """All resources with all that is in them, as the API shows them; with `lists` each subscription whole."""
        found: dict[str, Any] = {}
        for kind in KINDS:
            for item in await self.pages(f"/v1/{kind}"):
                root = f"/v1/{kind}/{item['name']}"
                found[root] = lasting(await self.get(root))
                for part in PARTS[kind]:
                    items = found[f"{root}/{part}"] = lasting(await self.pages(f"{root}/{part}"))
                    if lists and part in ("subscriptions", "queries"):
                        for one in items:
                            found[f"{root}/{part}/{one['id']}"] = lasting(await self.get(f"{root}/{part}/{one['id']}"))
        return found

    async def quiet(self) -> None:
        """Return once no job is open."""
        for job in self.service.jobs.open():
            await job.wait()

    def position(self) -> tuple[int, ...]:
        """Where the log and the resources are: cheap, so that it is compared at every refusal."""
        engines = [
            entry.engine for _, entry in sorted(self.service.catalog.entries.items()) if entry.engine is not None
        ]
        return (self.service.stores.log.last_lsn, *(getattr(engine, "seq", 0) for engine in engines))


PARTS = {
    "boards": ("objects", "subscriptions"),
    "matchers": ("subscriptions",),
    "relays": ("subscriptions",),
    "maps": ("objects", "queries"),
    "feeds": ("posts", "subscriptions"),
}


def lasting(answer: Any) -> Any:
    """An answer without what may change by itself."""
    if isinstance(answer, dict):
        return {name: lasting(value) for name, value in answer.items() if name not in CHANGES_BY_ITSELF}
    return [lasting(one) for one in answer] if isinstance(answer, list) else answer


def body_of(request: Request) -> bytes:
    """The body of a request."""
    if "base64" in request:
        return base64.b64decode(request["base64"])
    return str(request.get("text", "")).encode("utf-8", "surrogatepass")


def with_body(request: Request, body: bytes) -> Request:
    """A request with this body, as text where it is text."""
    try:
        return {**request, "text": body.decode()}
    except UnicodeDecodeError:
        return {**request, "base64": base64.b64encode(body).decode()}


@asynccontextmanager
async def serve(data: Path) -> AsyncIterator[Served]:
    """A service on a data directory. Nothing in it expires, and no kernel is loaded before it is needed."""
    settings = Settings(
        data=data,
        link_hosts=(DEAD_LINK,),
        java_home=data / "none",
        snapshot_every_minutes=0,
        max_body=1 << 20,
        max_bulk=4 << 20,
        max_elements=2_000,
        max_answer=8 << 20,
        log_level="error",
    )
    with ExitStack() as stack:
        stack.enter_context(patch("app.runtime.kernels.compiles", lambda: False))
        stack.enter_context(patch("app.main.preload", lambda: None))
        stack.enter_context(patch("app.write_path.ticks.now", lambda: 1_800_000_000_000))
        stack.enter_context(patch("app.api.feeds.parsing.posts.now", lambda: 1_800_000_000_000))
        stack.enter_context(patch("app.service.Expiry", partial(Expiry, clock=lambda: 0.0)))
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            yield Served(app, app.state.wired.service)


def parse(data: bytes) -> list[Request]:
    """The requests of a session."""
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def written(requests: list[Request]) -> bytes:
    """The inverse of `parse`."""
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)


def left_out(data: bytes) -> Iterator[bytes]:
    """A session without some of its requests."""
    lines = [line for line in data.splitlines() if line.strip()]
    return (b"\n".join(lines) + b"\n" for lines in parts_left_out(lines))


class Totals:
    """What the sessions of this process came to."""

    def __init__(self) -> None:
        self.requests = 0
        self.refused = 0
        self.compared = 0
        self.slowest = 0.0


TOTALS = Totals()


def play(data: bytes, every: int = 16) -> int:
    """Play a session; each `every`-th refusal is compared with the whole state before it.

    Returns the number of requests. Raises `Fell`.
    """
    path = Path(tempfile.mkdtemp(prefix="fuzz-"))
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        return asyncio.run(_play(parse(data), path / "data", every))
    finally:
        shutil.rmtree(path, ignore_errors=True)
        # Each service froze what was there when it started; without this it would never be given back.
        gc.unfreeze()
        gc.collect()


async def _play(session: list[Request], data: Path, every: int) -> int:
    async with serve(data) as served:
        socket = _Socket(served)
        moves = False
        for number, request in enumerate(session):
            if "socket" in request:
                moves = moves or '"move"' in str(request["socket"])
                await socket.say(request["socket"])
            else:
                await _try(served, request, number % every == 0 and not moves, moves)
        await socket.close()
        await _verify(served)
        before = await served.state(lists=True)
        secrets = served.secrets
    async with serve(data) as again:
        again.secrets = secrets
        after = await again.state(lists=True)
        what = difference(before, after)
        if what is not None:
            raise Fell(f"a restart changes {what}")
        await _verify(again)
    return len(session)


def difference(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Where two states differ first, and how; None where they do not."""
    for where in sorted(before.keys() | after.keys()):
        if before.get(where) != after.get(where):
            return f"{kind_of_place(where)}{first_difference(before.get(where), after.get(where))}"
    return None


def kind_of_place(where: str) -> str:
    """A place without names: `/v1/boards/a/objects` is `boards objects`."""
    parts = where.strip("/").split("/")
    return " ".join(parts[1::2])


def first_difference(one: Any, other: Any) -> str:
    """Where two values differ first, and how."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return next(
            (f".{name}{first_difference(one[name], other[name])}" for name in one if one[name] != other[name]), ""
        )
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return next((f"[]{first_difference(left, right)}" for left, right in pairs if left != right), "")
    return f": {one!r:.150} -> {other!r:.150}"


async def _try(served: Served, request: Request, compare: bool, moves: bool) -> None:
    """Send a request and check the answer. With `moves` those of a socket may change maps at the same time."""
    operation = f"{request['method']} {kind_of_target(request['target'])}"
    if compare:
        # A rebuild may end with relays that decide anew.
        await served.quiet()
    known = await served.state() if compare else None
    position = served.position()
    spent = time.process_time()
    try:
        with bounded(operation):
            status, headers, body = await served.send(request)
    except Fell:
        if time.process_time() - spent < 5:
            raise
        # A kernel may have been compiled: that is once.
        with bounded(operation):
            status, headers, body = await served.send(request)
    except TimeoutError:
        raise Fell(f"{operation} is not answered") from None
    TOTALS.requests += 1
    TOTALS.refused += status >= 400
    TOTALS.compared += status >= 400 and compare
    TOTALS.slowest = max(TOTALS.slowest, time.process_time() - spent)
    await check_answer(served, operation, request, status, headers, body)
    if status >= 400:
        log = served.service.stores.log
        new = log.replay(position[0]) if log.last_lsn > position[0] else ()
        rows = [row for row in new if row.command not in BY_ITSELF]
        added = [row.command for row in rows if not (moves and row.resource.startswith("maps/"))]
        if added:
            raise Fell(f"{operation} is refused with {status}, and adds {added} to the log")
        if known is not None:
            what = difference(known, await served.state())
            if what is not None:
                raise Fell(f"{operation} is refused with {status}, and changes {what}")
    elif status == 201 and request["target"].startswith("/v1/admin/keys"):
        served.secrets.append(json.loads(body)["key"])


async def check_answer(
    served: Served, operation: str, request: Request, status: int, headers: dict[str, str], body: bytes
) -> None:
    """Raises `Fell` for an answer that no request may get."""
    if status < 400:
        if headers.get("content-type", "").startswith("application/json") and request["method"] != "HEAD":
            parsed(operation, body)
        return
    if headers.get("content-type") != "application/problem+json":
        raise Fell(f"{operation} is refused with {status} as {headers.get('content-type')}")
    problem = parsed(operation, body) if request["method"] != "HEAD" else None
    if problem is None:
        return
    slug = problem["type"].rpartition("/")[2]
    if status >= 500 and not (status == 503 and slug in RETRY_LATER and "retry-after" in headers):
        raise Fell(f"{operation} answers {status} {slug}: {problem['detail'] if status == 503 else ''}")
    if problem["status"] != status or len(body) > 200_000:
        raise Fell(f"{operation} is refused with {status} by a problem of {problem['status']}, {len(body)} bytes")
    if slug not in served.known:
        found, _, _ = await served.send({"method": "GET", "target": f"/problems/{slug}"})
        if found != 200:
            raise Fell(f"{operation} is refused with the unknown type {slug}")
        served.known.add(slug)


def parsed(operation: str, body: bytes) -> Any:
    """JSON as RFC 8259 has it."""

    def refuse(literal: str) -> Any:
        raise Fell(f"{operation} answers {literal}, which is not JSON")

    try:
        return json.loads(body, parse_constant=refuse)
    except ValueError:
        raise Fell(f"{operation} answers what is not JSON") from None


def kind_of_target(target: str) -> str:
    """A target without names and query."""
    parts = target.partition("?")[0].strip("/").split("/")
    return "/".join(part if i % 2 == 1 or i == 0 or parts[1:2] == ["admin"] else "*" for i, part in enumerate(parts))[
        :80
    ]


async def _verify(served: Served) -> None:
    """Compare all lists and indexes with a scan, after all other jobs."""
    # Only so many may wait.
    await served.quiet()
    request = {"method": "POST", "target": "/v1/admin/verify", "headers": {}}
    admin = served.secrets[0] if served.secrets else None
    status, _, body = await served.send(request, admin)
    if status != 202:
        raise Fell(f"verify answers {status}: {body[:200]!r}")
    job = json.loads(body)["job"]
    await served.service.jobs.wait(job)
    for item in await served.pages("/v1/admin/jobs"):
        if item["state"] == "failed" and item["kind"] == "verify":
            raise Fell(f"verify fails: {_short(item['detail'])}")
        if item["state"] == "failed" and "java" not in json.dumps(item["detail"]).lower():
            raise Fell(f"a {item['kind']} fails: {_short(item['detail'])}")


def _short(detail: Any) -> str:
    return json.dumps(detail)[:400]


def check_problem(problem: Any, status: int) -> None:
    """Raises `Fell` for a refusal on a socket that no message may get."""
    if not isinstance(problem, dict) or problem.get("status") != status:
        raise Fell(f"the socket refuses with {status} by {str(problem)[:200]}")
    slug = problem["type"].rpartition("/")[2]
    if status >= 500 and not (status == 503 and slug in RETRY_LATER):
        raise Fell(f"the socket answers {status} {slug}: {problem['detail'] if status == 503 else ''}")


def _asks(said: Any) -> bool:
    """Whether a message is a request, which is answered when it is ready."""
    try:
        frame = base64.b64decode(said["base64"]) if isinstance(said, dict) else said
        return isinstance(read_operation(frame, may_request=True), SocketRequest)
    except Bad:
        return False


def _found(answer: Message) -> Any:
    """A message of the service, of either kind."""
    if answer.get("bytes") is None:
        return parsed("the socket", answer["text"].encode())
    try:
        found = msgpack.unpackb(answer["bytes"])
        json.dumps(found, allow_nan=False)
    except (ValueError, TypeError):
        raise Fell("the socket answers what is not MessagePack of JSON") from None
    return found


class _Socket:
    """A WebSocket that is opened again when the service closes it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._outgoing: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._said = 0

    async def _open(self) -> None:
        self._incoming, self._outgoing = asyncio.Queue(), asyncio.Queue()
        key = [(b"authorization", f"Bearer {self._served.secrets[0]}".encode())] if self._served.secrets else []
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": "/v1/stream",
            "raw_path": b"/v1/stream",
            "root_path": "",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), *key],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        self._task = asyncio.create_task(self._served.app(scope, self._incoming.get, self._outgoing.put))
        await self._incoming.put({"type": "websocket.connect"})
        accepted = await self._next()
        if accepted["type"] != "websocket.accept":
            raise Fell(f"the socket is refused: {accepted}")

    async def _next(self) -> Message:
        """The next message of the service. Raises `Fell` where it ends without one."""
        assert self._task is not None
        message = asyncio.ensure_future(self._outgoing.get())
        done, _ = await asyncio.wait({message, self._task}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if message in done:
            return message.result()
        message.cancel()
        if self._task in done:
            self._task.result()
            raise Fell("the socket ends without being closed")
        raise Fell("the socket does not answer")

    async def say(self, said: Any) -> None:
        """Send a message, and see that it is answered. One that takes long may have had a kernel compiled: that is
        once.
        """
        spent = time.process_time()
        try:
            await self._say(said)
        except Fell:
            if time.process_time() - spent < 5:
                raise
            await self._say(said)

    async def _say(self, said: Any) -> None:
        """Send a message, then a request, and read until both are answered."""
        if self._task is None:
            await self._open()
        message: Message = {"type": "websocket.receive"}
        if isinstance(said, dict):
            message["bytes"] = base64.b64decode(said["base64"])
        else:
            message["text"] = said
        position = self._served.position()
        with bounded("a message on the socket"):
            await self._incoming.put(message)
            self._said += 1
            last = {"op": "request", "ref": f"last {self._said}", "method": "GET", "path": "/v1/nothing"}
            await self._incoming.put({"type": "websocket.receive", "text": json.dumps(last)})
            refused, answered, done = False, not _asks(said), False
            while not (done and answered):
                answer = await self._next()
                if answer["type"] == "websocket.close":
                    if answer["code"] not in (1000, 1001, 1008, 1009):
                        raise Fell(f"the socket is closed with {answer['code']}")
                    self._task = None
                    return
                found = _found(answer)
                if found.get("ref") == last["ref"]:
                    done = True
                elif found["event"] == "error":
                    check_problem(found["problem"], found["problem"]["status"])
                    # A move may be one of those before.
                    if found.get("op") != "move":
                        refused = answered = True
                elif found["event"] == "response":
                    answered = True
                    refused = found["status"] >= 400
                    if refused:
                        check_problem(found["body"], found["status"])
        # Moves of clients of maps are carried out together, and refused later: rows of maps may be theirs.
        rows = [row for row in self._served.service.stores.log.replay(position[0]) if row.command not in BY_ITSELF]
        added = [row.command for row in rows if not row.resource.startswith("maps/")]
        if refused and added:
            raise Fell(f"a message on the socket is refused, and adds {added} to the log")

    async def close(self) -> None:
        """Leave."""
        if self._task is not None:
            await self._incoming.put({"type": "websocket.disconnect", "code": 1000})
            await asyncio.wait_for(self._task, PATIENCE)
            self._task = None
