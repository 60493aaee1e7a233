"""One relay: requests, and the stream of a subscription."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from rankcast_client import relay_calls as calls
from rankcast_client._base import AsyncHandle, Stream
from rankcast_client.calls import given, wire_ranges
from rankcast_client.models import UNSET, OnError, Pair, Unset
from rankcast_client.relay_calls import RELAYS
from rankcast_client.relay_models import (
    Answer,
    Box,
    Boxes,
    Command,
    Delivery,
    Ended,
    GraphKind,
    LinkChange,
    NewBox,
    Notification,
    NotificationEvent,
    Notified,
    RelayIndex,
    RelayInfo,
    follow_notifications,
)

PIECE = 5_000
"""Commands in one request, which are carried out together."""


class Notifications(Stream[NotificationEvent]):
    """`async for one in relay.watch(id)`: the notifications in a subscription's box, wherever they were published.

    Yields an `Arrived` for each, and `Missed` where some may be missing: after a connection that was lost for
    more than the service keeps, or a reader that was too slow. With `ready` also `Ready`, each time that a connection
    has caught up. Ends when the subscription or its relay is deleted; `gone` is true then. Raises and
    goes on over lost connections as `Watch` does.
    """


class AsyncRelay(AsyncHandle[RelayInfo, Box]):
    """One relay: its configuration, links, subscriptions and notifications. Get it from `AsyncRankcast.relay`."""

    _calls = RELAYS

    async def put(
        self,
        attributes: Sequence[str],
        *,
        graph: GraphKind | None = None,
        k: int | None = None,
        index: RelayIndex | None = None,
        links: Mapping[str, LinkChange] | None = None,
    ) -> RelayInfo:
        """Make the relay; a 409 if it is there and differs, but for its links, which become these if given."""
        kept = None if graph is None and k is None else {"kind": graph or "G", **given(k=k)}
        body = {"attributes": list(attributes), **given(graph=kept, index=index, links=links)}
        return await self.client.send(RELAYS.configure("PUT", self.name, body))

    async def link(self, links: Mapping[str, LinkChange | None]) -> RelayInfo:
        """Add links, change them, or with None remove them. A link that would close a cycle is a 409."""
        return await self.client.send(RELAYS.configure("PATCH", self.name, {"links": links}))

    async def subscribe_many(
        self, boxes: Iterable[NewBox], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Boxes:
        """Make many subscriptions as one request, all or nothing; with `on_error="skip"` all that are good."""
        return await self.client.send(calls.subscribe_many(self.name, boxes, on_error), idempotency_key)

    async def subscribe_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Boxes:
        """Make subscriptions of the rows of an Arrow IPC stream with the columns `id, link, ttl, <attribute>_min,
        <attribute>_max`."""
        call = RELAYS.publish_arrow(self.name, "subscriptions", stream, Boxes.from_json, on_error)
        return await self.client.send(call, idempotency_key)

    async def put_subscription(
        self, id: str, box: Mapping[str, Pair], *, link: str | None = None, ttl: float | None = None
    ) -> Box:
        """Make the subscription or change it to this: what a client may send each time it starts."""
        body = {"box": wire_ranges(box), **given(link=link)}
        return await self.client.send(RELAYS.write_subscription("PUT", self.name, id, body, ttl))

    async def patch_subscription(
        self, id: str, *, box: Mapping[str, Pair | None] | None = None, ttl: float | Unset | None = UNSET
    ) -> Box:
        """Change what is given, by attribute; None is unbounded."""
        body = given(box=None if box is None else wire_ranges(box))
        return await self.client.send(RELAYS.write_subscription("PATCH", self.name, id, body, ttl))

    async def subscription(self, id: str) -> Box:
        """The subscription as it is now."""
        return await self.client.send(RELAYS.get_subscription(self.name, id))

    async def delete_subscription(self, id: str) -> Ended:
        """End it and its streams. Return what to do upstream."""
        return await self.client.send(calls.delete_box(self.name, id))

    async def delete_subscriptions(self, ids: Iterable[str]) -> tuple[Ended, ...]:
        """End many; unknown ids are passed over. Return what to do upstream about each."""
        return await self.client.send(calls.delete_boxes(self.name, ids))

    def subscriptions(self) -> AsyncIterator[Box]:
        """All subscriptions, in order of id, fetched page by page."""
        return self.client.listing(lambda limit, cursor: RELAYS.all_subscriptions(self.name, limit, cursor))

    async def commands(self, commands: Iterable[Command], *, on_error: OnError = "refuse") -> AsyncIterator[Answer]:
        """Carry out commands in order, some thousand in a request, and yield the result of each.

        A command that cannot be carried out refuses those of its request: raises ProblemError. What was yielded before
        stays.
        """
        rest = iter(commands)
        while piece := list(islice(rest, PIECE)):
            for answer in await self.client.send(calls.run_commands(self.name, piece, on_error)):
                yield answer

    async def notify(self, values: Mapping[str, float], payload: Any = None) -> Delivery:
        """Publish one notification to the subscriptions whose boxes hold it, here and over links."""
        one: Notification = {"values": values} if payload is None else {"values": values, "payload": payload}
        notified = await self.notify_many([one])
        return notified.results[0]

    async def notify_many(
        self,
        notifications: Iterable[Notification],
        *,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Notified:
        """Publish many notifications as one request."""
        some, read = list(notifications), Notified.from_json
        call = RELAYS.publish(self.name, "notifications", some, read, on_error=on_error)
        return await self.client.send(call, idempotency_key)

    def watch(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> Notifications:
        """Follow the notifications of a subscription, see `Notifications`. `heartbeat` is the service's setting in
        seconds: a connection that is silent for three of them is given up and made again."""
        return Notifications(self, id, follow_notifications(ready), heartbeat)
