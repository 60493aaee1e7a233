"""The lane, which carries out short requests in groups: it takes them, closes groups, commits and answers them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Iterable
from itertools import islice
from time import perf_counter
from typing import Any, TypeAlias

from app.api.failures import problem_of, refusal_of
from app.api.guard import ENDING, host_is_ours
from app.api.idempotency import KEY
from app.api.problems import Problem
from app.api.responses import JsonResponse
from app.api.together.kind import (
    Answer,
    Elsewhere,
    Kind,
    Outcome,
    Place,
    Sent,
    Several,
    ShortBurst,
    ShortRequest,
    Verb,
)
from app.runtime import logs, tracing, write_order
from app.runtime.busy_poll import BusyPoll
from app.runtime.eager import EagerCoroutine
from app.runtime.metrics import COUNTED_TOGETHER, Metrics
from app.runtime.write_order import OrderedWrite, WriteOrder
from app.security.callers import NOBODY_ASKED, Caller
from app.security.keyring import Keyring
from app.settings import Settings
from app.write_path.idempotency import Answers, Replay, Ticket
from app.write_path.writer import Writer

LARGEST = 1 << 14
"""Most bytes of the body of a short request."""

MANY = 64
"""Requests of a turn for which no more are waited for: what their groups cost is little for each of them."""

_PARTS = 1 + 3
"""Parts between slashes of the path of a resource, such as ``/v1/boards/b``."""


Slot: TypeAlias = tuple[str, str] | tuple[str, str, WriteOrder]
"""The key of an open group: its resource, with the connection where the group waits for earlier writes of that one."""

Member: TypeAlias = tuple[Any, Any, str]
"""A request or burst of a group, what its kind has read, and the id of its caller."""


class Group:
    """Requests of one kind to the resource `place`, `count` in all; a burst is one member.

    `write` orders the group among the writes of the sockets that it `joined`, and is None if all of it came over HTTP.
    `keys` are the callers and their Idempotency-Keys. `slot` is its key in the lane. It is `fresh` while it can still
    share the commit of its turn. `lead` is the request that runs its task.
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

    def add(self, short: Sent, kind: Kind[Any], item: Any, caller_id: str) -> bool:
        """Add a request or burst; False where it does not fit in this group."""
        if self.kind is not kind or self.engine is not item.engine:
            return False
        key, connection = short.key, short.write_order
        subjects: Collection[str]
        if type(item) is Several:
            subjects = item.subjects
        else:
            subject = kind.subject(item)
            subjects = () if subject is None else (subject,)
        if not self.subjects.isdisjoint(subjects) or (key and (caller_id, key) in self.keys):
            return False
        count = self.count + short.count
        # Keys are claimed request by request, so bursts and keys do not mix.
        if count > short.verb.most or (count > len(self.members) + 1 and (key or self.keys)):
            return False
        self.count = count
        self.members.append((short, item, caller_id))
        if key:
            self.keys.add((caller_id, key))
        self.subjects.update(subjects)
        if connection is None:
            # At shutdown the server waits for tasks of HTTP requests.
            self.lead = short
        elif connection not in self.joined:
            if self.write is None:
                self.write = OrderedWrite()
            connection.join(self.place, self.write)
            self.joined.append(connection)
        return True

    def leave(self) -> None:
        """Let the next writes of its sockets begin."""
        if self.write is not None:
            for each in self.joined:
                each.remove(self.place, self.write)


class Lane:
    """Takes short requests, carries them out in groups, and answers them. Lives on the event loop.

    `largest` is the most bytes of a body. `writer` has to be set before a request is taken.
    """

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
        """The last header `Host` that was found valid."""
        self._groups: dict[Slot, Group] = {}
        self._applying: dict[tuple[str, str], list[Group]] = {}
        """By resource, the groups that are being committed and applied."""
        self._begun: list[tuple[Group, EagerCoroutine]] = []
        """The groups of this turn that wait for its commit."""
        self._tasks_too = False
        """Whether the commit is left to the next turn, because writes of this one have yet to begin in tasks."""
        self._answered: list[tuple[dict[tuple[Verb, int], list[float]], float]] = []
        """Requests that are not in the metrics yet: by verb and status when they began, and when they were answered."""
        metrics.before_reading(self._count_answered)
        self._turn_ends = False
        """Whether `_end_turn` is scheduled."""
        self._came = self._seen = 0
        """Requests that were taken in this turn, and those that `_end_turn` has seen."""
        self._taking = False
        """Whether requests are taken in this turn."""
        self._busy_poll = BusyPoll(settings.busy_poll)

    def add(self, verbs: Iterable[Verb]) -> None:
        """Take requests of these verbs. Where a method and path are there already, the new kinds are tried last."""
        for verb in verbs:
            parts = verb.route.split("/")
            at = verb.method, parts[2], parts[_PARTS], len(parts)
            if at in self._verbs:
                before = self._verbs[at]
                verb.kinds, verb.bursts = (*before.kinds, *verb.kinds), before.bursts or verb.bursts
            self._verbs[at] = self._verbs[at[0].encode(), at[1].encode(), at[2].encode(), at[3]] = verb

    def verb(self, method: Any, parts: list[Any]) -> Verb | None:
        """The verb of a method and the parts of a path, all bytes or all text; None if it has no fast path."""
        if len(parts) <= _PARTS:
            return None
        return self._verbs.get((method, parts[2], parts[_PARTS], len(parts)))

    def take(self, short: Any) -> bool:
        """Add a complete request or burst to the open group of its resource; False if it takes the slow path."""
        if not self._turn_ends:
            # Readiness is looked at once a turn: what is accepted later is checked by the writer.
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
            self._busy_poll.came = short.began
            self.writer.committer.gather()
            short.at_end_of_turn(self._end_turn)
        group = self._groups.get(place)
        if connection is not None and (group is None or connection not in group.joined) and connection.blocks(place):
            # It has to wait for earlier writes of its connection: in a group of its own it delays no other connection.
            slot = *place, connection
            group = self._groups.get(slot)
        if group is None or not group.add(short, kind, item, caller.id):
            if group is not None:
                self._begin(group)
            group = self._groups[slot] = Group(kind, place, slot, item.engine, short)
            group.add(short, kind, item, caller.id)
        self._came += short.count
        if group.count >= verb.most:
            self.writer.committer.expect_more()
            self._begin(group)
        return True

    def begin_before(self, place: tuple[str, ...], connection: WriteOrder) -> None:
        """Begin the group with requests of a connection to a resource, before a slow-path write that follows them."""
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
        """The caller of a request, if it has the right to it. Any exception sends it to the slow path."""
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
        """Carry out the groups of the turn, except those that stay open (`_waits`).

        All share one commit. A group that waits for nothing else is answered in this callback: a task, and the turns
        of the loop that it takes, would cost as much as a step of the write itself.
        """
        if self._reads_once_more():
            return
        self._turn_ends = False
        self._came = self._seen = 0
        for group in list(self._groups.values()):
            if self._groups.get(group.slot) is group and not (self._applying and self._waits(group)):
                self._begin(group)
        if self._tasks_too and self._begun:
            self._begun[0][0].lead.at_end_of_turn(self._commit)
        else:
            self._commit()

    def _reads_once_more(self) -> bool:
        """Whether the turn goes on, with another call of `_end_turn` behind the connections, which are read once more:
        of several clients that send all the time some have sent again while the others were read, and a group costs as
        much as some of its requests.

        Not for a request by itself, nor where nothing came the last time, or a group is to be committed already.
        """
        if not 1 < self._came < MANY or self._came == self._seen or self._begun or not self._groups:
            return False
        self._seen = self._came
        next(iter(self._groups.values())).lead.at_end_of_turn(self._end_turn)
        return True

    def _commit(self) -> None:
        """Commit the groups of the turn by one transaction, and resume them."""
        self._tasks_too = False
        begun, self._begun = self._begun, []
        try:
            self.writer.committer.log_gathered()
        finally:
            for group, work in begun:
                group.fresh = False
                if not work.advance():
                    group.lead.run(work.finish())
            # After the answers, which need not wait for metrics.
            self.writer.committer.count_some()
            if len(begun) == 1 and begun[0][0].count == 1:
                self._busy_poll.begin()

    def _waits(self, group: Group) -> bool:
        """Whether a group stays open, and grows, until another one of its resource is applied: it could not be
        committed earlier. Not if they share a key: the answer, that it is in progress, does not wait.
        """
        found = self._applying.get(group.place)
        if found is None:
            return False
        applying = [one for one in found if not one.fresh]
        return bool(applying) and all(group.keys.isdisjoint(one.keys) for one in applying)

    def _applied(self, place: tuple[str, str], group: Group) -> None:
        """A group has been applied, or refused: begin the groups that wait for it. O(open groups)."""
        applying = self._applying[place]
        applying.remove(group)
        if not applying:
            del self._applying[place]
            if self._groups:
                for waiting in [one for one in self._groups.values() if one.place == place]:
                    self._begin_later(waiting)

    def _begin(self, group: Group) -> None:
        """Begin a group, as far as the commit of this turn."""
        if group.write is not None and not group.write.may_begin:
            # Earlier writes of its sockets begin in tasks first.
            self._tasks_too = True
            self._begin_later(group)
            return
        work = EagerCoroutine(self._taken(group))
        if not work.advance():
            self._begun.append((group, work))

    def _begin_later(self, group: Group) -> None:
        """Begin a group in a task, in a later turn."""
        group.fresh = False
        group.lead.run(self._taken(group))

    def _taken(self, group: Group) -> Coroutine[Any, Any, None]:
        """Close a group, and return the coroutine that carries it out."""
        del self._groups[group.slot]
        self._metrics.requests_open.value += group.count
        return self._run(group)

    async def _run(self, group: Group) -> None:
        left = deque(group.members)
        counted = group.count
        if tracing.tracer is not None:
            tracing.tracer.begin_group([short for short, _, _ in left])
        tickets: list[Ticket | None] = [None] * counted
        answered: dict[tuple[Verb, int], list[float]] = {}
        try:
            if group.write is not None:
                await group.write.begin()
            if group.keys:
                tickets = await self._claim(left)
            if not left:
                return
            items = list[Any]()
            for _, item, _ in left:
                items += item.items if type(item) is Several else (item,)
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
                # Later writes of its sockets may have been accepted: on the slow path it would come after them.
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
                # `_answer` inlined, with metrics gathered: most answers come here.
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
            self._answered.append((answered, perf_counter()))
            if counted > 1 or len(self._answered) >= COUNTED_TOGETHER:
                self._count_answered()
            if group.write is not None:
                group.leave()

    def _count_answered(self) -> None:
        """Put the requests that were answered since the last call into the metrics."""
        while self._answered:
            answered, now = self._answered.pop()
            for (verb, status), began in answered.items():
                self._metrics.observe_all(verb.method, verb.route, status, [now - each for each in began])

    async def _claim(self, left: deque[Member]) -> list[Ticket | None]:
        """Claim the keys of requests, and answer those whose key was used before. Returns the tickets of the others,
        which stay in `left`."""
        tickets: list[Ticket | None] = []
        answers = self.answers
        for _ in range(len(left)):
            short, _, caller_id = left[0]
            ticket: Ticket | Replay | None = None
            refused: Exception | None = None
            if short.key:
                try:
                    stored = answers.elsewhere(caller_id, short.key)
                    row = await answers.look_up(caller_id, short.key) if stored else None
                    ticket = answers.claim(caller_id, short.key, short.digest(), row)
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
                # No later write depends on it, and the routes refuse it with all headers.
                await short.take_slow_path()
                return
            short.refuse(outcome)
        self._metrics.observe(short.verb.method, short.verb.route, status, perf_counter() - short.began)
        if short.trace is not None:
            short.trace.end(short.verb.route, status)

    def _answer_each(self, burst: ShortBurst, outcomes: list[Outcome]) -> None:
        """Answer a burst, and count it by status."""
        burst.answer_each(outcomes)
        verb, seconds = burst.verb, perf_counter() - burst.began
        statuses = Counter([one.status if isinstance(one, Answer) else one.status_code for one in outcomes])
        for status, count in statuses.items():
            self._metrics.observe_all(verb.method, verb.route, status, [seconds] * count)

    async def _take_slow_path(self, left: deque[Member], tickets: list[Ticket | None]) -> None:
        """Have the routes carry out, one by one, a group that changed nothing, before later writes of its sockets."""
        write_order.detach()
        for ticket in tickets:
            if ticket is not None:
                ticket.abandon()
        while left:
            await left.popleft()[0].take_slow_path()

    def _unexpected(self, group: Group) -> Problem:
        """Log the current exception, which is a bug, and return the problem for the group's requests."""
        short, _, _ = group.members[0]
        self._log.exception("requests failed", route=short.verb.route, name=group.place[1])
        return Problem("internal", "the request failed; the service's log says why")

    def _fail(self, left: deque[Member], problem: Problem) -> None:
        """Answer requests with a problem, although they may have been carried out."""
        now = perf_counter()
        for short, _, _ in left:
            short.fail(problem)
            took = [now - short.began] * short.count
            self._metrics.observe_all(short.verb.method, short.verb.route, problem.status_code, took)
            if short.trace is not None:
                short.trace.end(short.verb.route, problem.status_code)
