"""The link tree: which relays can be reached over which links, and that these links form a tree.

Relays have an *identity* ``<service>:<relay>``. Every request over a link lists the identities *behind* it: the sender
and all that can be reached from it without this link; a change is announced over the other links. A link would close a
cycle exactly when an identity behind it is this relay, or is behind another link. That is checked three times: when a
link is added, by a probe of the neighbour; with every exchange over a link; and for every subscription received, which
must not have come over another link. The identities are not stored: after a restart each neighbour announces them with
its first request. Those behind a link that is down stay until the link is removed.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from app.errors import Cycle, ServiceError
from app.links.peer import Answer, Peers, Refusal, Unanswered
from app.links.sender import CONFLICT, LinkSnapshot, Queue, Sender
from app.runtime import logs
from app.runtime.metrics import Metrics
from app.write_path.resources import Resources
from indexes.relays.commands import Receive, Restart
from indexes.relays.config import TRAVELLED, Link, Message, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.results import LinkView
from indexes.relays.store import RelayStore

STRIDE = 250
"""Messages checked in one step of the event loop: some milliseconds."""

CUT_AFTER = 10.0
"""Seconds that a link may close a cycle, as while others are being removed, before all that came over it is dropped."""

log = logs.get("links")

LinkName = tuple[str, str]

ProbeResults = dict[tuple[str, Link], Answer | None]
"""Responses to probes of links, by the name of the link here; None for no response."""


class LinkTree:
    """The links of all relays of one service. Lives on the event loop.

    `epoch` is that of the data directory: messages under another one were sent from another history.
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
        self._senders: dict[LinkName, Sender] = {}
        self._links: dict[str, Mapping[str, Link]] = {}
        self._behind: dict[LinkName, frozenset[str]] = {}
        self._closing: dict[LinkName, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running = False
        self._messages = metrics.link_messages
        metrics.gauge("rankcast_link_up", "Whether a link's other side answers.", "link", self._ups)
        metrics.gauge("rankcast_link_refused", "Whether a link's other side refuses a message.", "link", self._refused)
        metrics.gauge("rankcast_link_queue", "Messages that wait for a link's other side.", "link", self._queues)

    # --- life cycle ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start sending. A queue whose epoch is of another history, as after a restore, is restarted first."""
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

    def enter(self, epoch: str) -> None:
        """Go on in another history, as when this service leads from now on: every queue begins again."""
        self._epoch = epoch

    def changed(self, relay: str, engine: RelayStore | None = None) -> None:
        """Apply a change of a relay: its links may have changed, or have something to send. `engine` is it, where that
        is known.
        """
        if engine is None:
            engine = self._relays.get(relay)
        if not self._running or engine is None:
            return
        links, before = engine.config.links, self._links.get(relay, {})
        if links is not before:
            self._links[relay] = links
            for name in before.keys() - links.keys():
                self._remove(relay, name)
            for name, link in links.items():
                if name in before and not link.same_peer(before[name]):
                    self.forget(relay, name)
                    self._senders[relay, name].restart()
                elif name not in before:
                    self._senders[relay, name] = Sender(self, relay, name)
        for name in links:
            self._senders[relay, name].wake()

    def dropped(self, relay: str) -> None:
        """Remove the links of a deleted relay."""
        for name in self._links.pop(relay, {}):
            self._remove(relay, name)

    def _remove(self, relay: str, link: str) -> None:
        self._spawn(self._senders.pop((relay, link)).stop())
        self.forget(relay, link)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- reachability ----------------------------------------------------------------------------------------------

    def identity(self, relay: str) -> str:
        """The identity of a relay of this service."""
        return f"{self.service}:{relay}"

    def new_epoch(self) -> str:
        """An epoch that was never used, of this history."""
        return f"{self._epoch}.{secrets.token_hex(8)}"

    def behind(self, relay: str, link: str) -> list[str]:
        """The identities reachable from this relay without this link, its own included; in order."""
        return sorted(self._reachable(relay, link))

    def _reachable(self, relay: str, link: str) -> set[str]:
        found = {self.identity(relay)}
        for (of, name), behind in self._behind.items():
            if of == relay and name != link:
                found |= behind
        return found

    def check(self, relay: str, link: str, behind: Iterable[str]) -> None:
        """Raise the problem 409 where a link behind which these are would close a cycle."""
        twice = self._reachable(relay, link).intersection(behind)
        if twice:
            raise _cycle(f"links.{link}", min(twice))

    def note_behind(self, relay: str, link: str, behind: frozenset[str]) -> None:
        """Note the identities behind a link. Raises the problem 409 where that closes a cycle."""
        place = relay, link
        if not behind or self._behind.get(place) == behind:
            return
        try:
            self.check(relay, link, behind)
        except ServiceError:
            self._cut_cycle(place)
            raise
        self._closing.pop(place, None)
        self._behind[place] = behind
        self._announce(relay, link)

    async def received(self, relay: str, link: str, behind: frozenset[str], messages: Sequence[Message]) -> None:
        """Check messages from a link, and note the identities behind it.

        Raises the problem 409 where that closes a cycle, or one of the subscriptions has come over another link
        already.
        """
        self.note_behind(relay, link, behind)
        own = f"{self.identity(relay)}:"
        for i, message in enumerate(messages):
            if i % STRIDE == STRIDE - 1:
                await asyncio.sleep(0)
            if message.op == "subscribe":
                engine = self._relays.latest(relay)
                present = engine.settled(TRAVELLED + message.id)
                if message.id.startswith(own) or (present is not None and present.link != link):
                    raise _cycle("messages", message.id)
        sender = self._senders.get((relay, link))
        if sender is not None:
            sender.on_contact(restarted=bool(messages) and messages[0].op == "reset")

    def forget(self, relay: str, link: str) -> None:
        """Forget the identities behind a link."""
        if self._behind.pop((relay, link), None):
            self._announce(relay, link)

    def _announce(self, relay: str, link: str) -> None:
        """Announce a change behind a link over the other links."""
        for (of, name), sender in self._senders.items():
            if of == relay and name != link:
                sender.wake()

    def _cut_cycle(self, place: LinkName) -> None:
        """Forget what is behind a link that closes a cycle; after `CUT_AFTER` seconds drop all that came over it."""
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
            log.warning("it cannot be dropped yet", relay=relay, link=command.link, error=str(error))

    # --- adding links -------------------------------------------------------------------------------------------------

    async def admit(
        self, relay: str, links: Mapping[str, Link], present: Mapping[str, Link], probed: ProbeResults | None = None
    ) -> None:
        """Probe the neighbours of links that are new or lead elsewhere than the present ones.

        Raises the problem 409 where one would close a cycle; no response is no reason to refuse. Neighbours in `probed`
        are not probed again, and new responses are added to it.
        """
        probed = {} if probed is None else probed
        fresh = [name for name, link in links.items() if name not in present or not link.same_peer(present[name])]
        unknown = [(name, links[name]) for name in fresh if (name, links[name]) not in probed]
        if unknown:
            answers = await asyncio.gather(*(self._probe(relay, name, link) for name, link in unknown))
            probed |= zip(unknown, answers, strict=True)
        found: dict[str, frozenset[str]] = {}
        for name in fresh:
            answer = probed[name, links[name]]
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
                raise Cycle(f"links.{name}", reason) from None
            return None
        except Unanswered:
            return None

    # --- for senders and routes ----------------------------------------------------------------------------------

    async def snapshot(self, relay: str, link: str, messages: int) -> LinkSnapshot | None:
        """The state of a link between two slices, with at most so many messages; None where it was removed."""

        def take() -> LinkSnapshot | None:
            engine = self._relays.get(relay)
            if engine is None or link not in engine.config.links:
                return None
            box = engine.outboxes[link]
            queue = Queue(box.epoch, box.stale, box.first, box.next, engine.inboxes[link].left)
            waiting = engine.messages(link, box.first, messages)
            return LinkSnapshot(engine.config.links[link], queue, waiting, engine.config.attributes)

        return await self._relays.between(relay, take)

    def submit(self, relay: str, command: Any) -> Awaitable[Any]:
        """Check, log and apply a command of a link."""
        return self._relays.submit(relay, command)

    def count_messages(self, relay: str, link: str, direction: str, messages: int) -> None:
        """Count messages sent or received over a link."""
        if messages:
            self._messages.labels(f"{relay}/{link}", direction).inc(messages)

    def describe(self, relay: str, config: RelayConfig, views: Iterable[LinkView]) -> dict[str, Any]:
        """The links of a relay for responses, without their keys."""
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
"""Prefix of the epochs of links that were cut. Those of messages have no space, so no neighbour can name such a one."""


def _cycle(field: str, who: str) -> ServiceError:
    reason = f"{who[:400]!r} can be reached another way already, or another service has this name"
    return Cycle(field, reason)
