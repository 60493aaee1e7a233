"""Webhooks: the requests as values, and what is read of the answers. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rankcast_client.calls import Call, Page, dumps, page, segment

WebhookState = Literal["active", "failing", "disabled"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook as it is now.

    `secret` is there in the answer to the request that made it, once: keep it. `failures` counts requests in a row that
    the receiver has not taken, `delivered` the events that it has, `waiting` those that are to come.
    """

    name: str
    url: str
    resource: str
    ids: tuple[str, ...]
    batch: int
    state: WebhookState
    failures: int
    last_status: int | None
    last_error: str | None
    delivered: int
    waiting: int
    created: str
    secret: str | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Webhook:
        return cls(
            data["name"],
            data["url"],
            data["resource"],
            tuple(data["ids"]),
            data["batch"],
            data["state"],
            data["failures"],
            data["last_status"],
            data["last_error"],
            data["delivered"],
            data["waiting"],
            data["created"],
            data.get("secret"),
        )


@dataclass(frozen=True, slots=True)
class WebhookTest:
    """What became of a test: the status of the receiver's answer, if there was one, and why it was not taken, if so."""

    taken: bool
    status: int | None
    error: str | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WebhookTest:
        return cls(data["taken"], data["status"], data["error"])


def put_webhook(name: str, url: str, resource: str, ids: Sequence[str], batch: int) -> Call[Webhook]:
    body = {"url": url, "resource": resource, "ids": list(ids), "batch": batch}
    return Call("PUT", webhook_path(name), Webhook.from_json, {}, dumps(body), "application/json")


def get_webhook(name: str) -> Call[Webhook]:
    return Call("GET", webhook_path(name), Webhook.from_json)


def delete_webhook(name: str) -> Call[None]:
    return Call("DELETE", webhook_path(name), lambda data: None)


def test_webhook(name: str) -> Call[WebhookTest]:
    return Call("POST", webhook_path(name, "test"), WebhookTest.from_json)


def enable_webhook(name: str) -> Call[Webhook]:
    return Call("POST", webhook_path(name, "enable"), Webhook.from_json)


def webhooks(limit: int, cursor: str | None) -> Call[Page[Webhook]]:
    return page("/v1/webhooks", Webhook.from_json, limit, cursor)


def webhook_path(name: str, *parts: str) -> str:
    return "/".join(["/v1/webhooks", segment(name), *parts])
