"""Subscriptions that are put or changed one by one, carried out together: a command each, and one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.api.context import Context
from app.api.failures import refusal_of
from app.api.subscriptions import Change, SubscriptionRoutes
from app.api.together.kind import Answer, Elsewhere, Outcome, ShortRequest, Verb
from app.api.together.readers import LatestReaders
from app.api.values import is_name
from app.security.callers import Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Submission
from indexes.core.commands import Refused


class Written(NamedTuple):
    """One request: the change that it asks for, as a command by the configuration of `engine`."""

    engine: Any
    change: Change
    command: Any


class Applied(NamedTuple):
    """The jobs of a group's commands, an exception for each that changed nothing, and the texts of the answers."""

    jobs: list[Any]
    texts: list[str]
    tickets: Sequence[Ticket | None]


class SubscriptionChanges:
    """`PUT` and `PATCH` of single subscriptions: see `app.api.together.kind.Kind`.

    `routes` are those of the usual way, which read and answer these requests too.
    """

    def __init__(self, context: Context[Any, Any], routes: SubscriptionRoutes[Any, Any, Any]) -> None:
        self._context = context
        self._routes = routes
        self._readers = LatestReaders(context, routes)

    def need(self, name: str) -> Need:
        return Need(f"{self._context.noun}s", "subscribe", name)

    def read(self, request: ShortRequest, caller: Caller) -> Written:
        """The change that a request asks for. Raises whatever makes it take the usual way."""
        id, whole = request.id, request.verb.method == "PUT"
        if request.query or not is_name(id):
            raise Elsewhere
        self._routes.require_ids(caller, [id])
        engine = self._context.resources.latest(request.name)
        config = self._context.config_of(engine)
        readers = self._readers.of(config)
        validator, command_of = (readers.put, readers.whole) if whole else (readers.patch, readers.part)
        body: dict[str, Any] = request.checked_body(validator)
        return Written(engine, Change(id, whole, body, config), command_of(id, body))

    def subject(self, item: Written) -> str | None:
        """Any number of requests may be about the same: each is a command of its own."""
        return None

    async def apply(self, name: str, items: Sequence[Written], tickets: Sequence[Ticket | None]) -> Applied:
        """Carry out the changes in order. Raises as `Writer.submit_each`, and what refuses all of them."""
        routes, resources = self._routes, self._context.resources
        touch, resource = self._context.service.expiry.touch, resources.prefix + name
        texts = [""] * len(items)

        def submission(at: int, change: Change) -> Submission:
            def show(plan: Any) -> None:
                texts[at] = routes.text(plan, change)

            ticket = tickets[at]
            if ticket is None:
                return Submission(items[at].command, then=show)
            return Submission(items[at].command, lambda plan: [(ticket, routes.skeleton(plan, change))], show)

        for item in items:
            touch(resource, item.change.id)
        submissions = [submission(at, item.change) for at, item in enumerate(items)]
        jobs = await resources.submit_each(name, submissions, items[0].engine)
        for item in items:
            touch(resource, item.change.id)
        return Applied(jobs, texts, tickets)

    async def outcomes(self, job: Applied, items: Sequence[Written]) -> list[Outcome]:
        """Each with the subscription as it is at its seq."""
        routes, found = self._routes, list[Outcome]()
        for item, plan, text, ticket in zip(items, *job, strict=True):
            if isinstance(plan, Refused):
                found.append(refusal_of(routes.refusal(plan, item.change.config)))
            elif isinstance(plan, Exception):
                found.append(refusal_of(plan))
            else:
                kept = None if ticket is None else routes.kept(plan, item.change, text)
                found.append(Answer(routes.status(plan), f"{text}\n".encode(), kept))
        return found


def subscription_changes(context: Context[Any, Any], routes: SubscriptionRoutes[Any, Any, Any]) -> list[Verb]:
    """The changes of subscriptions of a resource type that are carried out together."""
    noun, kind = context.noun, SubscriptionChanges(context, routes)
    path = f"/v1/{noun}s/{{{noun}}}/{routes.collection}/{{id}}"
    return [Verb(kind, method, path, replayed=routes.replayed) for method in ("PUT", "PATCH")]
