"""Matching events: at once where that takes no time, else in turn, and with `notify` as a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import read
from app.api.chunked_response import answer_of, numbered, opened, streamed
from app.api.context import Done, begun, begun_kept, bulk_query, element_refusal
from app.api.matchers.context import MatcherContext
from app.api.matchers.models import MatchBody, MatchEvent, MatchQuery, MatchResponse
from app.api.matchers.parsing.events import ReadMatch
from app.api.matchers.router import matchers, router
from app.api.problems import Problem, invalid
from app.api.responses import json_response
from app.api.routing import accepts, caller_of, needs
from app.errors import LogUnavailable
from app.rendering.matchers import results
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Refused
from indexes.matchers.config import MatcherConfig
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.plans.match import WINNERS, MatchPlan
from indexes.matchers.results import Winners

AT_ONCE = 0.002
"""Seconds of matching up to which it is done on the event loop: a turn of its own would take longer to come."""

INLINE = 4_000
"""Texts, each a winner's or what one dimension added, up to which they are written on the event loop: 2 ms."""

MOST_WINNERS = 1 << 25
"""Winners that an answer may have room for: some gigabytes."""

WINNER, MATCHED = 24, 8
"""The least bytes of a winner, and of what a dimension added."""

MOST_KEPT = 50_000
"""The same of an answer that is kept under an Idempotency-Key: some megabytes in the log."""

ATTEMPTS = 8
"""How often a question is repeated that was queued with writes that failed."""

_ASKED = MatchQuery()


@router.post(
    "/{matcher}/match",
    response_model=MatchResponse,
    dependencies=needs(),
    openapi_extra=accepts(MatchBody, element=MatchEvent, query=MatchQuery),
)
async def match_events(request: Request) -> Response:
    """Find the subscriptions that score best for each event.

    Without `notify` it is a question, which needs the right `read`, takes no `seq` and is not kept under an
    Idempotency-Key. With `notify`, which needs the right `publish`, the events are logged, each with a `seq` of its
    own, and the streams of the winners receive them; under an Idempotency-Key the answer has at most 50,000
    winners.

    The query parameters go with NDJSON and Arrow bodies (columns `<dimension>`, or `<dimension>_min` and
    `<dimension>_max` for ranges, and `payload` as JSON text); in JSON they may be fields instead.
    """
    context = matchers(request)
    _admit(request, "read", "publish")
    kind, asked = bulk_query(request, _ASKED)
    _check_k(context, asked.k)
    raw = await read(request)

    def parse(config: MatcherConfig) -> ReadMatch:
        return context.event_reader(config).read(kind, raw, asked)

    try:
        found = await context.parsed(request, raw, parse)
    except (Refused, Problem):
        # The matcher may have been deleted, or created again with other dimensions, since the response was kept.
        replay = await context.replayed(request, raw, numbered)
        if replay is None:
            raise
        return replay
    _admit(request, "publish" if found.notify else "read")
    if not found.notify:
        return await _answer(found, *await _ask(request, found))

    async def run(ticket: Ticket | None) -> Done:
        matcher = context.reader(request)
        _check_room(found, matcher, context.settings.max_answer)
        if ticket is not None and _room(found, matcher) > MOST_KEPT:
            raise Problem(
                "too-large",
                f"the answer, which an Idempotency-Key keeps, would have more than {MOST_KEPT} winners: "
                "send fewer events",
            )
        plan: MatchPlan = await context.submit(
            request,
            found.command,
            ticket=ticket,
            skeleton=lambda plan: Skeleton(200, {**begun_kept(found, plan.last_seq, plan.count), "results": []}),
        )
        response = await _answer(found, plan.last_seq, plan.found)
        kept = {} if ticket is None else {**begun_kept(found, plan.last_seq, plan.count), **plan.response_fields()}
        return Done(response, kept)

    try:
        return await context.once(request, raw, run, numbered)
    except Refused as refused:
        raise element_refusal(refused, found.place, found.place_of) from None


def _admit(request: Request, *rights: str) -> None:
    """Refuse, with the problem 403, a caller who has none of these rights, or to whom the winners are hidden."""
    caller, name = caller_of(request), request.path_params["matcher"]
    needs_one = [Need("matchers", right, name) for right in rights]
    if not any(caller.grants.allows(need) for need in needs_one):
        caller.require(needs_one[0])
    caller.require_whole()


def _check_k(context: MatcherContext, k: int | None) -> None:
    most = context.settings.max_k
    if k is not None and k > most:
        raise invalid("k", f"must be at most {most}")


def _check_room(found: ReadMatch, matcher: MatcherEngine, most_bytes: int) -> None:
    each = WINNER + (MATCHED * len(matcher.config.dimensions) if found.command.explain else 0)
    most = min(MOST_WINNERS, most_bytes // each)
    if _room(found, matcher) > most:
        raise Problem("too-large", f"the answer would have room for more than {most} winners: send fewer events")


async def _ask(request: Request, found: ReadMatch) -> tuple[int, Sequence[Winners]]:
    """The seq at which events were matched, and their winners."""
    context = matchers(request)
    matcher, command = context.reader(request), found.command
    _check_room(found, matcher, context.settings.max_answer)
    short = len(command) * matcher.seconds_per_event(command.explain) <= AT_ONCE
    # What an event takes is known for as many winners as the latest ones had.
    short = short and _room(found, matcher) <= WINNERS
    # One that is just being made has its turn first, and the question after it.
    if short and matcher is context.engine(request):
        return await context.between(
            request, lambda: (matcher.seq, [matcher.winners(command.events, command.k, command.explain)])
        )
    for attempt in range(ATTEMPTS):
        try:
            plan: MatchPlan = await context.ask(request, lambda engine: engine.ask(command))
            return plan.last_seq, plan.found
        except LogUnavailable:
            # It was queued with writes that could not be logged; a question need not be.
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
    return len(part.scores) * (1 if part.matched is None else 1 + len(part.matched.dimensions))
