"""The lane of small writes: which requests are taken, their groups, and their answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from app.api.guard import ENDING, host_is_ours
from app.api.idempotency import KEY
from app.api.problems import Problem
from app.api.together.kind import Answer, Elsewhere, Kind, Place, ShortRequest, Verb
from app.runtime import logs, tracing, turns
from app.runtime.metrics import Metrics
from app.runtime.turns import Turn, Turns
from app.security.callers import NOBODY_ASKED, Caller
from app.security.keyring import Keyring
from app.settings import Settings
from app.write_path.idempotency import Answers, Replay, Ticket

MOST = 256
"""Requests of a group."""

LARGEST = 1 << 14
"""Bytes of a body that is short."""

_PARTS = 1 + 3
"""Parts of the path of a resource, such as ``/v1/boards/b``."""


class Group:
    """The requests about a resource that came in one turn: what they say, and their tickets where they have an
    Idempotency-Key. `turn` is theirs on the sockets that some of them came on."""

    __slots__ = ("engine", "items", "joined", "kind", "lead", "place", "shorts", "tickets", "turn")

    def __init__(self, kind: Kind[Any], place: tuple[str, str], engine: Any, lead: ShortRequest) -> None:
        self.kind, self.place, self.engine = kind, place, engine
        self.lead = lead
        self.shorts: list[ShortRequest] = []
        self.items: list[Any] = []
        self.tickets: list[Ticket | None] = []
        self.turn = Turn()
        self.joined: list[Turns] = []

    def add(self, short: ShortRequest, item: Any, ticket: Ticket | None) -> None:
        """Add a request."""
        self.shorts.append(short)
        self.items.append(item)
        self.tickets.append(ticket)
        if short.turns is None:
            # The server waits for the task of a request over HTTP.
            self.lead = short
        elif short.turns not in self.joined:
            short.turns.join(self.place, self.turn)
            self.joined.append(short.turns)

    def leave(self) -> None:
        """Give its turn back."""
        for each in self.joined:
            each.leave(self.place, self.turn)


class Lane:
    """Takes small writes and answers them, in groups. `largest` is how many bytes a body may have."""

    def __init__(self, settings: Settings, keyring: Keyring, metrics: Metrics, ready: Callable[[], bool]) -> None:
        self.answers = Answers()
        # A float in a body may become longer where MessagePack becomes JSON.
        self.largest = min(LARGEST, settings.max_body // 4)
        self._verbs: dict[Place, Verb] = {}
        self._settings = settings
        self._keyring = keyring
        self._metrics = metrics
        self._ready = ready
        self._log = logs.get("requests")
        self._open = settings.access_log != "all"
        self._groups: dict[tuple[str, str], Group] = {}

    def add(self, verbs: Iterable[Verb]) -> None:
        """Take such requests from now on."""
        for verb in verbs:
            parts = verb.route.split("/")
            at = verb.method, parts[2], parts[_PARTS], len(parts)
            self._verbs[at] = self._verbs[at[0].encode(), at[1].encode(), at[2].encode(), at[3]] = verb

    def verb(self, method: Any, parts: list[Any]) -> Verb | None:
        """What requests with a method and the parts of a path are, all of them bytes or text; None for other ones."""
        if len(parts) <= _PARTS:
            return None
        return self._verbs.get((method, parts[2], parts[_PARTS], len(parts)))

    def take(self, short: ShortRequest) -> bool:
        """Add a request that is complete to the group of its resource; False where it takes the usual way."""
        if tracing.tracer is not None or not self._open or not self._ready():
            return False
        kind, name = short.verb.kind, short.name
        try:
            caller = self._caller(short, kind)
            item = kind.read(short, caller)
            ticket = self._ticket(short, caller) if short.key else None
        except Exception:
            # Whatever it is, the usual way says what is wrong with it.
            return False
        place = short.verb.route.split("/", 3)[2], name
        group = self._groups.get(place)
        if group is not None and (group.kind is not kind or group.engine is not item.engine):
            self._begin(group)
            group = None
        if group is None:
            if not self._groups:
                short.at_end_of_turn(self._end_turn)
            group = self._groups[place] = Group(kind, place, item.engine, short)
        group.add(short, item, ticket)
        if len(group.shorts) >= MOST:
            self._begin(group)
        return True

    def begin_before(self, place: tuple[str, ...], connection: Turns) -> None:
        """Begin with what a connection has asked of a resource, since something else comes behind it there."""
        group = self._groups.get(place)  # type: ignore[arg-type]
        if group is not None and connection in group.joined:
            self._begin(group)

    def _caller(self, short: ShortRequest, kind: Kind[Any]) -> Caller:
        keyring, caller = self._keyring, short.caller
        if caller is not None:
            if not keyring.open:
                keyring.check(caller)
                caller.require(kind.need(short.name))
            return caller
        if keyring.open:
            if not host_is_ours(self._settings, short.host):
                raise Elsewhere
            return NOBODY_ASKED
        caller = keyring.admit(short.authorization.decode("latin-1"))
        caller.require(kind.need(short.name))
        return caller

    def _ticket(self, short: ShortRequest, caller: Caller) -> Ticket:
        """What a new Idempotency-Key entitles its request to. Raises for one that came before."""
        key, whose = short.key, caller.id
        if not KEY.fullmatch(key):
            raise Elsewhere
        row = None
        if self.answers.elsewhere(whose, key):
            if self.answers.remote:
                raise Elsewhere
            row = self.answers.find(whose, key)
        ticket = self.answers.claim(whose, key, short.digest(), row)
        if isinstance(ticket, Replay):
            raise Elsewhere
        return ticket

    def _end_turn(self) -> None:
        for group in list(self._groups.values()):
            self._begin(group)

    def _begin(self, group: Group) -> None:
        del self._groups[group.place]
        self._metrics.requests_open.inc(len(group.shorts))
        group.lead.run(self._run(group))

    async def _run(self, group: Group) -> None:
        left = deque(zip(group.shorts, group.tickets, strict=True))
        counted = len(left)
        try:
            await group.turn.begin()
            try:
                job = await group.kind.apply(group.place[1], group.items, group.tickets)
            except Exception:
                self._metrics.requests_open.dec(counted)
                counted = 0
                await self._take_usual_way(left)
                return
            outcomes = await group.kind.outcomes(job, group.items)
            observe, now = self._metrics.observe, perf_counter()
            for outcome in outcomes:
                short, ticket = left.popleft()
                if isinstance(outcome, Answer):
                    if ticket is not None:
                        ticket.complete(outcome.status, outcome.kept)
                    short.answer(outcome.status, outcome.body)
                    observe(short.verb.method, short.verb.route, outcome.status, now - short.began)
                else:
                    if ticket is not None:
                        ticket.abandon()
                    await self._refuse(short, outcome, now)
        except asyncio.CancelledError:
            self._fail(left, Problem("not-ready", ENDING))
        except Exception:
            self._log.exception("requests failed", route=group.shorts[0].verb.route, name=group.place[1])
            self._fail(left, Problem("internal", "the request failed; the service's log says why"))
        finally:
            self._metrics.requests_open.dec(counted)
            group.leave()

    async def _take_usual_way(self, left: deque[tuple[ShortRequest, Ticket | None]]) -> None:
        """Have what was not changed carried out or refused one by one, in order, before what is behind it."""
        turns.keep()
        for _, ticket in left:
            if ticket is not None:
                ticket.abandon()
        while left:
            short, _ = left.popleft()
            await short.take_usual_way()

    async def _refuse(self, short: ShortRequest, problem: Problem, now: float) -> None:
        if short.turns is None:
            # Nothing behind it waits, and the routes say more about it.
            await short.take_usual_way()
        else:
            short.refuse(problem)
            self._metrics.observe(short.verb.method, short.verb.route, problem.status_code, now - short.began)

    def _fail(self, left: deque[tuple[ShortRequest, Ticket | None]], problem: Problem) -> None:
        """Answer what may have been carried out."""
        now = perf_counter()
        for short, _ in left:
            short.fail(problem)
            self._metrics.observe(short.verb.method, short.verb.route, problem.status_code, now - short.began)
