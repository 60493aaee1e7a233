"""Matching events: at once where that takes no time, else in turn, and with `notify` as a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import read
from app.api.context import Done, begun, bulk_query, element_refusal
from app.api.matcher_context import MatcherContext
from app.api.matcher_events import ReadMatch
from app.api.matcher_models import MatchBody, Matched, MatchQuery
from app.api.pieces import answer_of, numbered, opened, streamed
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.matcher_json import results
from app.idempotency import Ticket
from app.problems import Problem, invalid
from app.security import ANONYMOUS, ANY, Keyring
from app.storage.log import LogUnavailable
from app.writer import Skeleton
from indexes.commands import Refused
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.model import MatcherConfig
from indexes.matchers.plans import WINNERS, MatchPlan
from indexes.matchers.views import Winners

AT_ONCE = 0.002
"""Seconds of matching up to which it is done on the event loop: a turn of its own would take longer to come."""

INLINE = 4_000
"""Texts, each a winner's or what one dimension added, up to which they are written on the event loop: 2 ms."""

MOST_WINNERS = 1 << 25
"""Winners that an answer may have room for: some gigabytes."""

MOST_KEPT = 50_000
"""The same of an answer that is kept under an Idempotency-Key: some megabytes in the log."""

ATTEMPTS = 8
"""How often a question is asked whose turn comes beside writes that fail."""

READ, WRITE = "matchers:read", "matchers:write"

_ASKED = MatchQuery()


class MatchRoutes:
    """``/v1/matchers/{matcher}/match``."""

    def __init__(self, context: MatcherContext, keyring: Keyring) -> None:
        self._context = context
        self._keyring = keyring

    def add_routes(self, routes: Routes) -> None:
        """Serve the match."""
        routes.add(
            "POST",
            "/v1/matchers/{matcher}/match",
            self.match,
            needs=ANY,
            tag="matchers",
            answers={200: Matched},
            body=MatchBody,
            bulk="MatchedEvent",
            query=MatchQuery,
        )

    async def match(self, request: Request) -> Response:
        """Find the subscriptions that score best for each event.

        Without `notify` it is a question, which needs the scope `matchers:read`, takes no `seq` and is not kept under
        an Idempotency-Key. With `notify`, which needs `matchers:write`, the events are logged, each with a `seq` of
        its own, and the winners' open streams are told; under an Idempotency-Key the answer has at most 50,000 winners.

        The query parameters go with NDJSON and Arrow bodies (columns `<dimension>`, or `<dimension>_min` and
        `<dimension>_max` for ranges, and `payload` as JSON text); in JSON they are fields.
        """
        self._admit(request, READ, WRITE)
        kind, asked = bulk_query(request, _ASKED)
        self._check_k(asked.k)
        raw = await read(request)

        def parse(config: MatcherConfig) -> ReadMatch:
            return self._context.event_reader(config).read(kind, raw, asked)

        try:
            found = await self._context.parsed(request, raw, parse)
        except (Refused, Problem):
            # The matcher may have been deleted, or made anew with other dimensions, since the answer was kept.
            replay = await self._context.replayed(request, raw, numbered)
            if replay is None:
                raise
            return replay
        self._admit(request, WRITE if found.notify else READ)
        if not found.notify:
            return await _answer(found, *await self._ask(request, found))

        async def run(ticket: Ticket | None) -> Done:
            matcher = self._context.reader(request)
            self._check_room(found, matcher)
            if ticket is not None and _room(found, matcher) > MOST_KEPT:
                raise Problem(
                    "too-large",
                    f"the answer, which an Idempotency-Key keeps, would have more than {MOST_KEPT} winners: "
                    "send fewer events",
                )
            plan: MatchPlan = await self._context.submit(
                request,
                found.command,
                ticket=ticket,
                skeleton=lambda plan: Skeleton(200, {**begun(found, plan.last_seq), "results": []}),
            )
            response = await _answer(found, plan.last_seq, plan.found)
            kept = {} if ticket is None else {**begun(found, plan.last_seq), **plan.told()}
            return Done(response, kept)

        try:
            return await self._context.once(request, raw, run, numbered)
        except Refused as refused:
            raise element_refusal(refused, found.place, found.place_of) from None

    def _admit(self, request: Request, *scopes: str) -> None:
        """Refuse, with the problem 403, a key that has none of these scopes."""
        key_id = request.scope.get("key_id", ANONYMOUS)
        if not any(self._keyring.allows(key_id, scope) for scope in scopes):
            raise Problem("forbidden", f"the key does not have the scope {scopes[0]}")

    def _check_k(self, k: int | None) -> None:
        most = self._context.settings.max_k
        if k is not None and k > most:
            raise invalid("k", f"must be at most {most}")

    @staticmethod
    def _check_room(found: ReadMatch, matcher: MatcherEngine) -> None:
        if _room(found, matcher) > MOST_WINNERS:
            raise Problem("too-large", f"the answer would have more than {MOST_WINNERS} winners: send fewer events")

    async def _ask(self, request: Request, found: ReadMatch) -> tuple[int, Sequence[Winners]]:
        """The seq at which events were matched, and their winners."""
        matcher, command = self._context.reader(request), found.command
        self._check_room(found, matcher)
        short = len(command) * matcher.seconds_per_event(command.explain) <= AT_ONCE
        # What an event takes is known for as many winners as the latest ones had.
        short = short and _room(found, matcher) <= WINNERS
        # One that is just being made has its turn first, and the question after it.
        if short and matcher is self._context.engine(request):
            return await self._context.between(
                request, lambda: (matcher.seq, [matcher.winners(command.events, command.k, command.explain)])
            )
        for attempt in range(ATTEMPTS):
            try:
                plan: MatchPlan = await self._context.ask(request, lambda engine: engine.ask(command))
                return plan.last_seq, plan.found
            except LogUnavailable:
                # It waited beside writes that could not be logged. A question need not be.
                await asyncio.sleep(0.01 * attempt)
        raise Problem("busy", "the log cannot be written, and too many writes wait for it")


def _room(found: ReadMatch, matcher: MatcherEngine) -> int:
    """Winners that the answer may have."""
    return len(found.command) * min(found.command.k, matcher.subscription_count)


async def _answer(found: ReadMatch, seq: int, won: Sequence[Winners]) -> Response:
    start = opened(begun(found, seq), "results")
    if len(won) == 1 and _texts(won[0]) <= INLINE:
        whole = b"".join((start, results(won[0], found.heads(range(len(won[0].sizes)))), b"]}"))
        return json_response(whole)
    return await answer_of(streamed(start, _pieces(found, won)))


async def _pieces(found: ReadMatch, won: Sequence[Winners]) -> AsyncIterator[bytes]:
    start = 0
    for part in won:
        heads = found.heads(range(start, start + len(part.sizes)))
        start += len(part.sizes)
        if len(part.sizes):
            if _texts(part) > INLINE:
                text = await asyncio.to_thread(results, part, heads)
            else:
                text = results(part, heads)
                # Neither the writing nor the sending of a piece waits for anything: others go first here.
                await asyncio.sleep(0)
            yield bytes(text)


def _texts(part: Winners) -> int:
    """How many texts there are to be written of some winners."""
    return len(part.ids) * (1 if part.matched is None else 1 + len(part.matched.dimensions))
