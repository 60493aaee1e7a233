"""`PUT` and `PATCH` of single subscriptions of a matcher in groups: by one command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.api.failures import refusal_of
from app.api.matchers.context import MatcherContext
from app.api.matchers.routes.subscriptions import MatcherSubscriptionRoutes
from app.api.together.kind import Answer, Outcome, Verb, receipts
from app.api.together.subscription_changes import SubscriptionChanges, Written, changing_verbs
from app.rendering.matchers import matcher_json
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Fault, Refused
from indexes.matchers.commands import ChangeSubscriptions
from indexes.matchers.plans.subscriptions import SetPlan


class MatcherSubscriptionChanges(SubscriptionChanges[SetPlan]):
    """See `SubscriptionChanges`; any number of requests may be about the same subscription."""

    numeric = frozenset({"intervals", "score"})

    async def carry_out(self, name: str, items: Sequence[Written], tickets: Sequence[Ticket | None]) -> SetPlan:
        def requests(plan: SetPlan) -> Iterator[tuple[Ticket, Skeleton]]:
            applied = [at for at, outcome in enumerate(plan.outcomes) if outcome is not None]
            answers = _answers(plan)

            def skeleton(event: int, at: int) -> Skeleton:
                return Skeleton(answers[event].status, json.loads(answers[event].body))

            return receipts(tickets, applied, skeleton)

        plan: SetPlan = await self.context.resources.submit(
            name,
            ChangeSubscriptions([item.command for item in items]),
            reader=items[0].engine,
            requests=requests if any(tickets) else None,
        )
        return plan

    async def outcomes(self, job: SetPlan, items: Sequence[Written]) -> list[Outcome]:
        """Each with the subscription as it is at its seq."""
        if not job.faults:
            return list(_answers(job))
        faults: dict[int | None, list[Fault]] = {}
        for fault in job.faults:
            faults.setdefault(fault.index, []).append(replace(fault, index=None))
        answers = iter(_answers(job))
        return [refusal_of(Refused(faults[at])) if at in faults else next(answers) for at in range(len(items))]


def _answers(plan: SetPlan) -> list[Answer]:
    """The answers to the requests that apply."""
    applied = [outcome for outcome in plan.outcomes if outcome is not None]
    texts = matcher_json(plan.engine.config).changed(applied)
    return [
        Answer(201 if outcome.made else 200, f"{text}\n".encode(), None)
        for outcome, text in zip(applied, texts, strict=True)
    ]


def matcher_changes(context: MatcherContext) -> list[Verb]:
    """The changes of subscriptions of matchers that are carried out together."""
    return changing_verbs(MatcherSubscriptionChanges(context, MatcherSubscriptionRoutes()))
