"""The asynchronous client: one class for the service, with a handle for each resource."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import httpx

from rankcast_client._base import AsyncConnection
from rankcast_client.board_calls import BOARDS
from rankcast_client.boards import AsyncBoard
from rankcast_client.feed_calls import FEEDS
from rankcast_client.feed_models import FeedInfo
from rankcast_client.feeds import AsyncFeed
from rankcast_client.jobs import AsyncJobs
from rankcast_client.map_calls import MAPS
from rankcast_client.map_models import MapInfo
from rankcast_client.maps import AsyncMap
from rankcast_client.matcher_calls import MATCHERS
from rankcast_client.matchers import AsyncMatcher
from rankcast_client.matches import MatcherInfo
from rankcast_client.models import BoardInfo
from rankcast_client.relay_calls import RELAYS
from rankcast_client.relay_models import RelayInfo
from rankcast_client.relays import AsyncRelay
from rankcast_client.replica_calls import Promoted, Replica, promote, replicas
from rankcast_client.ticket_calls import Ticket, make_ticket
from rankcast_client.webhooks import AsyncWebhooks

if TYPE_CHECKING:
    # Needs an extra, and is imported when it is used.
    from rankcast_client.ws import Socket


class AsyncRankcast(AsyncConnection):
    """A connection to a Rankcast service.

    `base_url` is its URL, or the URLs of its nodes: several, or a text with commas. They are tried in that order, and a
    node that failed after the others for a moment; writes go to the one that leads, and once it is known all else too.
    `key` is an API key, if the service requires one. Requests that meet a 503 or a broken connection are sent again as
    `retry` says; writes carry an Idempotency-Key, so that none is ever applied twice. `timeout` is that of one attempt,
    in seconds. Use it in an `async with`, or call `aclose()` in the end. Any number of tasks may share it.

    Every method raises ProblemError when the service refuses, and Unreachable when it does not answer.
    """

    def board(self, name: str) -> AsyncBoard:
        """A handle of the board with this name, whether it exists or not. Sends nothing."""
        return AsyncBoard(self, name)

    def matcher(self, name: str) -> AsyncMatcher:
        """A handle of the matcher with this name, whether it exists or not. Sends nothing."""
        return AsyncMatcher(self, name)

    def relay(self, name: str) -> AsyncRelay:
        """A handle of the relay with this name, whether it exists or not. Sends nothing."""
        return AsyncRelay(self, name)

    def map(self, name: str) -> AsyncMap:
        """A handle of the map with this name, whether it exists or not. Sends nothing."""
        return AsyncMap(self, name)

    def feed(self, name: str) -> AsyncFeed:
        """A handle of the feed with this name, whether it exists or not. Sends nothing."""
        return AsyncFeed(self, name)

    @property
    def jobs(self) -> AsyncJobs:
        """Snapshots, rebuilds and verifications of the service."""
        return AsyncJobs(self)

    @property
    def webhooks(self) -> AsyncWebhooks:
        """Events of subscriptions that the service sends to a URL."""
        return AsyncWebhooks(self)

    def boards(self) -> AsyncIterator[BoardInfo]:
        """All boards, in order of name."""
        return self.listing(BOARDS.all)

    def matchers(self) -> AsyncIterator[MatcherInfo]:
        """All matchers, in order of name."""
        return self.listing(MATCHERS.all)

    def relays(self) -> AsyncIterator[RelayInfo]:
        """All relays, in order of name."""
        return self.listing(RELAYS.all)

    def maps(self) -> AsyncIterator[MapInfo]:
        """All maps, in order of name."""
        return self.listing(MAPS.all)

    def feeds(self) -> AsyncIterator[FeedInfo]:
        """All feeds, in order of name."""
        return self.listing(FEEDS.all)

    def socket(self, *, heartbeat: float = 15.0, window: int = 128, packed: bool = False) -> Socket:
        """A WebSocket for many requests at a time, and in the asynchronous client for many subscriptions.

        At most `window` requests are under way, up to 256. Needs the extra: `pip install rankcast-client[ws]`; with
        `packed`, messages are MessagePack, which needs the extra `msgpack`.
        """
        from rankcast_client.ws import Socket

        return Socket(self, heartbeat=heartbeat, window=window, packed=packed)

    async def ticket(self, resource: str, ids: Sequence[str] | None = None, *, seconds: float = 60.0) -> Ticket:
        """Make a ticket with which a page in a browser opens streams of these subscriptions, and does nothing else.

        `resource` is named as ``boards/delays``; without `ids` the ticket is for all of its subscriptions.
        """
        return await self.send(make_ticket(resource, ids, seconds))

    def replicas(self) -> AsyncIterator[Replica]:
        """The replicas that follow this node, in order of node."""
        return self.listing(replicas)

    async def promote(self, *, force: bool = False) -> Promoted:
        """Make this node the leader.

        Raises ProblemError with status 409 where another node has more of the log; `force` gives that up. Raises
        ValueError for a client of several nodes, which does not say which.
        """
        return await self.send(promote(force))

    async def ready(self) -> bool:
        """Whether the service can be used now, at any of its nodes. Does not retry and does not raise."""
        for node in self.nodes.ordered:
            try:
                response = await self.http.get(f"{node}/readyz", timeout=5.0)
            except httpx.TransportError:
                continue
            if response.status_code == 200:
                return True
        return False
