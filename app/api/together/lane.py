"""The lane of small writes: which requests are taken, their groups, and their answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from time import perf_counter
from typing import Any, TypeAlias

from app.api.failures import problem_of, refusal_of
from app.api.guard import ENDING, host_is_ours
from app.api.idempotency import KEY
from app.api.problems import Problem
from app.api.responses import JsonResponse
from app.api.together.kind import Answer, Elsewhere, Kind, Outcome, Place, Sent, ShortBurst, ShortRequest, Verb
from app.runtime import logs, tracing, write_order
from app.runtime.eager import EagerCoroutine
from app.runtime.metrics import Metrics
from app.runtime.write_order import OrderedWrite, WriteOrder
from app.security.callers import NOBODY_ASKED, Caller
from app.security.keyring import Keyring
from app.settings import Settings
from app.write_path.idempotency import Answers, Replay, Ticket
from app.write_path.writer import Writer

LARGEST = 1 << 14
"""Bytes of a body that is short."""

_PARTS = 1 + 3
"""Parts of the path of a resource, such as ``/v1/boards/b``."""


Slot: TypeAlias = tuple[str, str] | tuple[str, str, WriteOrder]
"""Where the lane has the open group of a resource, or of one connection."""

Member: TypeAlias = tuple[Any, Any, str]
"""A request or a burst of a group, what it says, and the id of who sent it."""


class Group:
    """The requests about a resource that came in one turn, with what they say and who sent them. `turn` is theirs on
    the sockets that some of them came on, None where all came over HTTP; `keys` are their Idempotency-Keys with the
    owners of these. `slot` is where the lane has it, `place` the resource. It is `fresh` while what is accepted goes
    into the same commit. A burst is one member of it, and has a `count` of its own.
    """

    __slots__ = (
        "count",
        "engine",
        "fresh",
        "joined",
        "keys",
        "kind",
        "lead",
        "members",
        "place",
        "slot",
        "subjects",
        "write",
    )

    def __init__(self, kind: Kind[Any], place: tuple[str, str], slot: Slot, engine: Any, lead: Sent) -> None:
        self.kind, self.place, self.slot, self.engine = kind, place, slot, engine
        self.lead = lead
        self.fresh = True
        self.count = 0
        self.members: list[Member] = []
        self.keys: set[tuple[str, str]] = set()
        self.subjects: set[str] = set()
        self.write: OrderedWrite | None = None
        self.joined: list[WriteOrder] = []

    def add(self, short: Sent, kind: Kind[Any], item: Any, whose: str) -> bool:
        """Add a request; False where it cannot be carried out together with those that are here."""
        if self.kind is not kind or self.engine is not item.engine:
            return False
        subject, key, connection = kind.subject(item), short.key, short.write_order
        if (subject is not None and subject in self.subjects) or (key and (whose, key) in self.keys):
            return False
        count = self.count + short.count
        # Keys are claimed one by one.
        if count > short.verb.most or (count > len(self.members) + 1 and (key or self.keys)):
            return False
        self.count = count
        self.members.append((short, item, whose))
        if key:
            self.keys.add((whose, key))
        if subject is not None:
            self.subjects.add(subject)
        if connection is None:
            # The server waits for the task of a request over HTTP.
            self.lead = short
        elif connection not in self.joined:
            if self.write is None:
                self.write = OrderedWrite()
            connection.join(self.place, self.write)
            self.joined.append(connection)
        return True

    def leave(self) -> None:
        """Give its turn back."""
        if self.write is not None:
            for each in self.joined:
                each.remove(self.place, self.write)


class Lane:
    """Takes small writes and answers them, in groups. `largest` is how many bytes a body may have. `writer` is there
    before any is taken."""

    writer: Writer

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
        self._host = b""
        """The last host that was found to be ours."""
        self._groups: dict[Slot, Group] = {}
        self._applying: dict[tuple[str, str], list[Group]] = {}
        """The groups of a resource that are on their way into the log and the engine."""
        self._begun: list[tuple[Group, EagerCoroutine]] = []
        """The groups that have begun in this turn, and wait for its commit."""
        self._tasks_too = False
        """Whether other writes that came in this turn begin in tasks, and are to share its commit."""
        self._turn_ends = False
        self._taking = False
        """Whether requests of this turn are taken."""

    def add(self, verbs: Iterable[Verb]) -> None:
        """Take such requests from now on; those of a method and path that were added before, where they are of none of
        the kinds that were."""
        for verb in verbs:
            parts = verb.route.split("/")
            at = verb.method, parts[2], parts[_PARTS], len(parts)
            if at in self._verbs:
                verb.kinds = (*self._verbs[at].kinds, *verb.kinds)
            self._verbs[at] = self._verbs[at[0].encode(), at[1].encode(), at[2].encode(), at[3]] = verb

    def verb(self, method: Any, parts: list[Any]) -> Verb | None:
        """What requests with a method and the parts of a path are, all of them bytes or text; None for other ones."""
        if len(parts) <= _PARTS:
            return None
        return self._verbs.get((method, parts[2], parts[_PARTS], len(parts)))

    def take(self, short: Any) -> bool:
        """Add a request that is complete, or a burst of some, to the group of its resource; False where it takes the
        usual way."""
        if not self._turn_ends:
            # Whether it is ready stays as it is within a turn; what is accepted later is checked by the writer.
            self._taking = self._open and self._ready()
        if not self._taking:
            return False
        if tracing.tracer is not None:
            if short.count > 1:
                return False
            short.sampling = tracing.tracer.sample(short.verb.method, short.headers())
        if short.key and not KEY.fullmatch(short.key):
            return False
        verb, caller, connection = short.verb, short.caller, short.write_order
        if caller is None or not self._keyring.open:
            try:
                caller = self._admitted(short, verb.kinds[0])
            except Exception:
                # The slow path says what is wrong with it.
                return False
        for kind in verb.kinds:
            try:
                item = kind.read(short, caller)
                break
            except Exception:  # noqa: S112
                # Another kind may take it; if none does, the slow path says what is wrong with it.
                continue
        else:
            return False
        place: tuple[str, str] = verb.resources, short.name
        slot: Slot = place
        if not self._turn_ends:
            self._turn_ends = True
            self.writer.committer.gather()
            short.at_end_of_turn(self._end_turn)
        group = self._groups.get(place)
        if connection is not None and (group is None or connection not in group.joined) and connection.blocks(place):
            # What waits for others of its connection holds up no other one.
            slot = *place, connection
            group = self._groups.get(slot)
        if group is None or not group.add(short, kind, item, caller.id):
            if group is not None:
                self._begin(group)
            group = self._groups[slot] = Group(kind, place, slot, item.engine, short)
            group.add(short, kind, item, caller.id)
        if group.count >= verb.most:
            self.writer.committer.expect_more()
            self._begin(group)
        return True

    def begin_before(self, place: tuple[str, ...], connection: WriteOrder) -> None:
        """Begin with what a connection has asked of a resource, since something else comes behind it there."""
        if len(place) != 2:
            return
        for slot in (place, (*place, connection)):
            group = self._groups.get(slot)
            if group is not None and connection in group.joined:
                if self._turn_ends:
                    self._begin(group)
                    self._tasks_too = True
                else:
                    self._begin_later(group)

    def _admitted(self, short: Sent, kind: Kind[Any]) -> Caller:
        """Who sent a request, with the right to. Any exception sends it to the slow path."""
        keyring, caller = self._keyring, short.caller
        if caller is not None:
            keyring.check(caller)
            caller.require(kind.need(short.name))
            return caller
        if keyring.open:
            if short.host != self._host:
                if not host_is_ours(self._settings, short.host):
                    raise Elsewhere
                self._host = short.host
            return NOBODY_ASKED
        caller = keyring.admit(short.authorization.decode("latin-1"))
        caller.require(kind.need(short.name))
        return caller

    def _end_turn(self) -> None:
        """Carry out the groups of the turn, but for those that wait for another one of their resource.

        All are committed at once, and one that waits for nothing else is answered there and then: a task, and the
        turns of the loop that it takes, would cost as much as a step of the write itself.
        """
        self._turn_ends = False
        for group in list(self._groups.values()):
            if self._groups.get(group.slot) is group and not (self._applying and self._waits(group)):
                self._begin(group)
        if self._tasks_too and self._begun:
            self._begun[0][0].lead.at_end_of_turn(self._commit)
        else:
            self._commit()

    def _commit(self) -> None:
        """Log what the groups of the turn change, and go on with them."""
        self._tasks_too = False
        begun, self._begun = self._begun, []
        try:
            self.writer.committer.log_gathered()
        finally:
            for group, work in begun:
                group.fresh = False
                if not work.advance():
                    group.lead.run(work.finish())
            # Behind the answers: nobody waits for it.
            self.writer.committer.count()

    def _waits(self, group: Group) -> bool:
        """Whether a group stays open until another one of its resource is applied: it could not be committed before,
        and grows meanwhile. One with a key that is in progress says so at once.
        """
        found = self._applying.get(group.place)
        if found is None:
            return False
        applying = [one for one in found if not one.fresh]
        return bool(applying) and all(group.keys.isdisjoint(one.keys) for one in applying)

    def _applied(self, place: tuple[str, str], group: Group) -> None:
        """A group has been applied, or could not be: begin with what waits for it. O(open groups)."""
        applying = self._applying[place]
        applying.remove(group)
        if not applying:
            del self._applying[place]
            if self._groups:
                for waiting in [one for one in self._groups.values() if one.place == place]:
                    self._begin_later(waiting)

    def _begin(self, group: Group) -> None:
        """Begin with a group of this turn."""
        if group.write is not None and not group.write.may_begin:
            # What it waits for begins in a task, before this one does.
            self._tasks_too = True
            self._begin_later(group)
            return
        work = EagerCoroutine(self._taken(group))
        if not work.advance():
            self._begun.append((group, work))

    def _begin_later(self, group: Group) -> None:
        """Begin with a group when those are answered that it has waited for."""
        group.fresh = False
        group.lead.run(self._taken(group))

    def _taken(self, group: Group) -> Coroutine[Any, Any, None]:
        """What carries out a group, to which nothing is added any more."""
        del self._groups[group.slot]
        self._metrics.requests_open.value += group.count
        return self._run(group)

    async def _run(self, group: Group) -> None:
        left = deque(group.members)
        counted = group.count
        if tracing.tracer is not None:
            tracing.tracer.together([short for short, _, _ in left])
        tickets: list[Ticket | None] = [None] * counted
        answered: dict[tuple[Verb, int], list[float]] = {}
        try:
            if group.write is not None:
                await group.write.begin()
            if group.keys:
                tickets = await self._claim(left)
            if not left:
                return
            items = [item for _, item, _ in left]
            place = group.place
            self._applying.setdefault(place, []).append(group)
            try:
                try:
                    job = await group.kind.apply(place[1], items, tickets)
                finally:
                    self._applied(place, group)
            except Exception as error:
                if group.write is None or not group.write.released:
                    self._metrics.requests_open.value -= counted
                    counted = 0
                    await self._take_slow_path(left, tickets)
                    return
                # It was accepted, as what came behind it on its sockets may have been: carried out now it would be
                # behind that.
                outcomes: list[Outcome] = [problem_of(error) or self._unexpected(group)] * len(tickets)
            else:
                outcomes = await group.kind.outcomes(job, items)
            rest = zip(outcomes, tickets, strict=True)
            while left:
                short, _, _ = left[0]
                if short.count > 1:
                    self._answer_each(short, [outcome for outcome, _ in islice(rest, short.count)])
                    left.popleft()
                    continue
                outcome, ticket = next(rest)
                if ticket is not None or not isinstance(outcome, Answer):
                    await self._answer(short, outcome, ticket)
                    left.popleft()
                    continue
                # As in `_answer`, and counted together: this is what most of them are.
                status = outcome.status
                short.answer(status, outcome.body)
                left.popleft()
                answered.setdefault((short.verb, status), []).append(short.began)
                if short.trace is not None:
                    short.trace.end(short.verb.route, status)
        except asyncio.CancelledError:
            self._fail(left, Problem("not-ready", ENDING))
        except Exception:
            self._fail(left, self._unexpected(group))
        finally:
            self._metrics.requests_open.value -= counted
            now = perf_counter()
            for (verb, status), began in answered.items():
                self._metrics.observe_all(verb.method, verb.route, status, [now - each for each in began])
            if group.write is not None:
                group.leave()

    async def _claim(self, left: deque[Member]) -> list[Ticket | None]:
        """Claim the keys of requests. Those whose keys came before are answered; the tickets of the others, which are
        left."""
        tickets: list[Ticket | None] = []
        answers = self.answers
        for _ in range(len(left)):
            short, _, whose = left[0]
            ticket: Ticket | Replay | None = None
            refused: Exception | None = None
            if short.key:
                try:
                    row = await answers.look_up(whose, short.key) if answers.elsewhere(whose, short.key) else None
                    ticket = answers.claim(whose, short.key, short.digest(), row)
                except Exception as error:
                    refused = error
            member = left.popleft()
            if refused is not None:
                await self._answer(short, refusal_of(refused), None)
            elif isinstance(ticket, Replay):
                replayed = bytes(JsonResponse(short.verb.replayed(ticket.answer)).body)
                await self._answer(short, Answer(ticket.status, replayed, {}), None)
            else:
                left.append(member)
                tickets.append(ticket)
        return tickets

    async def _answer(self, short: ShortRequest, outcome: Outcome, ticket: Ticket | None) -> None:
        if isinstance(outcome, Answer):
            status = outcome.status
            if ticket is not None:
                ticket.complete(status, json.loads(outcome.body) if outcome.kept is None else outcome.kept)
            short.answer(status, outcome.body)
        else:
            status = outcome.status_code
            if ticket is not None:
                ticket.abandon()
            if short.write_order is None:
                # Nothing behind it waits, and the routes say it with all headers.
                await short.take_slow_path()
                return
            short.refuse(outcome)
        self._metrics.observe(short.verb.method, short.verb.route, status, perf_counter() - short.began)
        if short.trace is not None:
            short.trace.end(short.verb.route, status)

    def _answer_each(self, burst: ShortBurst, outcomes: list[Outcome]) -> None:
        """Answer a burst, which came on a socket."""
        burst.answer_each(outcomes)
        verb, seconds = burst.verb, perf_counter() - burst.began
        statuses = Counter([one.status if isinstance(one, Answer) else one.status_code for one in outcomes])
        for status, count in statuses.items():
            self._metrics.observe_all(verb.method, verb.route, status, [seconds] * count)

    async def _take_slow_path(self, left: deque[Member], tickets: list[Ticket | None]) -> None:
        """Have what was not changed carried out or refused one by one, in order, before what is behind it."""
        write_order.detach()
        for ticket in tickets:
            if ticket is not None:
                ticket.abandon()
        while left:
            await left.popleft()[0].take_slow_path()

    def _unexpected(self, group: Group) -> Problem:
        """Log the exception at hand, which nobody expects of a group, and return what its requests are answered."""
        short, _, _ = group.members[0]
        self._log.exception("requests failed", route=short.verb.route, name=group.place[1])
        return Problem("internal", "the request failed; the service's log says why")

    def _fail(self, left: deque[Member], problem: Problem) -> None:
        """Answer what may have been carried out."""
        now = perf_counter()
        for short, _, _ in left:
            short.fail(problem)
            took = [now - short.began] * short.count
            self._metrics.observe_all(short.verb.method, short.verb.route, problem.status_code, took)
            if short.trace is not None:
                short.trace.end(short.verb.route, problem.status_code)
