"""Single notifications with short answers in groups: by one command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from pydantic_core import SchemaValidator

from app.api.relays.context import RelayContext
from app.api.together.kind import Answer, Elsewhere, Outcome, Several, ShortBurst, ShortRequest, Verb
from app.api.together.latest import Latest
from app.api.together.shaped import Shaped, read_shaped
from app.api.values import payload_text
from app.rendering.recipients import answers
from app.security.callers import NOBODY_ASKED, Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from indexes.relays.commands import Notify
from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.plans.subscriptions import NotifyPlan

MOST_SUBSCRIPTIONS = 1 << 17
"""Subscriptions of a relay up to which its notifications are carried out together. The answers to a group are in memory
at once."""

MOST_RECIPIENTS = 4_096
"""Recipients of a notification, on average, up to which they are."""

INLINE = 1 << 17
"""Subscriptions up to which the answers to a group are written on the event loop: some hundred microseconds."""


class SingleNotification(NamedTuple):
    """One request: a number for each attribute of the relay `engine`, the payload, and the link that it came over."""

    engine: RelayEngine
    values: list[float]
    payload: bytes | None
    link: str | None


class Notifications:
    """Requests with one notification: see `app.api.together.kind.Kind`. Those with an Idempotency-Key, of which part of
    the answer is kept, and those to relays where an answer may be long, take the slow path."""

    def __init__(self, context: RelayContext) -> None:
        self._context = context
        self._validator: Latest[RelayConfig, SchemaValidator] = Latest(
            lambda one: context.validators(one).notifications
        )

    def need(self, name: str) -> Need:
        """The right to publish to a relay."""
        return Need("relays", "publish", name)

    def read(self, request: ShortRequest, caller: Caller) -> SingleNotification | Several[SingleNotification]:
        """The notification of a request. Any exception sends it to the slow path."""
        if request.query or request.key:
            raise Elsewhere
        if caller is not NOBODY_ASKED:
            caller.require_whole()
        context = self._context
        relay = context.resources.latest(request.name)
        if relay.recipients_per_notification > MOST_RECIPIENTS or relay.subscription_count > MOST_SUBSCRIPTIONS:
            raise Elsewhere
        config = relay.latest_config
        if request.count > 1:
            return _burst(relay, config, read_shaped(cast(ShortBurst, request), self._validator.of(config)))
        body: dict[str, Any] = request.checked_body(self._validator.of(config))
        (notification,) = body["notifications"]
        link, payload = notification.get("from"), notification.get("payload")
        if body.get("on_error", "refuse") != "refuse" or (link is not None and link not in config.links):
            raise Elsewhere
        text = None if payload is None else payload_text(payload, context.settings.max_payload)
        values = notification["values"]
        return SingleNotification(relay, [values[name] for name in config.attributes], text, link)

    def subject(self, item: SingleNotification) -> str | None:
        """Any number of requests may be alike."""
        return None

    async def apply(
        self, name: str, items: Sequence[SingleNotification], tickets: Sequence[Ticket | None]
    ) -> NotifyPlan:
        """Deliver all of them by one command. Raises as `Writer.submit`."""
        command = Notify(
            np.array([item.values for item in items], np.float64),
            {i: item.payload for i, item in enumerate(items) if item.payload is not None},
            {i: item.link for i, item in enumerate(items) if item.link is not None},
            requests=len(items),
        )
        plan: NotifyPlan = await self._context.resources.submit(name, command, reader=items[0].engine)
        return plan

    async def outcomes(self, job: NotifyPlan, items: Sequence[SingleNotification]) -> list[Outcome]:
        """Each with its own seq and recipients."""
        return _answers(job) if job.found.named <= INLINE else await asyncio.to_thread(_answers, job)


def single_notifications(context: RelayContext) -> list[Verb]:
    """The notifications that are carried out together."""
    return [Verb(Notifications(context), "POST", "/v1/relays/{relay}/notifications", bursts=True)]


def _burst(relay: RelayEngine, config: RelayConfig, shaped: Shaped) -> Several[SingleNotification]:
    """The notifications of a burst. Raises `Elsewhere` where they have more than values."""
    (one,) = shaped.body["notifications"]
    if len(shaped.body) > 1 or one.keys() != {"values"}:
        raise Elsewhere
    # As many numbers as attributes, in any order.
    columns = [shaped.numbers[int(one["values"][name])].tolist() for name in config.attributes]
    return Several(
        relay, [SingleNotification(relay, list(values), None, None) for values in zip(*columns, strict=True)]
    )


def _answers(plan: NotifyPlan) -> list[Outcome]:
    return [Answer(200, text, None) for text in answers(plan.found, plan.first_seq)]
