"""The sender of one link: a task that sends the messages of the relay's outbox until all are acknowledged.

A message stays in the outbox, which is the engine's and survives a restart, until the neighbour has logged it. Each
response has the number that is expected next, which trims the outbox. A stale outbox gets a new epoch before anything
is sent.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Literal, NamedTuple, Protocol

from app.errors import LogUnavailable, ServiceError
from app.links.peer import MESSAGE_REFUSED, Peers, Refusal, Unanswered, encoded
from app.runtime import logs, tracing
from app.write_path.writer import Busy, Failed
from indexes.core.commands import Refused
from indexes.relays.commands import Acked, Restart
from indexes.relays.config import Link, Message

State = Literal["up", "down", "syncing"]

BATCH = 1_000
"""Messages in one request."""

TAKEN = 16
"""Accepted requests, after one that was too large, before their number of messages is doubled again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the next attempt: doubling from the first to the longest, each drawn between half of that and the
whole."""

STALLS = 3
"""How often the neighbour accepts nothing of an epoch before another one is started."""

CONFLICT, TOO_LARGE = 409, 413

_FAILURES = (Unanswered, ServiceError, Refused, Busy, Failed, LogUnavailable)

log = logs.get("links")


class Queue(NamedTuple):
    """The outbox of a link: its epoch, the numbers of the first message and of the next one.

    `resyncing` subscriptions are still to come from the neighbour. See `indexes.relays.config.LinkView`.
    """

    epoch: str | None
    stale: bool
    first: int
    next: int
    resyncing: int


class RefusedMessage(NamedTuple):
    """A message that the neighbour refuses, by its number, and the field at fault, if that is known."""

    message: int
    field: str | None


class MessageRefused(Unanswered):
    """The neighbour refuses a message, which blocks all behind it."""

    def __init__(self, message: Message, refusal: Refusal) -> None:
        self.refused_message = RefusedMessage(message.n, refusal.field)
        n, field = self.refused_message
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


class LinkSnapshot(NamedTuple):
    """A link between two slices of work, its queue and the first messages in it, and the relay's attributes."""

    link: Link
    queue: Queue
    messages: Sequence[Message]
    attributes: tuple[str, ...]


class LinkContext(Protocol):
    """What a sender needs of the link tree. Links are named by relay and name."""

    peers: Peers
    quiet_seconds: float

    def identity(self, relay: str, /) -> str: ...
    def new_epoch(self) -> str: ...
    def behind(self, relay: str, link: str, /) -> list[str]:
        """The identities reachable without this link."""

    def note_behind(self, relay: str, link: str, behind: frozenset[str], /) -> None:
        """Note the identities behind a link. Raises the problem 409 where that closes a cycle."""

    def forget(self, relay: str, link: str, /) -> None:
        """Forget the identities behind a link."""

    def snapshot(self, relay: str, link: str, messages: int, /) -> Awaitable[LinkSnapshot | None]:
        """The state of a link, with at most so many messages; None where it was removed."""

    def submit(self, relay: str, command: Any, /) -> Awaitable[Any]: ...
    def count_messages(self, relay: str, link: str, direction: str, messages: int, /) -> None: ...


class Gone(Exception):
    """The relay or its link was deleted."""


class Sender:
    """The sender of one link.

    `reason` is why it is down, `peer` the identity of the last response. `refused` is the message that the neighbour
    refuses, if the link is down for that: no message is skipped, so all others wait behind it, and it is sent again,
    alone and with pauses, until it is accepted.
    """

    def __init__(self, tree: LinkContext, relay: str, link: str) -> None:
        self.connected = False
        self.reason: str | None = None
        self.peer: str | None = None
        self.refused: RefusedMessage | None = None
        self._tree = tree
        self._relay = relay
        self._link = link
        self._batch = BATCH
        self._taken = 0
        self._upto = 0
        self._sync_through = -1
        self._progress = True
        self._stalls = 0
        self._announced: list[str] | None = None
        self._quiet_until = 0.0
        self._resend = False
        self._causes: list[Any] = []
        self._work = asyncio.Event()
        self._contact = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Check whether there is something to send."""
        if tracing.tracer is not None:
            tracing.tracer.cause(self._causes)
        self._work.set()

    def on_contact(self, restarted: bool = False) -> None:
        """The neighbour has sent a request. If it `restarted`, send at once, since it may have lost what it got."""
        if restarted:
            self._resend = True
            self._work.set()
        if not self.connected:
            self._contact.set()

    def restart(self) -> None:
        """Start over as with a new link, since it leads elsewhere now."""
        self.connected, self.peer, self._announced = False, None, None
        self._upto = 0
        self._contact.set()
        self._work.set()

    async def stop(self) -> None:
        """Send nothing more. What was not acknowledged stays in the queue."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def state(self, queue: Queue) -> State:
        """The state of the link.

        It is syncing until the messages that waited when it came up, or when its epoch began, are acknowledged, and
        while the neighbour still sends its subscriptions.
        """
        if not self.connected:
            return "down"
        return "syncing" if queue.stale or queue.resyncing or queue.first <= self._sync_through else "up"

    async def _run(self) -> None:
        failures = 0
        while True:
            self._work.clear()
            self._contact.clear()
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
                # New messages do not shorten the pause; a request from the neighbour does.
                await _either(self._contact, longest * random.uniform(0.5, 1.0))

    async def _exchange(self) -> bool:
        """Send what is first in the queue; return whether there is more to send at once. Raises what `_run` takes."""
        tree, relay, link = self._tree, self._relay, self._link
        found = await self._snapshot()
        if found.queue.stale or self._stalls >= STALLS:
            # An epoch begins once the neighbour responds: until then only the latest state matters.
            answer = await tree.peers.probe(found.link, tree.identity(relay), tree.behind(relay, link))
            tree.note_behind(relay, link, answer.behind)
            await tree.submit(relay, Restart(link, tree.new_epoch()))
            found = await self._snapshot()
            self._sync_through, self._stalls, self._upto = found.queue.next - 1, 0, 0
        # What was noted until here has its messages in this snapshot, or needs none.
        causes, self._causes = self._causes, []
        queue, messages = found.queue, found.messages
        if queue.first < self._upto:
            messages = messages[: self._upto - queue.first]
        assert queue.epoch is not None, "a queue that is not stale has an epoch"
        behind, now = tree.behind(relay, link), time.monotonic()
        if (
            self.connected
            and not messages
            and behind == self._announced
            and now < self._quiet_until
            and not self._resend
        ):
            return False
        self._resend = False
        identity = tree.identity(relay)
        try:
            body = encoded(messages, found.attributes, identity)
            with nullcontext() if tracing.tracer is None else tracing.tracer.link(relay, link, causes):
                answer = await tree.peers.send(found.link, queue.epoch, body, identity, behind)
        except Refusal as refusal:
            if refusal.status == CONFLICT:
                tree.forget(relay, link)
            if refusal.status in MESSAGE_REFUSED and messages:
                self._narrow(refusal, messages)
                return True
            raise
        tree.note_behind(relay, link, answer.behind)
        self._announced, self._quiet_until = behind, time.monotonic() + tree.quiet_seconds
        if not self.connected:
            self._sync_through = max(self._sync_through, queue.next - 1)
            self.connected, self.reason, self.peer, self.refused = True, None, answer.identity, None
            log.info("link up", relay=relay, link=link, peer=answer.identity, queue=queue.next - queue.first)
        tree.count_messages(relay, link, "out", len(messages))
        self._taken += bool(messages)
        if self._taken >= TAKEN:
            self._taken = 0
            self._batch = min(BATCH, 2 * self._batch)
        # A neighbour in this epoch cannot expect a message that was never sent or is no longer queued: another epoch
        # begins, with pauses, since that one may fail as well.
        possible = queue.first <= answer.next <= queue.next
        self._progress = possible and (answer.next > queue.first or not messages)
        # A neighbour that accepts nothing more now may do so later; one that accepts nothing at all needs a new epoch.
        self._stalls = 0 if self._progress or queue.first else self._stalls + 1
        if answer.next != queue.first:
            await tree.submit(relay, Acked(link, queue.epoch, answer.next))
            return possible
        return False

    def _narrow(self, refusal: Refusal, messages: Sequence[Message]) -> None:
        """Send fewer messages, so that those before the one at fault get through.

        Raises `MessageRefused` where it is the first, and the refusal where it is about no message.
        """
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
            raise MessageRefused(messages[0], refusal)

    async def _snapshot(self) -> LinkSnapshot:
        found = await self._tree.snapshot(self._relay, self._link, self._batch)
        if found is None:
            raise Gone
        return found

    def _fail(self, error: Exception) -> None:
        reason = str(error.detail if isinstance(error, ServiceError) else error) or type(error).__name__
        self.refused = error.refused_message if isinstance(error, MessageRefused) else None
        if self.connected or reason != self.reason:
            refused_message = {} if self.refused is None else self.refused._asdict()
            log.warning("link down", relay=self._relay, link=self._link, reason=reason, **refused_message)
        self.connected, self.reason, self._announced = False, reason, None


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
