"""The webhooks of a service: events of subscriptions, which it sends to a URL. They need `write` on the resource.

async with AsyncRankcast(url, key) as rankcast:
    made = await rankcast.webhooks.put("ops", "https://example.org/in", "boards/delays", ["mine"])
    print(made.secret)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from rankcast_client import webhook_calls
from rankcast_client._base import AsyncConnection
from rankcast_client.webhook_calls import Webhook, WebhookTest


class AsyncWebhooks:
    """The webhooks of a service; get it from `AsyncRankcast.webhooks`. A receiver checks messages by `verify`."""

    def __init__(self, client: AsyncConnection) -> None:
        self._client = client

    async def put(
        self,
        name: str,
        url: str,
        resource: str,
        ids: Sequence[str],
        *,
        batch: int = 1,
        idempotency_key: str | None = None,
    ) -> Webhook:
        """Make a webhook, whose `secret` is shown this once, or change its URL, ids or batch.

        Events of the subscriptions `ids` of a resource, such as `boards/delays`, are sent to the URL; with `batch` more
        than 1 as lists of up to so many.
        """
        return await self._client.send(webhook_calls.put_webhook(name, url, resource, ids, batch), idempotency_key)

    async def get(self, name: str) -> Webhook:
        """The webhook as it is now."""
        return await self._client.send(webhook_calls.get_webhook(name))

    async def delete(self, name: str) -> None:
        """Delete it, with the events that wait for its receiver."""
        await self._client.send(webhook_calls.delete_webhook(name))

    async def test(self, name: str) -> WebhookTest:
        """Let the service send a test now, once. Return what became of it."""
        return await self._client.send(webhook_calls.test_webhook(name))

    async def enable(self, name: str) -> Webhook:
        """Let one start again that is disabled, or waits for its next try."""
        return await self._client.send(webhook_calls.enable_webhook(name))

    def list(self) -> AsyncIterator[Webhook]:
        """All webhooks that the key may change, in order of name."""
        return self._client.listing(webhook_calls.webhooks)
