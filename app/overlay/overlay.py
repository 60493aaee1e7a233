"""The overlay: which relays can be reached over which links, and that these form a tree.

Relays are known by their *identity* ``<service>:<relay>``. Whoever speaks over a link says who is *behind* it, that is
itself and all who can be reached from there but over this link; a change of that goes on over the other links. A link
would close a cycle exactly when somebody behind it is here, or behind another link. It is looked for at three moments:
when a link is added, by asking the other side; with every exchange over a link; and in every subscription that comes
in, which must not have come another way. What was heard is forgotten with the process, and heard anew from each
neighbour as soon as it speaks; of one that is down, what it said last holds until its link is taken out.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from app import logs
from app.metrics import Metrics
from app.overlay.peer import Answer, Peers, Refusal, Unanswered
from app.overlay.sender import CONFLICT, Glimpse, Queue, Sender
from app.problems import FieldError, Problem
from app.resources import Resources
from indexes.relays.commands import Receive, Restart
from indexes.relays.engine import RelayEngine
from indexes.relays.model import TRAVELLED, Link, LinkView, Message, RelayConfig

STRIDE = 250
"""Messages that are looked at before others go first: some milliseconds."""

CUT_AFTER = 10.0
"""Seconds that a link may close a cycle, as it can while others are taken out, before all that came over it goes."""

log = logs.get("overlay")

Place = tuple[str, str]

Asked = dict[tuple[str, Link], Answer | None]
"""What the other sides of links answered, by the name that each is to have here; None for no answer."""


class Overlay:
    """The links of all relays of one service. Lives on the event loop.

    `epoch` is that of the data directory: what is sent under another one was sent from another history.
    """

    def __init__(
        self,
        relays: Resources[RelayEngine, RelayConfig],
        service: str | None,
        epoch: str,
        quiet_seconds: float,
        metrics: Metrics,
        peers: Peers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.service = service or f"s-{epoch[:16]}"
        self.peers = peers or Peers()
        self.quiet_seconds = quiet_seconds
        self._relays = relays
        self._epoch = epoch
        self._clock = clock
        self._senders: dict[Place, Sender] = {}
        self._links: dict[str, Mapping[str, Link]] = {}
        self._behind: dict[Place, frozenset[str]] = {}
        self._closing: dict[Place, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running = False
        self._messages = metrics.link_messages
        metrics.gauge("rankcast_link_up", "Whether a link's other side answers.", "link", self._ups)
        metrics.gauge("rankcast_link_refused", "Whether a link's other side refuses a message.", "link", self._refused)
        metrics.gauge("rankcast_link_queue", "Messages that wait for a link's other side.", "link", self._queues)

    # --- its life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to send. A queue whose epoch is of another history, as after a restore, begins anew first."""
        for relay in self._relays.names():
            engine = self._relays.get(relay)
            for name, box in [] if engine is None else list(engine.outboxes.items()):
                if box.epoch is not None and not box.epoch.startswith(f"{self._epoch}."):
                    await self._relays.submit(relay, Restart(name, self.new_epoch()))
        self._running = True
        for relay in self._relays.names():
            self.changed(relay)

    async def close(self) -> None:
        """Send nothing more."""
        self._running = False
        senders, self._senders = list(self._senders.values()), {}
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(sender.stop() for sender in senders), *self._tasks, return_exceptions=True)
        await self.peers.close()

    def changed(self, relay: str) -> None:
        """Something was applied to a relay: its links may be others, or have something to send."""
        engine = self._relays.get(relay)
        if not self._running or engine is None:
            return
        links, before = engine.config.links, self._links.get(relay, {})
        if links is not before:
            self._links[relay] = links
            for name in before.keys() - links.keys():
                self._take_out(relay, name)
            for name, link in links.items():
                if name in before and not link.same_peer(before[name]):
                    self.forget(relay, name)
                    self._senders[relay, name].lose()
                elif name not in before:
                    self._senders[relay, name] = Sender(self, relay, name)
        for name in links:
            self._senders[relay, name].stir()

    def dropped(self, relay: str) -> None:
        """A relay was deleted."""
        for name in self._links.pop(relay, {}):
            self._take_out(relay, name)

    def _take_out(self, relay: str, link: str) -> None:
        self._spawn(self._senders.pop((relay, link)).stop())
        self.forget(relay, link)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- who is where -------------------------------------------------------------------------------------------------

    def identity(self, relay: str) -> str:
        """What a relay of ours is called in the overlay."""
        return f"{self.service}:{relay}"

    def new_epoch(self) -> str:
        """An epoch that was never used, of this history."""
        return f"{self._epoch}.{secrets.token_hex(8)}"

    def behind(self, relay: str, link: str) -> list[str]:
        """Who can be reached from here but over this link, this relay among them; in order."""
        return sorted(self._but_over(relay, link))

    def _but_over(self, relay: str, link: str) -> set[str]:
        found = {self.identity(relay)}
        for (of, name), behind in self._behind.items():
            if of == relay and name != link:
                found |= behind
        return found

    def check(self, relay: str, link: str, behind: Iterable[str]) -> None:
        """Raise the problem 409 where a link behind which these are would close a cycle."""
        twice = self._but_over(relay, link).intersection(behind)
        if twice:
            raise _cycle(f"links.{link}", min(twice))

    def hears(self, relay: str, link: str, behind: frozenset[str]) -> None:
        """The other side of a link says who is behind it. Raises the problem 409 where that closes a cycle."""
        place = relay, link
        if not behind or self._behind.get(place) == behind:
            return
        try:
            self.check(relay, link, behind)
        except Problem:
            self._closes(place)
            raise
        self._closing.pop(place, None)
        self._behind[place] = behind
        self._pass_on(relay, link)

    async def received(self, relay: str, link: str, behind: frozenset[str], messages: Sequence[Message]) -> None:
        """Messages have come over a link, from who says who is behind it: some are looked at at a time. Raises the
        problem 409 where that closes a cycle, or a subscription among them has come another way already."""
        self.hears(relay, link, behind)
        own = f"{self.identity(relay)}:"
        for i, message in enumerate(messages):
            if i % STRIDE == STRIDE - 1:
                await asyncio.sleep(0)
            if message.op == "subscribe":
                engine = self._relays.latest(relay)
                standing = engine.settled(TRAVELLED + message.id)
                if message.id.startswith(own) or (standing is not None and standing.link != link):
                    raise _cycle("messages", message.id)
        sender = self._senders.get((relay, link))
        if sender is not None:
            sender.heard(anew=bool(messages) and messages[0].op == "reset")

    def forget(self, relay: str, link: str) -> None:
        """Nobody is behind a link."""
        if self._behind.pop((relay, link), None):
            self._pass_on(relay, link)

    def _pass_on(self, relay: str, link: str) -> None:
        """Who is behind a link has changed: the others are to hear of it."""
        for (of, name), sender in self._senders.items():
            if of == relay and name != link:
                sender.stir()

    def _closes(self, place: Place) -> None:
        """A link closes a cycle. For a moment that can be while others are taken out; then what came over it goes."""
        relay, link = place
        self.forget(relay, link)
        since = self._closing.setdefault(place, self._clock())
        engine = self._relays.get(relay)
        if self._clock() - since < CUT_AFTER or engine is None:
            return
        inbox = engine.inboxes.get(link)
        if inbox is not None and inbox.epoch is not None and not inbox.epoch.startswith(_CUT):
            log.warning("what came over a link that closes a cycle is dropped", relay=relay, link=link)
            epoch = _CUT + self.new_epoch()
            self._spawn(self._cut(relay, Receive(link, epoch, [Message(0, "reset", follow=0)])))

    async def _cut(self, relay: str, command: Receive) -> None:
        try:
            await self._relays.submit(relay, command)
        except Exception as error:
            log.warning("it stays for now", relay=relay, link=command.link, error=str(error))

    # --- adding links -------------------------------------------------------------------------------------------------

    async def admit(
        self, relay: str, links: Mapping[str, Link], standing: Mapping[str, Link], asked: Asked | None = None
    ) -> None:
        """Ask the other sides of links that are new, or lead elsewhere than those that stand. Raises the problem 409
        where one would close a cycle; one that does not answer is not asked for. Who was `asked` before is not asked
        again, and what is answered now is added: where that is all, nothing is waited for."""
        asked = {} if asked is None else asked
        fresh = [name for name, link in links.items() if name not in standing or not link.same_peer(standing[name])]
        unknown = [(name, links[name]) for name in fresh if (name, links[name]) not in asked]
        if unknown:
            answers = await asyncio.gather(*(self._probe(relay, name, link) for name, link in unknown))
            asked |= zip(unknown, answers, strict=True)
        found: dict[str, frozenset[str]] = {}
        for name in fresh:
            answer = asked[name, links[name]]
            if answer is None:
                continue
            kept = [other for other in links if other != name and other not in fresh]
            others = [{self.identity(relay)}, *(self._behind.get((relay, other), frozenset()) for other in kept)]
            for known in [*others, *found.values()]:
                if twice := answer.behind & known:
                    raise _cycle(f"links.{name}", min(twice))
            found[name] = answer.behind

    async def _probe(self, relay: str, name: str, link: Link) -> Answer | None:
        try:
            return await self.peers.probe(link, self.identity(relay), self.behind(relay, name))
        except Refusal as refusal:
            if refusal.status == CONFLICT:
                reason = "the other side says that it would close a cycle"
                raise Problem("cycle", reason, [FieldError(f"links.{name}", reason)]) from None
            return None
        except Unanswered:
            return None

    # --- what senders and routes ask ----------------------------------------------------------------------------------

    async def look(self, relay: str, link: str, messages: int) -> Glimpse | None:
        """A link as it is between two slices, with so many messages at most; None where it is gone."""

        def glimpse() -> Glimpse | None:
            engine = self._relays.get(relay)
            if engine is None or link not in engine.config.links:
                return None
            box = engine.outboxes[link]
            queue = Queue(box.epoch, box.stale, box.first, box.next, engine.inboxes[link].left)
            waiting = engine.messages(link, box.first, messages)
            return Glimpse(engine.config.links[link], queue, waiting, engine.config.attributes)

        return await self._relays.between(relay, glimpse)

    def submit(self, relay: str, command: Any) -> Awaitable[Any]:
        """Check, log and apply a command of a link."""
        return self._relays.submit(relay, command)

    def counted(self, relay: str, link: str, direction: str, messages: int) -> None:
        """So many messages went over a link."""
        if messages:
            self._messages.labels(f"{relay}/{link}", direction).inc(messages)

    def shown(self, relay: str, config: RelayConfig, views: Iterable[LinkView]) -> dict[str, Any]:
        """The links of a relay as they are shown, without their keys."""
        by_name = {view.name: view for view in views}
        found = {}
        for name in sorted(config.links):
            link, view, sender = config.links[name], by_name.get(name), self._senders.get((relay, name))
            one: dict[str, Any] = {"url": link.url, "relay": link.relay, "link": link.link, "state": "down"}
            if view is not None and sender is not None:
                one["state"] = sender.state(Queue(view.epoch, view.stale, view.first, view.next, view.resyncing))
            if sender is not None and sender.reason is not None:
                one["reason"] = sender.reason
            if sender is not None and sender.refused is not None:
                one["refused"] = sender.refused._asdict()
            one |= {"queue": 0 if view is None else view.queue, "next": 0 if view is None else view.next}
            if sender is not None and sender.peer is not None:
                one["peer"] = sender.peer
            found[name] = one
        return found

    def _ups(self) -> dict[str, float]:
        return {f"{relay}/{link}": float(sender.connected) for (relay, link), sender in self._senders.items()}

    def _refused(self) -> dict[str, float]:
        refused = ((place, sender.refused is not None) for place, sender in self._senders.items())
        return {f"{relay}/{link}": float(is_refused) for (relay, link), is_refused in refused}

    def _queues(self) -> dict[str, float]:
        found = {}
        for relay in self._links:
            engine = self._relays.get(relay)
            for name, box in [] if engine is None else list(engine.outboxes.items()):
                found[f"{relay}/{name}"] = float(len(box))
        return found


_CUT = "cut "
"""How epochs begin under which nothing is said: that of a link that closed a cycle. One that travels has no space in
it, so no neighbour can name such a one."""


def _cycle(field: str, who: str) -> Problem:
    reason = f"{who[:400]!r} can be reached another way already, or another service has this name"
    return Problem("cycle", reason, [FieldError(field, reason)])
