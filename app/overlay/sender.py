"""One link's way out: a task that tells the other side what the relay's queue for it holds, until all is acknowledged.

A message stays in the queue, which is the engine's and survives a restart, until the other side has logged it. Each
answer says which number it expects next, which trims the queue. A queue that is stale begins a new epoch before
anything is sent.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Protocol

from app import logs
from app.overlay.peer import UNTAKEN, Peers, Refusal, Unanswered, encoded
from app.problems import Problem
from app.storage.log import LogUnavailable
from app.writer import Busy, Failed
from indexes.commands import Refused
from indexes.relays.commands import Acked, Restart
from indexes.relays.model import Link, Message

State = Literal["up", "down", "syncing"]

BATCH = 1_000
"""Messages in one request."""

TAKEN = 16
"""Requests that the other side takes, after one that was too large for it, before there are twice as many messages in
one again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the other side is asked again: doubling from the first to the longest, each drawn between half of that
and the whole."""

STALLS = 3
"""Times that the other side takes nothing of an epoch, after which another one begins."""

CONFLICT, TOO_LARGE = 409, 413

_FAILURES = (Unanswered, Problem, Refused, Busy, Failed, LogUnavailable)

log = logs.get("overlay")


class Queue(NamedTuple):
    """What waits for the other side under our epoch: the numbers of the first message and of the next one to come.
    `resyncing` subscriptions are still to come from there. See `indexes.relays.model.LinkView`."""

    epoch: str | None
    stale: bool
    first: int
    next: int
    resyncing: int


class Blame(NamedTuple):
    """A message that the other side does not take as it is, by its number, and what of it, if that is known."""

    message: int
    field: str | None


class Untaken(Unanswered):
    """The other side refuses a message, and so all that is behind it."""

    def __init__(self, message: Message, refusal: Refusal) -> None:
        self.blame = Blame(message.n, refusal.field)
        n, field = self.blame
        if field == "payload":
            size = len(message.payload or b"")
            why = f"the payload of message {n}, {size} bytes of JSON: raise RANKCAST_MAX_PAYLOAD there"
        elif field is not None and field.partition(".")[0] in ("values", "box"):
            why = f"{field} of message {n}: its relay has other attributes"
        elif field is not None:
            why = f"{field} of message {n}"
        elif refusal.status == TOO_LARGE:
            why = f"message {n} for its size: raise RANKCAST_MAX_BODY there"
        else:
            why = f"message {n}"
        super().__init__(f"the other side refuses {why}")


class Glimpse(NamedTuple):
    """A link between two slices of work, its queue and the first messages in it, and the relay's attributes."""

    link: Link
    queue: Queue
    messages: Sequence[Message]
    attributes: tuple[str, ...]


class Around(Protocol):
    """What a sender asks of the overlay. Links are named by relay and name."""

    peers: Peers
    quiet_seconds: float

    def identity(self, relay: str, /) -> str: ...
    def new_epoch(self) -> str: ...
    def behind(self, relay: str, link: str, /) -> list[str]:
        """Who can be reached from here but over this link."""

    def hears(self, relay: str, link: str, behind: frozenset[str], /) -> None:
        """Note who can be reached over a link. Raises the problem 409 where that closes a cycle."""

    def forget(self, relay: str, link: str, /) -> None:
        """Nobody can be reached over a link."""

    def look(self, relay: str, link: str, messages: int, /) -> Awaitable[Glimpse | None]:
        """A link as it is, with so many messages at most; None where it is gone."""

    def submit(self, relay: str, command: Any, /) -> Awaitable[Any]: ...
    def counted(self, relay: str, link: str, direction: str, messages: int, /) -> None: ...


class Gone(Exception):
    """The relay or its link is there no more."""


class Sender:
    """The way out over one link. `reason` says why it is down, `peer` who answered last, None before that. `refused` is
    the message that the other side does not take, where it is down for that: nothing is passed over, so all else waits
    behind it, and it is sent again, alone and with pauses, until the other side takes it."""

    def __init__(self, around: Around, relay: str, link: str) -> None:
        self.connected = False
        self.reason: str | None = None
        self.peer: str | None = None
        self.refused: Blame | None = None
        self._around = around
        self._relay = relay
        self._link = link
        self._batch = BATCH
        self._taken = 0
        self._upto = 0
        self._through = -1
        self._progress = True
        self._stalls = 0
        self._said: list[str] | None = None
        self._quiet_until = 0.0
        self._anew = False
        self._work = asyncio.Event()
        self._heard = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def stir(self) -> None:
        """There may be something to send."""
        self._work.set()

    def heard(self, anew: bool = False) -> None:
        """The other side is there: it has just said something, or begun `anew`: then it is asked what it has, since it
        may know nothing of what it was told."""
        if anew:
            self._anew = True
            self._work.set()
        if not self.connected:
            self._heard.set()

    def lose(self) -> None:
        """Begin as with a link that is new: it leads elsewhere."""
        self.connected, self.peer, self._said = False, None, None
        self._upto = 0
        self._heard.set()
        self._work.set()

    async def stop(self) -> None:
        """Send nothing more. What was not acknowledged stays in the queue."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def state(self, queue: Queue) -> State:
        """How the link is. It is syncing until what waited when it came up, or when an epoch began, is acknowledged,
        and while the other side still says what stands there."""
        if not self.connected:
            return "down"
        return "syncing" if queue.stale or queue.resyncing or queue.first <= self._through else "up"

    async def _run(self) -> None:
        failures = 0
        while True:
            self._work.clear()
            self._heard.clear()
            try:
                if await self._exchange():
                    failures = 0
                    continue
            except Gone:
                return
            except _FAILURES as error:
                self._fail(error)
            except Exception as error:
                log.exception("a link failed", relay=self._relay, link=self._link)
                self._fail(error)
            if self.connected and self._progress:
                failures = 0
                await _either(self._work, max(0.0, self._quiet_until - time.monotonic()))
            else:
                failures += 1
                longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))
                # However much is queued meanwhile, it is only asked again when it says something itself.
                await _either(self._heard, longest * random.uniform(0.5, 1.0))

    async def _exchange(self) -> bool:
        """Send what is first in the queue; returns whether there is more to send at once. Raises what `_run` takes."""
        around, relay, link = self._around, self._relay, self._link
        found = await self._glimpse()
        if found.queue.stale or self._stalls >= STALLS:
            # An epoch begins once there is somebody to say it to: until then the last word is what matters.
            answer = await around.peers.probe(found.link, around.identity(relay), around.behind(relay, link))
            around.hears(relay, link, answer.behind)
            await around.submit(relay, Restart(link, around.new_epoch()))
            found = await self._glimpse()
            self._through, self._stalls, self._upto = found.queue.next - 1, 0, 0
        queue, messages = found.queue, found.messages
        if queue.first < self._upto:
            messages = messages[: self._upto - queue.first]
        assert queue.epoch is not None, "a queue that is not stale has an epoch"
        behind, now = around.behind(relay, link), time.monotonic()
        if self.connected and not messages and behind == self._said and now < self._quiet_until and not self._anew:
            return False
        self._anew = False
        identity = around.identity(relay)
        try:
            body = encoded(messages, found.attributes, identity)
            answer = await around.peers.send(found.link, queue.epoch, body, identity, behind)
        except Refusal as refusal:
            if refusal.status == CONFLICT:
                around.forget(relay, link)
            if refusal.status in UNTAKEN and messages:
                self._narrow(refusal, messages)
                return True
            raise
        around.hears(relay, link, answer.behind)
        self._said, self._quiet_until = behind, time.monotonic() + around.quiet_seconds
        if not self.connected:
            self._through = max(self._through, queue.next - 1)
            self.connected, self.reason, self.peer, self.refused = True, None, answer.identity, None
            log.info("link up", relay=relay, link=link, peer=answer.identity, queue=queue.next - queue.first)
        around.counted(relay, link, "out", len(messages))
        self._taken += bool(messages)
        if self._taken >= TAKEN:
            self._taken = 0
            self._batch = min(BATCH, 2 * self._batch)
        # Who has kept to this epoch cannot expect what was never sent, or is there no more: another one begins, and
        # with pauses, since it may be the same with that one.
        possible = queue.first <= answer.next <= queue.next
        self._progress = possible and (answer.next > queue.first or not messages)
        # Who takes no more for now is asked again. Who does so from the beginning may have done with this epoch.
        self._stalls = 0 if self._progress or queue.first else self._stalls + 1
        if answer.next != queue.first:
            await around.submit(relay, Acked(link, queue.epoch, answer.next))
            return possible
        return False

    def _narrow(self, refusal: Refusal, messages: Sequence[Message]) -> None:
        """Send less at once, so that what is before the message at fault is not kept back by it. Raises `Untaken` where
        that is the first, and the refusal where it is none."""
        n = len(messages)
        if refusal.status == TOO_LARGE and n > 1:
            self._batch, self._taken = n // 2, 0
            return
        if refusal.at is None and refusal.field is not None:
            raise refusal
        known = refusal.at is not None and refusal.at < n
        less = refusal.at if known and refusal.at is not None else n // 2
        self._upto = messages[0].n + max(1, less)
        if not less:
            raise Untaken(messages[0], refusal)

    async def _glimpse(self) -> Glimpse:
        found = await self._around.look(self._relay, self._link, self._batch)
        if found is None:
            raise Gone
        return found

    def _fail(self, error: Exception) -> None:
        reason = str(error.detail if isinstance(error, Problem) else error) or type(error).__name__
        self.refused = error.blame if isinstance(error, Untaken) else None
        if self.connected or reason != self.reason:
            blame = {} if self.refused is None else self.refused._asdict()
            log.warning("link down", relay=self._relay, link=self._link, reason=reason, **blame)
        self.connected, self.reason, self._said = False, reason, None


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
