"""The gateway's hub: streams of boards with zones from NATS, and all others from the service, over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from app.errors import NotReady
from app.gateway.boards import GatewayBoard
from app.gateway.broker import Broker
from app.gateway.lists import Ranking
from app.gateway.live import LiveZoned, ZonedSource
from app.gateway.relayed import Relay, RelayedSource
from app.gateway.upstream import Credentials, Passed, Upstream
from app.runtime import logs
from app.runtime.broker import keys_subject
from app.runtime.metrics import Metrics
from app.security.callers import Caller
from app.security.scopes import EVERYTHING
from app.streaming.buffer import Form, parse_cursor
from app.streaming.connection import GOING_AWAY, Connection, Reader
from app.streaming.hub import Hub, Limits
from app.streaming.protocols import LiveResource, Source

T = TypeVar("T")

BOARDS = "boards/"

KEEP_EVERY = 0.2
"""Seconds between two looks for subscriptions with a lifetime."""

log = logs.get("gateway")


class GatewayHub(Hub):
    """Streams at a gateway. A connection's `credentials` say who reads; the service lets each of them in."""

    def __init__(self, limits: Limits, upstream: Upstream, broker: Broker, metrics: Metrics) -> None:
        self.boards: dict[str, GatewayBoard] = {}
        self.upstream = upstream
        self._broker = broker
        self._zoned = ZonedSource(self.boards.get, _at_once)
        self._relayed = RelayedSource(lambda name: None, _at_once)
        self._relays: dict[Reader, Relay] = {}
        self._looking: asyncio.Future[Any] | None = None
        super().__init__("", limits, [self._zoned], metrics)

    def source(self, resource: str) -> tuple[Source, str]:
        """The type of a resource; the service knows those that are not boards."""
        if resource.startswith(BOARDS):
            return super().source(resource)
        return self._relayed, resource.partition("/")[2]

    def live_resource(self, resource: str) -> LiveResource | None:
        """A resource with live subscriptions."""
        return self._live_resources.get(resource)

    def start(self) -> None:
        super().start()
        self._looking = asyncio.gather(self._look(), self._keep_alive())

    def stop(self) -> None:
        super().stop()
        if self._looking is not None:
            self._looking.cancel()
        for relay in list(self._relays.values()):
            relay.stop()

    # --- streams ----------------------------------------------------------------------------------------------------

    async def open_stream(
        self, reader: Reader, resource: str, id: str, form: Form, after: str | None, replaces: Reader | None = None
    ) -> None:
        """As `Hub.open_stream`; raises `Passed` for what the service refuses."""
        who: Credentials = reader.connection.credentials  # type: ignore[attr-defined]
        start = None
        if resource.startswith(BOARDS):
            start = await self.upstream.ask(f"/v1/{resource}/subscriptions/{id}/start", who)
        if start is None or start["zone"] is None:
            await self._relay(reader, resource, id, form, after, who, replaces)
            return
        await self.follow(reader, resource, id, form, after, start, replaces)

    async def follow(
        self,
        reader: Reader,
        resource: str,
        id: str,
        form: Form,
        after: str | None,
        start: dict[str, Any],
        replaces: Reader | None = None,
    ) -> None:
        """Begin a stream of a board with zones, of which the service said how it starts."""
        who: Credentials = reader.connection.credentials  # type: ignore[attr-defined]
        self.use_epoch(start["epoch"])
        said = start["caller"]
        caller = Caller(said["id"], EVERYTHING, expires=said["expires"])
        if caller.id not in reader.connection.keys:
            self.connections.bind(reader.connection, caller)
        name = resource.removeprefix(BOARDS)
        board = self.boards.get(name)
        if board is None:
            sign = 1 if start["rank"]["order"] == "asc" else -1
            ranking = Ranking(start["range_attribute"], start["rank"]["attribute"], sign)
            board = self.boards[name] = GatewayBoard(name, self.epoch, ranking, self, self.upstream, self._broker)
        try:
            await board.prepare(id, start, who, None if after is None else parse_cursor(after, self.epoch))
            if self.boards.get(name) is not board or id not in board.lives:
                raise NotReady("the board is being taken up", retry_after=1)
            if replaces is not None:
                self._stop_relay(replaces)
            await super().open_stream(reader, resource, id, form, after, replaces)
        finally:
            live, there = board.lives.get(id), self._live_resources.get(resource)
            if live is not None and (there is None or id not in there.by_id):
                board.drop(live)
            if not board.lives and self.boards.get(name) is board:
                del self.boards[name]
                board.close()

    async def _relay(
        self,
        reader: Reader,
        resource: str,
        id: str,
        form: Form,
        after: str | None,
        who: Credentials,
        replaces: Reader | None,
    ) -> None:
        self._check_room(replaces)
        relay = Relay(self, self.upstream, reader, resource, id, form, after, who)
        await relay.open()
        if replaces is not None:
            self.close_stream(replaces)
        self._relays[reader] = relay
        self._streams += 1
        relay.start()

    def is_relayed(self, reader: Reader) -> bool:
        """Whether a stream comes from the service."""
        return reader in self._relays

    def close_stream(self, reader: Reader) -> None:
        super().close_stream(reader)
        self._stop_relay(reader)

    def _stop_relay(self, reader: Reader) -> None:
        relay = self._relays.pop(reader, None)
        if relay is not None:
            self._streams -= 1
            relay.stop()

    def relay_ended(self, reader: Reader) -> None:
        """A stream from the service has ended by itself."""
        if self._relays.pop(reader, None) is not None:
            self._streams -= 1

    def cursors(self, readers: Iterable[Reader]) -> dict[str, str]:
        readers = list(readers)
        found = super().cursors(readers)
        relayed: dict[str, set[str]] = {}
        for reader in readers:
            relay = self._relays.get(reader)
            if relay is not None and relay.cursor is not None:
                relayed.setdefault(relay.resource, set()).add(relay.cursor)
        return found | {name: cursors.pop() for name, cursors in sorted(relayed.items()) if len(cursors) == 1}

    # --- what ends --------------------------------------------------------------------------------------------------

    def use_epoch(self, epoch: str) -> None:
        """Serve this history. Streams of another one end: readers come back, and get a reset."""
        if epoch == self.epoch:
            return
        if self.epoch:
            log.warning("the service has another history", epoch=epoch)
            for board in list(self.boards.values()):
                for live in list(board.lives.values()):
                    self.send_away(live)
                board.close()
            self.boards.clear()
            self._live_resources.clear()
            self._live = 0
        self.epoch = self.conflator.epoch = epoch
        self._broker.note(keys_subject(epoch), lambda data: self.connections.end_key(data.decode("utf-8", "replace")))

    def send_away(self, live: LiveZoned) -> None:
        """End the connections that follow a subscription: their peers come back to where it can be followed."""
        for channel in live.channels():
            for reader in list(channel.readers):
                connection: Connection = reader.connection  # type: ignore[assignment]
                connection.end(GOING_AWAY)

    def board_gone(self, board: GatewayBoard, seq: int) -> None:
        """A board was deleted at a seq."""
        self.resource_gone(board.resource, seq)
        board.close()
        if self.boards.get(board.name) is board:
            del self.boards[board.name]

    def resource_rebuilt(self, resource: str) -> None:
        raise NotImplementedError("a gateway has no engines")

    async def settle(self, resource: str) -> None:
        board = self.boards.get(resource.removeprefix(BOARDS))
        if board is not None:
            await board.settle(self.limits.heartbeat_seconds / 4)

    # --- housekeeping -----------------------------------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEP_EVERY)
            for board in list(self.boards.values()):
                try:
                    await board.keep_alive()
                except Exception:
                    log.exception("housekeeping failed")

    async def _look(self) -> None:
        """Now and then see that the callers are still let in, and that the zones are the same."""
        while True:
            await asyncio.sleep(self.limits.heartbeat_seconds)
            await _done(self._check_callers)
            await self.look_at_boards()

    async def look_at_boards(self) -> bool:
        """See that the zones of the boards, and their history, are those of the service; return whether they are."""
        return all([await _done(board.look) for board in list(self.boards.values())])

    async def _check_callers(self) -> None:
        """End what callers have open that the service lets in no more."""
        found: dict[str, Credentials] = {}
        for connection in self.connections:
            who: Credentials = connection.credentials  # type: ignore[attr-defined]
            if who.ticket is None:
                found.update(dict.fromkeys(connection.keys, who))
        for key_id, who in found.items():
            if not await self.lets_in(who):
                self.connections.end_key(key_id)

    async def lets_in(self, who: Credentials) -> bool:
        """Whether the service knows who this is. Raises `NotReady`."""
        try:
            await self.upstream.ask("/v1/boards", who, limit="1")
        except Passed as refused:
            return refused.status_code != 401
        return True


async def _done(look: Callable[[], Awaitable[None]]) -> bool:
    """Whether the service let something be looked at."""
    try:
        await look()
    except (NotReady, Passed):
        return False
    except Exception:
        log.exception("housekeeping failed")
        return False
    return True


async def _at_once(name: str, fn: Callable[[], T]) -> T:
    return fn()
