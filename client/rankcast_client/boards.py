"""One board: requests, and the stream of a subscription's list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from rankcast_client import board_calls as calls
from rankcast_client._base import AsyncConnection, AsyncSubscriptions, Stream
from rankcast_client.board_calls import BOARDS, End
from rankcast_client.board_zones import BoardZones, StreamStart
from rankcast_client.calls import changed, given
from rankcast_client.explained import Explanation, SubscriptionCost
from rankcast_client.followers import ListFollower
from rankcast_client.models import (
    UNSET,
    Algorithm,
    AnyRange,
    BoardInfo,
    Entry,
    Event,
    Form,
    Messages,
    Mode,
    OnError,
    Order,
    Published,
    Ranges,
    Registered,
    StreamEvent,
    Subscription,
    Unset,
    Want,
    Where,
)
from rankcast_client.shapes import Shape


class Watch(Stream[StreamEvent]):
    """`async for change in board.watch(id)`: the list of one subscription as it changes.

    Yields a `Snapshot`, then a `Change` (with `form="tiles"`: `Tiles`) for everything that changes the list, and a
    `Reset` after a gap or, with tiles, when the subscription was changed. `list` is the whole list at that moment. With
    `ready` it yields a `Ready` too, each time that a connection has caught up, and with `old` changes have old values.
    With `squash` there is at most one `Change` in so many seconds, the net of what happened. Ends when the subscription
    or its board is deleted; `gone` is true then.

    Raises ProblemError when the stream is refused (also later, as when a key was revoked), and Unreachable when the
    first connection could not be made. A connection that is lost later is made again for as long as it takes.
    Giving up a wait, as with `asyncio.timeout`, loses nothing: the next one resumes.
    """

    def __init__(
        self,
        board: AsyncBoard,
        id: str,
        form: Form = "changes",
        heartbeat: float = 15.0,
        *,
        ready: bool = False,
        old: bool = False,
        squash: float | None = None,
    ) -> None:
        self._follower = follower = ListFollower(form, ready=ready, old=old, squash=squash)

        async def before(event: str) -> None:
            if follower.needs_subscription(event):
                follower.learn(await board.subscription(id), await board.info())

        super().__init__(board, id, follower, heartbeat, before)

    @property
    def list(self) -> tuple[Entry, ...]:
        """The present list, best first."""
        return self._follower.entries

    @property
    def offset(self) -> int:
        """How many ranks lie before the list: its first entry has the rank offset + 1."""
        return self._follower.offset

    @property
    def seq(self) -> int | None:
        """The board's seq at which the list last changed, None before the snapshot."""
        return self._follower.seq


class AsyncBoard(AsyncSubscriptions[BoardInfo, Subscription]):
    """One board: its configuration, objects and subscriptions. Get it from `AsyncRankcast.board`."""

    _calls = BOARDS

    def __init__(self, client: AsyncConnection, name: str) -> None:
        super().__init__(client, name)
        self._attributes: tuple[str, ...] = ()

    # The board itself

    async def put(
        self,
        range_attributes: Sequence[str],
        rank: str,
        *,
        order: Order = "asc",
        ks: Iterable[int],
        algorithm: Algorithm | None = None,
        epsilon: float | None = None,
        sketch: int | None = None,
        indexed: Sequence[str] = (),
        zones: int | None = None,
    ) -> BoardInfo:
        """Make the board, or change what `patch` may change; a 409 if it is there and differs otherwise.

        `rank` names the attribute that ranks, `order` says whether small ("asc") or large ("desc") values are better,
        `ks` are the list lengths that subscriptions may ask for, `indexed` the members of payloads that they may
        filter by. In so many `zones` its tiles are published on NATS.
        """
        body = {
            "range_attributes": list(range_attributes),
            "rank": {"attribute": rank, "order": order},
            "ks": list(ks),
            **given(algorithm=algorithm, epsilon=epsilon, sketch=sketch, indexed=list(indexed) or None, zones=zones),
        }
        return await self.client.send(BOARDS.configure("PUT", self.name, body))

    async def patch(
        self,
        *,
        ks: Iterable[int] | None = None,
        algorithm: Algorithm | None = None,
        epsilon: float | Unset | None = UNSET,
        sketch: int | Unset | None = UNSET,
        zones: int | Unset | None = UNSET,
    ) -> BoardInfo:
        """Change what is given; None removes epsilon, the sketch or the zones. A k in use stays: 409."""
        body = {
            **given(ks=None if ks is None else list(ks), algorithm=algorithm),
            **changed(epsilon=epsilon, sketch=sketch, zones=zones),
        }
        return await self.client.send(BOARDS.configure("PATCH", self.name, body))

    async def info(self) -> BoardInfo:
        """The configuration, and sizes in `more`."""
        info = await super().info()
        self._attributes = info.range_attributes
        return info

    # Objects

    async def publish(
        self,
        event: Event,
        *,
        messages: Messages = "count",
        idempotency_key: str | None = None,
    ) -> Published:
        """Apply one event, made by `upsert`, `update` or `delete`. `messages="full"` returns the tiles, too."""
        return await self.publish_many([event], messages=messages, idempotency_key=idempotency_key)

    async def publish_many(
        self,
        events: Iterable[Event],
        *,
        mode: Mode = "each",
        messages: Messages = "count",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Apply events in order as one request, all or nothing; with `on_error="skip"` all that are good.

        More than 1,000 go as NDJSON, which may be large (1 GiB unless the service says otherwise).
        """
        rest = {"mode": mode, "messages": messages, "on_error": on_error}
        call = BOARDS.publish(self.name, "events", list(events), Published.from_json, **rest)
        return await self.client.send(call, idempotency_key)

    async def publish_arrow(
        self,
        stream: bytes,
        *,
        mode: Mode = "each",
        messages: Messages = "none",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Apply the events of an Arrow IPC stream with the columns `op, id, <attribute>..., payload` (JSON text)."""
        rest = {"mode": mode, "messages": messages}
        call = BOARDS.publish_arrow(self.name, "events", stream, Published.from_json, on_error, **rest)
        return await self.client.send(call, idempotency_key)

    async def upsert(self, id: str, values: Mapping[str, float], payload: Any = UNSET) -> Published:
        """Insert the object or give it these values."""
        return await self.client.send(calls.write_object("PUT", self.name, id, values, payload))

    async def update(self, id: str, values: Mapping[str, float] | None = None, payload: Any = UNSET) -> Published:
        """Change some values of an existing object. `payload=None` removes its payload."""
        return await self.client.send(calls.write_object("PATCH", self.name, id, values, payload))

    async def delete_object(self, id: str) -> Published:
        """Delete the object."""
        return await self.client.send(calls.delete_object(self.name, id))

    async def object(self, id: str) -> Entry:
        """The object as it is now."""
        return await self.client.send(calls.get_object(self.name, id))

    def objects(self) -> AsyncIterator[Entry]:
        """All objects, in order of id, fetched page by page."""
        return self.client.listing(lambda limit, cursor: calls.objects(self.name, limit, cursor))

    async def top(
        self,
        l: End = None,  # noqa: E741
        r: End = None,
        k: int | None = None,
        *,
        offset: int = 0,
        where: Where | None = None,
    ) -> tuple[Entry, ...]:
        """The k best objects between l and r, both included, behind the first `offset`; unbounded where None.

        With several range attributes both are mappings by attribute. k is the largest of the board's unless given.
        `where` says what the payload must have in indexed fields.
        """
        return await self.client.send(calls.top(self.name, l, r, k, offset, where))

    async def explain(
        self, event: Event, *, algorithm: Algorithm | None = None, epsilon: float | Unset | None = UNSET
    ) -> Explanation:
        """What an event, made by `upsert`, `update` or `delete`, would do now: its recipients, and why.

        Changes nothing. `algorithm` and `epsilon` explain it for a board with these settings.
        """
        return await self.client.send(calls.explain(self.name, event, algorithm, epsilon))

    async def zones(self) -> BoardZones:
        """The zones in which the board's tiles are published on NATS."""
        return await self.client.send(calls.zones(self.name))

    async def cut_zones(self) -> BoardZones:
        """Cut the zones again by the present subscriptions, under the next version."""
        return await self.client.send(calls.cut_zones(self.name))

    # Subscriptions

    async def stream_start(self, id: str) -> StreamStart:
        """What a stream of a subscription begins with, and the zone in which it goes on."""
        return await self.client.send(calls.stream_start(self.name, id))

    async def register(
        self,
        range: AnyRange | None = None,
        *,
        k: int,
        offset: int = 0,
        where: Where | None = None,
        id: str | None = None,
        ttl: float | None = None,
        idempotency_key: str | None = None,
    ) -> Subscription:
        """Register one subscription and return it with its list. Without an `id` one is generated.

        Its list has the ranks offset + 1 to offset + k, which must be one of the board's `ks`. With two range
        attributes, `range` may be a `Disc`, a `HalfPlane` or a `Simplex`. With a `ttl` it is deleted when for so many
        seconds no stream of it was open and no request named it. `where` says what the payload must have in indexed
        fields.
        """
        want: Any = {"k": k, **given(range=range, offset=offset or None, where=where or None, id=id, ttl=ttl)}
        made = await self.register_many([want], lists=True, idempotency_key=idempotency_key)
        return made.subscriptions[0]

    async def register_many(
        self,
        wants: Iterable[Want],
        *,
        lists: bool | None = None,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Registered:
        """Register many as one request, all or nothing. `lists` asks for their lists (default: up to 1,000)."""
        wants = list(wants)
        pairs = any(isinstance(want.get("range"), (tuple, list)) for want in wants)
        attributes = await self._range_attributes() if pairs else ()
        call = calls.register(self.name, wants, attributes, lists, on_error)
        return await self.client.send(call, idempotency_key)

    async def explain_subscription(self, id: str) -> SubscriptionCost:
        """What the subscription costs, and how many changes reach it."""
        return await self.client.send(calls.explain_subscription(self.name, id))

    async def put_subscription(
        self,
        id: str,
        range: AnyRange | None = None,
        *,
        k: int,
        offset: int = 0,
        where: Where | None = None,
        ttl: float | None = None,
    ) -> Subscription:
        """Make the subscription or change it to this: what a client may send each time it starts."""
        region = calls.wire_region(await self._ranges(range), ())
        body = {**region, "k": k, **given(offset=offset or None, where=where)}
        return await self.client.send(BOARDS.write_subscription("PUT", self.name, id, body, ttl))

    async def patch_subscription(
        self,
        id: str,
        range: AnyRange | None = None,
        *,
        k: int | None = None,
        offset: int | None = None,
        where: Where | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> Subscription:
        """Move the range or change the filter, k or the offset; its streams miss nothing. What is left out stays,
        attributes too; but a filter is given whole, and `{}` takes it away."""
        region = {} if range is None else calls.wire_region(await self._ranges(range), ())
        body = {**region, **given(k=k, offset=offset, where=where)}
        return await self.client.send(BOARDS.write_subscription("PATCH", self.name, id, body, ttl))

    def watch(
        self,
        id: str,
        *,
        form: Form = "changes",
        heartbeat: float = 15.0,
        ready: bool = False,
        old: bool = False,
        squash: float | None = None,
    ) -> Watch:
        """Follow the list of a subscription, see `Watch`.

        `form="tiles"` keeps the list here, by the subscriber's protocol of [Range top-k] II-A. `heartbeat` is the
        service's setting in seconds: a connection that is silent for three of them is given up and made again. With
        `ready` there is a `Ready` among the events each time that a connection has caught up. With `old` the changes
        have the values before. With `squash` there is at most one change in so many seconds.
        """
        return Watch(self, id, form, heartbeat, ready=ready, old=old, squash=squash)

    async def _range_attributes(self) -> tuple[str, ...]:
        if not self._attributes:
            await self.info()
        return self._attributes

    async def _ranges(self, range: AnyRange | None) -> Ranges | Shape:
        if range is None or isinstance(range, (Mapping, Shape)):
            return range or {}
        return calls.ranges_of(range, await self._range_attributes())
