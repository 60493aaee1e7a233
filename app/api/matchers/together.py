"""Single events of a matcher in groups: matched by one search, or published by one command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast

import numpy as np
from pydantic_core import SchemaValidator

from app.api.failures import refusal_of
from app.api.matchers.context import MatcherContext
from app.api.matchers.models import K
from app.api.matchers.routes.match import AT_ONCE, WINNER
from app.api.together.kind import Answer, Elsewhere, Outcome, Several, ShortBurst, ShortRequest, Verb, receipts
from app.api.together.latest import Latest
from app.api.together.shaped import Shaped, read_shaped
from app.api.values import LARGEST, payload_text
from app.rendering.matchers import answers
from app.security.callers import NOBODY_ASKED, Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton, Submission
from indexes.core.arrays import Floats
from indexes.matchers.commands import Match
from indexes.matchers.config import MatcherConfig
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.plans.match import MatchPlan
from indexes.matchers.results import Winners

MOST_K = 64
"""Winners that an event of a group may have: a whole group has room for no more than a slice may find."""


_NUMBERS = frozenset({float, int})


class Event(NamedTuple):
    """One request: both ends, which are the same, for each dimension of the matcher `engine`, how many winners, and the
    payload."""

    engine: MatcherEngine
    ends: list[float]
    k: int
    payload: bytes | None


class SingleMatches(ABC):
    """Matches of one event with a number for each dimension: see `app.api.together.kind.Kind`. All others, such as
    those with ranges or `explain`, take the slow path."""

    right: str
    notify: bool

    def __init__(self, context: MatcherContext) -> None:
        self._context = context
        self._k = min(K, context.settings.max_k)
        self._most = min(MOST_K, context.settings.max_answer // WINNER)
        self._validator: Latest[MatcherConfig, SchemaValidator] = Latest(lambda one: context.validators(one).match)

    def need(self, name: str) -> Need:
        return Need("matchers", self.right, name)

    def read(self, request: ShortRequest, caller: Caller) -> Event | Several[Event]:
        """The event of a request. Any exception sends it to the slow path."""
        matcher = self._context.resources.latest(request.name)
        config = matcher.config
        validator = self._validator.of(config)
        shaped = read_shaped(cast(ShortBurst, request), validator) if request.count > 1 else None
        body: dict[str, Any] = request.checked_body(validator) if shaped is None else shaped.body
        if body.get("notify", False) != self.notify or request.query:
            raise Elsewhere
        if caller is not NOBODY_ASKED:
            caller.require(self.need(request.name))
            caller.require_whole()
        if shaped is not None:
            return self._burst(matcher, config, shaped)
        (event,) = body["events"]
        k: int = body.get("k", self._k)
        if k > self._most or body.get("explain", False) or body.get("on_error", "refuse") != "refuse":
            raise Elsewhere
        values, ends = event["values"], list[float]()
        for name in config.dimensions:
            value = values[name]
            if type(value) not in _NUMBERS or not -LARGEST <= value <= LARGEST:
                raise Elsewhere
            ends += (value, value)
        payload = event.get("payload")
        limit = self._context.settings.max_payload
        return Event(matcher, ends, k, None if payload is None else payload_text(payload, limit))

    def _burst(self, matcher: MatcherEngine, config: MatcherConfig, shaped: Shaped) -> Several[Event]:
        """The events of a burst. Any exception makes its requests be read one by one."""
        (event,) = shaped.body["events"]
        places = [event["values"][name] for name in config.dimensions]
        numbers = all(type(place) in _NUMBERS for place in places)
        if not shaped.body.keys() <= {"events", "notify"} or event.keys() != {"values"} or not numbers:
            raise Elsewhere
        if self._k > self._most:
            raise Elsewhere
        ends = np.repeat(shaped.numbers[places], 2, axis=0).T.tolist()
        return Several(matcher, [Event(matcher, each, self._k, None) for each in ends])

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

    def read(self, request: ShortRequest, caller: Caller) -> Event | Several[Event]:
        if request.key:
            raise Elsewhere
        return super().read(request, caller)

    async def apply(self, name: str, items: Sequence[Event], tickets: Sequence[Ticket | None]) -> list[Outcome]:
        resources, matcher, ks = self._context.resources, items[0].engine, [item.k for item in items]
        command = Match(_points(items), max(ks))
        short = len(items) * matcher.seconds_per_event() <= AT_ONCE
        if short and matcher is resources.get(name):
            found = [await resources.between(name, lambda: matcher.winners(command.events, command.k))]
            seq = matcher.seq
        else:
            plan: MatchPlan = await resources.ask(name, lambda engine: engine.ask(command), matcher)
            found, seq = plan.found, plan.last_seq
        return _answers(found, ks, seq, 0)


class Publications(SingleMatches):
    """Events that the streams of the winners receive: one command for all that want as many winners."""

    right = "publish"
    notify = True

    async def apply(self, name: str, items: Sequence[Event], tickets: Sequence[Ticket | None]) -> list[Outcome]:
        runs = [list(run) for _, run in groupby(range(len(items)), lambda at: items[at].k)]
        submissions = [_submission(items, tickets, run) for run in runs]
        jobs = await self._context.resources.submit_each(name, submissions, items[0].engine)
        outcomes: list[Outcome] = []
        for run, job in zip(runs, jobs, strict=True):
            if isinstance(job, Exception):
                outcomes += [refusal_of(job)] * len(run)
            else:
                outcomes += _answers(job.found, None, job.first_seq, 1)
        return outcomes


def single_matches(context: MatcherContext) -> list[Verb]:
    """The matches that are carried out together."""
    path = "/v1/matchers/{matcher}/match"
    return [Verb(kind(context), "POST", path, bursts=True) for kind in (Questions, Publications)]


def _points(items: Sequence[Event]) -> Floats:
    """The events as columns."""
    return np.array([item.ends for item in items], np.float64)


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


def _answers(found: Sequence[Winners], ks: Sequence[int] | None, seq: int, step: int) -> list[Outcome]:
    """The answers of events whose winners come in pieces, with as many of its winners for each at most; None for all.
    The first one has this seq, each following one `step` more."""
    written: list[bytes] = []
    for part in found:
        at = len(written)
        most = None if ks is None else ks[at : at + len(part.sizes)]
        written += answers(part, most, seq + step * at, step)
    return [Answer(200, text, None) for text in written]
