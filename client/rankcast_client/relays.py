"""Handles of one relay: `AsyncRelay` and, for scripts, `Relay`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rankcast_client import relay_calls as calls
from rankcast_client.calls import segment
from rankcast_client.models import UNSET, OnError, Pair, Unset
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
from rankcast_client.watch import Stream

if TYPE_CHECKING:
    from rankcast_client.client import AsyncRankcast
    from rankcast_client.sync import Rankcast

PIECE = 5_000
"""Commands in one request, which are carried out together."""


class Notifications(Stream[NotificationEvent]):
    """`async for one in relay.watch(id)`: the notifications that a subscription meets, wherever they were published.

    Yields an `Arrived` for each, and `Missed` where some may not have been told: after a connection that was lost for
    more than the service keeps, or a reader that was too slow. With `ready` also `Ready`, each time that a connection
    has told all that there was. Ends when the subscription or its relay is deleted; `gone` is true then. Raises and
    goes on over lost connections as `Watch` does.
    """

    def __init__(self, relay: AsyncRelay, id: str, heartbeat: float = 15.0, *, ready: bool = False) -> None:
        self.id = id
        path = calls.relay_path(relay.name, "subscriptions", segment(id), "stream")
        super().__init__(relay.client, path, follow_notifications(ready), heartbeat)


class AsyncRelay:
    """One relay: its configuration, links, subscriptions and notifications. Get it from `AsyncRankcast.relay`."""

    def __init__(self, client: AsyncRankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    async def put(
        self,
        attributes: Sequence[str],
        *,
        graph: GraphKind | None = None,
        k: int | None = None,
        index: RelayIndex | None = None,
        links: Mapping[str, LinkChange] | None = None,
    ) -> RelayInfo:
        """Makes the relay; a 409 if it is there and differs, but for its links, which become these if given."""
        return await self.client.send(calls.put_relay(self.name, attributes, graph, k, index, links))

    async def link(self, links: Mapping[str, LinkChange | None]) -> RelayInfo:
        """Adds links, changes them, or with None takes them out. Raises a 409 for one that would close a cycle."""
        return await self.client.send(calls.patch_relay(self.name, links))

    async def info(self) -> RelayInfo:
        """The configuration, sizes, and how the links are."""
        return await self.client.send(calls.relay_info(self.name))

    async def delete(self) -> int:
        """Deletes the relay with all that is in it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_relay(self.name))

    async def subscribe_many(
        self, boxes: Iterable[NewBox], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Boxes:
        """Makes many subscriptions as one request, all or nothing; with `on_error="skip"` all that are good."""
        return await self.client.send(calls.subscribe_many(self.name, boxes, on_error), idempotency_key)

    async def subscribe_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Boxes:
        """Makes subscriptions of the rows of an Arrow IPC stream with the columns `id, link, ttl, <attribute>_min,
        <attribute>_max`."""
        return await self.client.send(calls.subscribe_arrow(self.name, stream, on_error), idempotency_key)

    async def put_subscription(
        self, id: str, box: Mapping[str, Pair], *, link: str | None = None, ttl: float | None = None
    ) -> Box:
        """Makes the subscription or changes it to this: what a client says again whenever it starts."""
        given = UNSET if ttl is None else ttl
        return await self.client.send(calls.write_box("PUT", self.name, id, box, link, given))

    async def patch_subscription(
        self, id: str, *, box: Mapping[str, Pair | None] | None = None, ttl: float | Unset | None = UNSET
    ) -> Box:
        """Changes what is given, by attribute; None is unbounded."""
        return await self.client.send(calls.write_box("PATCH", self.name, id, box, None, ttl))

    async def subscription(self, id: str) -> Box:
        """The subscription as it is now."""
        return await self.client.send(calls.get_box(self.name, id))

    async def delete_subscription(self, id: str) -> Ended:
        """Ends it and its streams. Returns what to do upstream."""
        return await self.client.send(calls.delete_box(self.name, id))

    async def delete_subscriptions(self, ids: Iterable[str]) -> tuple[Ended, ...]:
        """Ends many; unknown ids are passed over. Returns what to do upstream about each."""
        return await self.client.send(calls.delete_boxes(self.name, ids))

    def subscriptions(self) -> AsyncIterator[Box]:
        """All subscriptions, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.boxes(self.name, limit, cursor))

    async def commands(self, commands: Iterable[Command], *, on_error: OnError = "refuse") -> AsyncIterator[Answer]:
        """Carries out commands in order, some thousand in a request, and yields what each comes to.

        A command that cannot be carried out refuses those of its request: raises ProblemError. What was answered before
        stays.
        """
        rest = iter(commands)
        while piece := list(islice(rest, PIECE)):
            for answer in await self.client.send(calls.run_commands(self.name, piece, on_error)):
                yield answer

    async def notify(self, values: Mapping[str, float], payload: Any = None) -> Delivery:
        """Tells one notification to those whose subscriptions it meets, here and over links."""
        one: Notification = {"values": values} if payload is None else {"values": values, "payload": payload}
        return (await self.notify_many([one])).results[0]

    async def notify_many(
        self,
        notifications: Iterable[Notification],
        *,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Notified:
        """Tells many notifications."""
        return await self.client.send(calls.notify(self.name, notifications, on_error), idempotency_key)

    def watch(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> Notifications:
        """Follows what a subscription meets, see `Notifications`. `heartbeat` is the service's setting in seconds: a
        connection that is silent for three of them is given up and made again."""
        stream = Notifications(self, id, heartbeat, ready=ready)
        self.client._watches.add(stream)
        return stream


class Relay:
    """One relay. Each method means what it means on `AsyncRelay`; following is the asynchronous client's."""

    def __init__(self, client: Rankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    def put(
        self,
        attributes: Sequence[str],
        *,
        graph: GraphKind | None = None,
        k: int | None = None,
        index: RelayIndex | None = None,
        links: Mapping[str, LinkChange] | None = None,
    ) -> RelayInfo:
        """Makes the relay; a 409 if it is there and differs, but for its links, which become these if given."""
        return self.client.send(calls.put_relay(self.name, attributes, graph, k, index, links))

    def link(self, links: Mapping[str, LinkChange | None]) -> RelayInfo:
        """Adds links, changes them, or with None takes them out."""
        return self.client.send(calls.patch_relay(self.name, links))

    def info(self) -> RelayInfo:
        """The configuration, sizes, and how the links are."""
        return self.client.send(calls.relay_info(self.name))

    def delete(self) -> int:
        """Deletes the relay with all that is in it."""
        return self.client.send(calls.delete_relay(self.name))

    def subscribe_many(
        self, boxes: Iterable[NewBox], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Boxes:
        """Makes many subscriptions as one request, all or nothing."""
        return self.client.send(calls.subscribe_many(self.name, boxes, on_error), idempotency_key)

    def subscribe_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Boxes:
        """Makes subscriptions of the rows of an Arrow IPC stream."""
        return self.client.send(calls.subscribe_arrow(self.name, stream, on_error), idempotency_key)

    def put_subscription(
        self, id: str, box: Mapping[str, Pair], *, link: str | None = None, ttl: float | None = None
    ) -> Box:
        """Makes the subscription or changes it to this."""
        given = UNSET if ttl is None else ttl
        return self.client.send(calls.write_box("PUT", self.name, id, box, link, given))

    def patch_subscription(
        self, id: str, *, box: Mapping[str, Pair | None] | None = None, ttl: float | Unset | None = UNSET
    ) -> Box:
        """Changes what is given, by attribute."""
        return self.client.send(calls.write_box("PATCH", self.name, id, box, None, ttl))

    def subscription(self, id: str) -> Box:
        """The subscription as it is now."""
        return self.client.send(calls.get_box(self.name, id))

    def delete_subscription(self, id: str) -> Ended:
        """Ends it and its streams."""
        return self.client.send(calls.delete_box(self.name, id))

    def delete_subscriptions(self, ids: Iterable[str]) -> tuple[Ended, ...]:
        """Ends many; unknown ids are passed over."""
        return self.client.send(calls.delete_boxes(self.name, ids))

    def subscriptions(self) -> Iterator[Box]:
        """All subscriptions, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.boxes(self.name, limit, cursor))

    def commands(self, commands: Iterable[Command], *, on_error: OnError = "refuse") -> Iterator[Answer]:
        """Carries out commands in order, some thousand in a request, and yields what each comes to."""
        rest = iter(commands)
        while piece := list(islice(rest, PIECE)):
            yield from self.client.send(calls.run_commands(self.name, piece, on_error))

    def notify(self, values: Mapping[str, float], payload: Any = None) -> Delivery:
        """Tells one notification."""
        one: Notification = {"values": values} if payload is None else {"values": values, "payload": payload}
        return self.notify_many([one]).results[0]

    def notify_many(
        self,
        notifications: Iterable[Notification],
        *,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Notified:
        """Tells many notifications."""
        return self.client.send(calls.notify(self.name, notifications, on_error), idempotency_key)
