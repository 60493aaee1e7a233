"""A relay with links by brute force.

Lists and dictionaries, every decision by definition, to be read as the specification of what stands after each command
and of what waits for each neighbour.

Keys of subscriptions that came in a message begin with "~". A message is a tuple of the fields of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from indexes.relays.config import Message
from tests.oracles.relays import Box, Router, matching

EPOCHS = 16


@dataclass
class Side:
    """One side of a link: what waits for the neighbour, and how far the neighbour is."""

    epoch: str | None = None
    stale: bool = True
    first: int = 0
    queue: list[dict[str, Any]] = field(default_factory=list)
    marked: int = 0
    peer: str | None = None
    expected: int = 0
    past: list[str] = field(default_factory=list)
    left: int = 0
    heard: dict[str, int] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)

    def tell(self, op: str, key: str, box: Box = ()) -> None:
        if not self.stale:
            self.queue.append({"op": op, "key": key, "box": tuple(map(tuple, box))})

    def mark_stale(self) -> None:
        self.stale = True
        self.queue = [message for message in self.queue if message["op"] == "notify"]

    def messages(self) -> list[Message]:
        """What waits, as it is to be sent."""
        found = []
        for n, message in enumerate(self.queue, self.first):
            key = message.get("key", "")
            found.append(
                Message(
                    n,
                    message["op"],
                    key.removeprefix("~"),
                    message.get("box", ()),
                    message.get("follow", 0),
                    message.get("values", ()),
                    message.get("payload"),
                    message.get("mark"),
                    bool(key) and not key.startswith("~"),
                )
            )
        return found


class RelayService:
    """`subscriptions` are by key, in order of creation: box and link."""

    def __init__(self, history: int) -> None:
        self.history = history
        self.subscriptions: dict[str, tuple[Box, str | None]] = {}
        self.sides: dict[str, Side] = {}
        self.routers: dict[str, Router] = {"": Router()}
        self.delivered: list[tuple[str, bytes | None]] = []

    # Clients.

    def subscribe(self, key: str, box: Box, link: str | None = None) -> dict[str, bool]:
        """By neighbour: whether it is forwarded."""
        self.subscriptions[key] = box, link
        told = {}
        for name, router in self.routers.items():
            if name != link:
                told[name] = router.subscribe(key, box)
                if told[name] and name:
                    self.sides[name].tell("subscribe", key, box)
        return told

    def unsubscribe(self, key: str, again: Box | None = None, link: str | None = None) -> dict[str, Any]:
        """By neighbour: whether that is forwarded, and what is promoted.

        Where it begins `again`, a neighbour that hears of the new one does not hear of the end.
        """
        _, came = self.subscriptions.pop(key)
        for side in self.sides.values():
            side.doubtful.discard(key)
        told = {}
        for name, router in self.routers.items():
            if name != came:
                was, promoted = router.unsubscribe(key)
                told[name] = was, [str(one).removeprefix("~") for one in promoted]
                for one in promoted if name else ():
                    self.sides[name].tell("subscribe", str(one), router.boxes[one])
                if was and name and (again is None or name == link or self._is_covered(router, key, again)):
                    self.sides[name].tell("unsubscribe", key)
        return told

    def _is_covered(self, router: Router, key: str, box: Box) -> bool:
        """Whether a subscription would not be forwarded."""
        return not Router(dict(router.boxes)).subscribe(key, box)

    def replace(self, key: str, box: Box, link: str | None = None) -> tuple[dict[str, Any], dict[str, bool]]:
        return self.unsubscribe(key, box, link), self.subscribe(key, box, link)

    def notify(self, values: tuple[float, ...], payload: bytes | None, link: str | None = None) -> list[str]:
        """Tell local subscriptions and queue for links; returns the links."""
        met = matching({key: box for key, (box, _) in self.subscriptions.items()}, values)
        origins = {self.subscriptions[str(key)][1] for key in met}
        self.delivered += [(str(key), payload) for key in met if self.subscriptions[str(key)][1] is None]
        links = sorted(origin for origin in origins if origin is not None and origin != link)
        for name in links:
            side = self.sides[name]
            mark = (side.epoch or "", side.marked)
            side.queue.append({"op": "notify", "values": values, "payload": payload, "mark": mark})
            side.marked += 1
        return links

    # Links.

    def add_links(self, names: list[str]) -> None:
        self.routers.pop("", None)
        for name in names:
            self.sides[name] = Side()
            self.routers[name] = self._fresh(name)

    def remove_link(self, name: str) -> None:
        del self.routers[name], self.sides[name]
        for key in [key for key, (_, link) in self.subscriptions.items() if link == name]:
            self.unsubscribe(key)
        if not self.routers:
            self.routers[""] = self._fresh("")

    def _fresh(self, name: str) -> Router:
        """A router that was told of the least that covers everything."""
        router = Router({key: box for key, (box, link) in self.subscriptions.items() if link != name or not name})
        router.forwarded = {key for key in router.boxes if not router.coverers(key)}
        return router

    def rederive(self) -> dict[str, tuple[list[str], list[str]]]:
        """By neighbour: what it has to know, and then to forget, by id, oldest first."""
        told = {}
        for name, before in list(self.routers.items()):
            after = self.routers[name] = self._fresh(name)
            new = [str(key) for key in after.boxes if key in after.forwarded - before.forwarded]
            old = [str(key) for key in after.boxes if key in before.forwarded - after.forwarded]
            for key in new if name else ():
                self.sides[name].tell("subscribe", key, after.boxes[key])
            for key in old if name else ():
                self.sides[name].tell("unsubscribe", key)
            told[name] = [key.removeprefix("~") for key in new], [key.removeprefix("~") for key in old]
        return told

    def restart(self, name: str, epoch: str) -> None:
        side, router = self.sides[name], self.routers[name]
        kept = [message for message in side.queue if message["op"] == "notify"]
        if side.epoch is None:
            kept = [{**message, "mark": (epoch, i)} for i, message in enumerate(kept)]
        else:
            side.marked = 0
        known = [key for key in router.boxes if key in router.forwarded]
        side.epoch, side.stale, side.first = epoch, False, 0
        side.queue = [{"op": "reset", "follow": len(known)}]
        for key in known:
            side.tell("subscribe", str(key), router.boxes[key])
        side.queue += kept

    def acknowledge(self, name: str, epoch: str, upto: int) -> None:
        side = self.sides[name]
        if epoch == side.epoch and not side.stale:
            if side.first <= upto <= side.first + len(side.queue):
                side.queue = side.queue[upto - side.first :]
                side.first = upto
            else:
                side.mark_stale()

    def receive(self, name: str, epoch: str, messages: list[Message]) -> int:
        """Apply what is new and in order; returns the number that is expected next."""
        side = self.sides[name]
        if epoch != side.peer:
            if epoch in side.past or not messages or messages[0].op != "reset":
                return 0
            if side.peer is not None:
                side.past = [*side.past, side.peer][-EPOCHS:]
            side.peer, side.expected, side.left = epoch, messages[0].n, 0
        for message in messages:
            if message.n < side.expected:
                continue
            if message.n > side.expected:
                break
            side.expected += 1
            self._take(name, side, message)
        return side.expected

    def _take(self, name: str, side: Side, message: Message) -> None:
        key = "~" + message.id
        resyncing = message.op == "reset" or side.left > 0
        side.left = message.follow if message.op == "reset" else max(0, side.left - 1)
        if message.op == "reset":
            side.doubtful = {k for k, (_, link) in self.subscriptions.items() if link == name and k.startswith("~")}
        elif message.op == "subscribe":
            side.doubtful.discard(key)
            if key not in self.subscriptions:
                self.subscribe(key, message.box, name)
            elif self.subscriptions[key] != (message.box, name):
                self.replace(key, message.box, name)
        elif message.op == "unsubscribe":
            if self.subscriptions.get(key, ((), ""))[1] == name:
                self.unsubscribe(key)
        else:
            known = message.mark is not None and message.mark[1] < side.heard.get(message.mark[0], 0)
            if not known:
                if message.mark is not None:
                    side.heard[message.mark[0]] = message.mark[1] + 1
                    side.heard = dict(list(side.heard.items())[-EPOCHS:])
                self.notify(message.values, message.payload, name)
        if resyncing and side.left == 0:
            for gone in [k for k in self.subscriptions if k in side.doubtful]:
                self.unsubscribe(gone)

    def bound(self) -> None:
        """After a command: history that is not worth keeping goes."""
        for name, side in self.sides.items():
            edits = sum(message["op"] != "notify" for message in side.queue)
            if edits > self.history and edits > 2 * len(self.routers[name].forwarded) + 1:
                side.mark_stale()
