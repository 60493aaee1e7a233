"""The lane of small writes: which requests are taken, their groups, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from app.api.guard import ENDING, host_is_ours
from app.api.idempotency import KEY
from app.api.problems import Problem
from app.api.together.kind import Answer, Elsewhere, Kind, Place, ShortRequest
from app.runtime import logs, tracing
from app.runtime.metrics import Metrics
from app.security.callers import NOBODY_ASKED, Caller
from app.security.keyring import Keyring
from app.settings import Settings
from app.write_path.idempotency import Answers, Replay, Ticket, hash_request

MOST = 256
"""Requests of a group."""


Member = tuple[ShortRequest, Any, Ticket | None]
"""A request of a group, what it says, and its ticket where it has an Idempotency-Key."""


class Lane:
    """Takes small writes of these `kinds` and answers them, in groups."""

    def __init__(self, settings: Settings, keyring: Keyring, metrics: Metrics, ready: Callable[[], bool]) -> None:
        self.kinds: dict[Place, Kind] = {}
        self.answers = Answers()
        self._settings = settings
        self._keyring = keyring
        self._metrics = metrics
        self._ready = ready
        self._log = logs.get("requests")
        self._open = settings.access_log != "all"
        self._groups: dict[tuple[Kind, str], list[Member]] = {}

    def take(self, short: ShortRequest) -> bool:
        """Add a request that is complete to the group of its resource; False where it takes the usual way."""
        if tracing.tracer is not None or not self._open or not self._ready():
            return False
        kind = short.kind
        try:
            caller = self._caller(short, kind)
            item = kind.read(short, caller)
            ticket = self._ticket(short, caller) if short.key else None
        except Exception:
            # Whatever it is, the usual way says what is wrong with it.
            return False
        place = kind, short.name
        group = self._groups.get(place)
        if group is None:
            if not self._groups:
                short.at_end_of_turn(self._end_turn)
            self._groups[place] = [(short, item, ticket)]
        else:
            group.append((short, item, ticket))
            if len(group) >= MOST:
                self._begin(place, self._groups.pop(place))
        return True

    def _caller(self, short: ShortRequest, kind: Kind) -> Caller:
        if self._keyring.open:
            if not host_is_ours(self._settings, short.host):
                raise Elsewhere
            return NOBODY_ASKED
        caller = self._keyring.admit(short.authorization.decode("latin-1"))
        caller.require(kind.need(short.name))
        return caller

    def _ticket(self, short: ShortRequest, caller: Caller) -> Ticket:
        """What a new Idempotency-Key entitles its request to. Raises for one that came before."""
        key = short.key.decode("latin-1")
        if not KEY.fullmatch(key):
            raise Elsewhere
        row = None
        if self.answers.elsewhere(caller.id, key):
            if self.answers.remote:
                raise Elsewhere
            row = self.answers.find(caller.id, key)
        digest = hash_request(short.method, short.path, short.query.decode("latin-1"), short.body)
        ticket = self.answers.claim(caller.id, key, digest, row)
        if isinstance(ticket, Replay):
            raise Elsewhere
        return ticket

    def _end_turn(self) -> None:
        groups, self._groups = self._groups, {}
        for place, group in groups.items():
            self._begin(place, group)

    def _begin(self, place: tuple[Kind, str], group: list[Member]) -> None:
        self._metrics.requests_open.inc(len(group))
        group[0][0].run(self._run(*place, group))

    async def _run(self, kind: Kind, name: str, group: list[Member]) -> None:
        try:
            items = [item for _, item, _ in group]
            try:
                job = await kind.apply(name, items, [ticket for _, _, ticket in group])
            except Exception:
                # Nothing was changed, so that each can be carried out or refused for itself.
                answers: list[Answer | None] = [None] * len(group)
            else:
                answers = await kind.answers(job, items)
        except asyncio.CancelledError:
            self._refuse(kind, group, Problem("not-ready", ENDING))
            return
        except Exception:
            self._log.exception("requests failed", route=kind.route, name=name)
            self._refuse(kind, group, Problem("internal", "the request failed; the service's log says why"))
            return
        finally:
            self._metrics.requests_open.dec(len(group))
        observe, now = self._metrics.observe, perf_counter()
        for (short, _, ticket), answer in zip(group, answers, strict=True):
            if answer is None:
                if ticket is not None:
                    ticket.abandon()
                short.take_usual_way()
                continue
            if ticket is not None:
                ticket.complete(answer.status, answer.kept)
            short.answer(answer.status, answer.body)
            observe(short.method, kind.route, answer.status, now - short.began)

    def _refuse(self, kind: Kind, group: list[Member], problem: Problem) -> None:
        """Answer what may have been carried out."""
        response, now = problem.response(), perf_counter()
        for short, _, _ in group:
            short.answer(response.status_code, bytes(response.body), response.raw_headers)
            self._metrics.observe(short.method, kind.route, response.status_code, now - short.began)
