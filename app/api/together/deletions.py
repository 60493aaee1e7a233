"""`DELETE` of single subscriptions in groups: by one command that deletes many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from app.api.context import Context
from app.api.problems import Problem, from_refused
from app.api.subscriptions import SubscriptionRoutes
from app.api.together.kind import Answer, Elsewhere, Outcome, ShortRequest, Verb, receipts
from app.api.values import is_name
from app.security.callers import Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Refused, missing


class Deletion(NamedTuple):
    """A request: the id of the subscription of `engine` that it deletes."""

    engine: Any
    id: str


class Deletions:
    """`DELETE` of single subscriptions: see `app.api.together.kind.Kind`. `routes` are those of the slow path."""

    def __init__(self, context: Context[Any, Any], routes: type[SubscriptionRoutes[Any, Any, Any]]) -> None:
        self._context = context
        self._routes = routes

    def need(self, name: str) -> Need:
        return Need(f"{self._context.noun}s", "subscribe", name)

    def read(self, request: ShortRequest, caller: Caller) -> Deletion:
        """Read a request. Any exception sends it to the slow path."""
        if request.query or not is_name(request.id):
            raise Elsewhere
        caller.require_id(request.id)
        return Deletion(self._context.resources.latest(request.name), request.id)

    def subject(self, item: Deletion) -> str | None:
        """Any number of requests may be about one subscription: all but the first find it gone."""
        return None

    async def apply(self, name: str, items: Sequence[Deletion], tickets: Sequence[Ticket | None]) -> Any:
        """Delete them by one command. Raises as `Writer.submit`."""

        def requests(plan: Any) -> Iterator[tuple[Ticket, Skeleton]]:
            return receipts(tickets, _positions(plan, items), lambda event, at: Skeleton(200, _kept(plan, event)))

        return await self._context.resources.submit(
            name,
            self._routes.delete_command([item.id for item in items]),
            reader=items[0].engine,
            requests=requests if any(tickets) else None,
        )

    async def outcomes(self, job: Any, items: Sequence[Deletion]) -> list[Outcome]:
        """An answer, with a seq of its own, or a problem for each request."""
        events = {at: event for event, at in enumerate(_positions(job, items))}
        found: list[Outcome] = []
        for at, item in enumerate(items):
            event = events.get(at)
            if event is None:
                found.append(self._missing(item.id))
            else:
                kept = _kept(job, event)
                found.append(Answer(200, f'{{"seq":{kept["seq"]}}}\n'.encode(), kept))
        return found

    def _missing(self, id: str) -> Problem:
        """The problem of a request with nothing to delete, as for a single deletion."""
        return from_refused(Refused([missing(self._routes.noun, id)]))


def deletions(context: Context[Any, Any], routes: type[SubscriptionRoutes[Any, Any, Any]]) -> list[Verb]:
    """The verb of deletions of single subscriptions of a resource type."""
    noun = context.noun
    return [Verb(Deletions(context, routes), "DELETE", f"/v1/{noun}s/{{{noun}}}/{routes.collection}/{{id}}")]


def _positions(plan: Any, items: Sequence[Deletion]) -> list[int]:
    """The places in the group of the requests that delete something: the first one of each id that exists."""
    first: dict[str, int] = {}
    for at, item in enumerate(items):
        first.setdefault(item.id, at)
    return [first[id] for id in plan.command.ids]


def _kept(plan: Any, event: int) -> dict[str, Any]:
    return {"seq": plan.first_seq + event}
