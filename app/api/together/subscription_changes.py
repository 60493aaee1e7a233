"""`PUT` and `PATCH` of single subscriptions in groups: by a command each and one commit, or by a command for many where
the resource type has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from app.api.context import Context
from app.api.failures import refusal_of
from app.api.subscriptions import Change, SubscriptionRoutes
from app.api.together.kind import Answer, Elsewhere, Outcome, Several, ShortBurst, ShortRequest, Verb
from app.api.together.readers import OfSubscription
from app.api.together.shaped import read_shaped
from app.security.callers import Caller
from app.write_path.idempotency import Ticket
from app.write_path.writer import Submission
from indexes.core.commands import Refused

JobT = TypeVar("JobT")


class Written(NamedTuple):
    """A request: its change, and the command for it by the configuration of `engine`."""

    engine: Any
    change: Change
    command: Any


class Applied(NamedTuple):
    """Of each request of a group: its job, or the exception that says why it changed nothing; the text of its answer,
    and its ticket."""

    jobs: list[Any]
    texts: list[str]
    tickets: Sequence[Ticket | None]


class SubscriptionChanges(OfSubscription, ABC, Generic[JobT]):
    """`PUT` and `PATCH` of single subscriptions: see `app.api.together.kind.Kind`.

    `routes` are those of the slow path; these requests are read and answered by the same code. `numeric` are the fields
    of a body with any numbers in them, if bursts are read.
    """

    numeric: ClassVar[frozenset[str]] = frozenset()

    def read(self, request: ShortRequest, caller: Caller) -> Written | Several[Written]:
        """Read a request. Any exception sends it to the slow path."""
        if request.count > 1:
            return self._burst(cast(ShortBurst, request), caller)
        id, whole = request.id, request.verb.method == "PUT"
        engine, readers = self.addressed(request, caller)
        validator, command_of = (readers.put, readers.whole) if whole else (readers.patch, readers.part)
        body: dict[str, Any] = request.checked_body(validator)
        return Written(engine, Change(id, whole, body, readers.config), command_of(id, body))

    def _burst(self, burst: ShortBurst, caller: Caller) -> Several[Written]:
        """Read a burst. Any exception makes its requests be read one by one."""
        if not self.numeric:
            raise Elsewhere
        whole = burst.verb.method == "PUT"
        engine, readers = self.addressed(burst, caller)
        validator, command_of = (readers.put, readers.whole) if whole else (readers.patch, readers.part)
        ids, body, _ = shaped = read_shaped(burst, validator)
        self.routes.require_ids(caller, ids)
        if not body.keys() <= self.numeric:
            raise Elsewhere
        return Several(
            engine,
            [
                Written(engine, Change(id, whole, one, readers.config), command_of(id, one))
                for id, one in zip(ids, shaped.bodies(), strict=True)
            ],
        )

    def subject(self, item: Written) -> str | None:
        """Any number of requests may be about one subscription."""
        return None

    async def apply(self, name: str, items: Sequence[Written], tickets: Sequence[Ticket | None]) -> JobT:
        """Carry out the changes in order, and restart lifetimes. Raises as `carry_out`."""
        self._touch(name, items)
        job = await self.carry_out(name, items, tickets)
        self._touch(name, items)
        return job

    def _touch(self, name: str, items: Sequence[Written]) -> None:
        expiry, resource = self.context.service.expiry, self.context.resources.prefix + name
        for item in items if len(expiry) else ():
            expiry.touch(resource, item.change.id)

    @abstractmethod
    async def carry_out(self, name: str, items: Sequence[Written], tickets: Sequence[Ticket | None]) -> JobT:
        """Carry out the changes in order. Raises as `Writer.submit`, only if nothing was changed."""

    @abstractmethod
    async def outcomes(self, job: JobT, items: Sequence[Written]) -> list[Outcome]:
        """The outcome of each request, in order."""


class CommandForEach(SubscriptionChanges[Applied]):
    """Changes of resource types without a command for many: a command each, and one commit."""

    async def carry_out(self, name: str, items: Sequence[Written], tickets: Sequence[Ticket | None]) -> Applied:
        routes, texts = self.routes, [""] * len(items)

        def submission(at: int, change: Change) -> Submission:
            def show(plan: Any) -> None:
                texts[at] = routes.text(plan, change)

            ticket = tickets[at]
            if ticket is None:
                return Submission(items[at].command, then=show)
            # The key of a refused change is released at once: a later request may use it (see `receipts`).
            return Submission(
                items[at].command, lambda plan: [(ticket, routes.skeleton(plan, change))], show, ticket.abandon
            )

        submissions = [submission(at, item.change) for at, item in enumerate(items)]
        jobs = await self.context.resources.submit_each(name, submissions, items[0].engine)
        return Applied(jobs, texts, tickets)

    async def outcomes(self, job: Applied, items: Sequence[Written]) -> list[Outcome]:
        """Answers with the subscription as of the seq of the request."""
        routes, found = self.routes, list[Outcome]()
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
    """The verbs of changes of single subscriptions, for a resource type without a command for many."""
    return changing_verbs(CommandForEach(context, routes))


def changing_verbs(kind: SubscriptionChanges[Any]) -> list[Verb]:
    """The verbs `PUT` and `PATCH` of a kind."""
    noun, routes = kind.context.noun, kind.routes
    path = f"/v1/{noun}s/{{{noun}}}/{routes.collection}/{{id}}"
    bursts = bool(kind.numeric)
    return [Verb(kind, method, path, replayed=routes.replayed, bursts=bursts) for method in ("PUT", "PATCH")]
