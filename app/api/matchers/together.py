"""Matches of single events: questions that are answered together, and events that are published together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from app.api.failures import refusal_of
from app.api.matchers.context import MatcherContext
from app.api.matchers.models import K
from app.api.matchers.routes.match import AT_ONCE, WINNER
from app.api.together.kind import Answer, Elsewhere, Outcome, ShortRequest, Verb, receipts
from app.api.values import LARGEST, payload_text
from app.rendering.matchers import each_result
from app.security.callers import Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton, Submission
from indexes.core.arrays import Floats
from indexes.matchers.commands import Match
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.plans.match import MatchPlan
from indexes.matchers.results import Winners

MOST_K = 64
"""Winners that an event of a group may have: a whole group has room for no more than a slice may find."""


class Event(NamedTuple):
    """One request: a number for each dimension of the matcher `engine`, how many winners, and the payload."""

    engine: MatcherEngine
    values: list[float]
    k: int
    payload: bytes | None


class SingleMatches(ABC):
    """Matches of one event with a number for each dimension: see `app.api.together.kind.Kind`. All others, such as
    those with ranges or `explain`, take the usual way."""

    right: str
    notify: bool

    def __init__(self, context: MatcherContext) -> None:
        self._context = context

    def need(self, name: str) -> Need:
        return Need("matchers", self.right, name)

    def read(self, request: ShortRequest, caller: Caller) -> Event:
        """The event of a request. Raises whatever makes it take the usual way."""
        context, settings = self._context, self._context.settings
        if request.query:
            raise Elsewhere
        caller.require(self.need(request.name))
        caller.require_whole()
        matcher = context.resources.latest(request.name)
        body: dict[str, Any] = request.checked_body(context.validators(matcher.config).match)
        (event,) = body["events"]
        k: int = body.get("k", min(K, settings.max_k))
        asked = body.get("notify", False), body.get("explain", False), body.get("on_error", "refuse")
        if asked != (self.notify, False, "refuse") or k > MOST_K or k * WINNER > settings.max_answer:
            raise Elsewhere
        values = [event["values"][name] for name in matcher.config.dimensions]
        if not all(type(value) in (float, int) and -LARGEST <= value <= LARGEST for value in values):
            raise Elsewhere
        payload = event.get("payload")
        return Event(matcher, values, k, None if payload is None else payload_text(payload, settings.max_payload))

    def subject(self, item: Event) -> str | None:
        """Any number of requests may be alike."""
        return None

    @abstractmethod
    async def apply(self, name: str, items: Sequence[Event], tickets: Sequence[Ticket | None]) -> list[Outcome]:
        """Match the events of a group, and return the answers. Raises where nothing was changed."""

    async def outcomes(self, job: list[Outcome], items: Sequence[Event]) -> list[Outcome]:
        """The answers that `apply` has returned."""
        return job


class Questions(SingleMatches):
    """Events that are matched alone: the group is one question for the most winners that any of it wants."""

    right = "read"
    notify = False

    def read(self, request: ShortRequest, caller: Caller) -> Event:
        if request.key:
            raise Elsewhere
        return super().read(request, caller)

    async def apply(self, name: str, items: Sequence[Event], tickets: Sequence[Ticket | None]) -> list[Outcome]:
        resources, matcher, ks = self._context.resources, items[0].engine, [item.k for item in items]
        command = Match(_points(items), max(ks))
        short = len(items) * matcher.seconds_per_event() <= AT_ONCE
        if short and matcher is resources.get(name):
            found = [await resources.between(name, lambda: matcher.winners(command.events, command.k))]
            seqs = [matcher.seq] * len(items)
        else:
            plan: MatchPlan = await resources.ask(name, lambda engine: engine.ask(command), matcher)
            found, seqs = plan.found, [plan.last_seq] * len(items)
        return _answers(seqs, found, ks)


class Publications(SingleMatches):
    """Events that the streams of the winners receive: one command for all that want as many winners."""

    right = "publish"
    notify = True

    async def apply(self, name: str, items: Sequence[Event], tickets: Sequence[Ticket | None]) -> list[Outcome]:
        runs = [list(run) for _, run in groupby(range(len(items)), lambda at: items[at].k)]
        submissions = [_submission(items, tickets, run) for run in runs]
        jobs = await self._context.resources.submit_each(name, submissions, items[0].engine)
        answers: list[Outcome] = []
        for run, job in zip(runs, jobs, strict=True):
            if isinstance(job, Exception):
                answers += [refusal_of(job)] * len(run)
            else:
                seqs = range(job.first_seq, job.last_seq + 1)
                answers += _answers(seqs, job.found, [items[at].k for at in run])
        return answers


def single_matches(context: MatcherContext) -> list[Verb]:
    """The matches that are carried out together."""
    path = "/v1/matchers/{matcher}/match"
    return [Verb(kind(context), "POST", path) for kind in (Questions, Publications)]


def _points(items: Sequence[Event]) -> Floats:
    """The events as columns of ends, which are the same."""
    return np.repeat(np.array([item.values for item in items], np.float64), 2, axis=1)


def _submission(items: Sequence[Event], tickets: Sequence[Ticket | None], run: list[int]) -> Submission:
    """The command of some events of a group."""
    some = [items[at] for at in run]
    payload = {i: item.payload for i, item in enumerate(some) if item.payload is not None}

    def requests(plan: MatchPlan) -> Iterator[tuple[Ticket, Skeleton]]:
        def skeleton(event: int, at: int) -> Skeleton:
            # A place for its result: `Plan.results_of` takes it for the answer about one of them.
            return Skeleton(200, {"seq": plan.first_seq + event, "results": [{}]})

        return receipts([tickets[at] for at in run], range(len(run)), skeleton)

    return Submission(Match(_points(some), some[0].k, payload=payload), requests if any(tickets) else None)


def _answers(seqs: Sequence[int], found: Sequence[Winners], ks: Sequence[int]) -> list[Outcome]:
    """The answers of events with these seqs, whose winners come in pieces."""
    texts: list[str] = []
    for part in found:
        texts += each_result(part, ks[len(texts) : len(texts) + len(part.sizes)])
    return [
        Answer(200, f'{{"seq":{seq},"results":[{text}]}}\n'.encode(), None)
        for seq, text in zip(seqs, texts, strict=True)
    ]
