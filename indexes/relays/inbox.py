"""The messages received over a link: which are new, in order, and not received in an earlier epoch. See `outbox.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import NamedTuple

from indexes.core.commands import Fault
from indexes.relays.config import MOST_ID, REVERSED, Message
from indexes.relays.outbox import EPOCHS


class Inbox(NamedTuple):
    """The progress of a neighbour: its epoch, None before its first reset, and the number expected next. `past` are its
    earlier epochs, the latest last. `left` messages that follow a reset are still to come. `heard` has, by epoch, the
    mark up to which notifications have come, the latest last."""

    epoch: str | None = None
    next: int = 0
    past: tuple[str, ...] = ()
    left: int = 0
    heard: tuple[tuple[str, int], ...] = ()

    def expects(self, epoch: str) -> int:
        """The next number that is expected of an epoch."""
        return self.next if epoch == self.epoch else 0

    def admit(self, epoch: str, messages: Sequence[Message], room: int) -> tuple[list[Message], list[bool], Inbox]:
        """The messages to be applied, whether each was received in another epoch, and the progress after them. Known
        numbers are left out; the list ends before a gap, and before more than `room` notifications."""
        now, heard = self, dict(self.heard)
        if epoch != self.epoch:
            if epoch in self.past or not messages or messages[0].op != "reset":
                return [], [], self
            past = self.past if self.epoch is None else (*self.past, self.epoch)[-EPOCHS:]
            now = self._replace(epoch=epoch, next=messages[0].n, past=past, left=0)
        found: list[Message] = []
        had: list[bool] = []
        expected, left = now.next, now.left
        for message in messages:
            if message.n < expected:
                continue
            known = message.mark is not None and message.mark[1] < heard.get(message.mark[0], 0)
            room -= message.op == "notify" and not known
            if message.n > expected or room < 0:
                break
            if message.mark is not None and not known:
                heard[message.mark[0]] = message.mark[1] + 1
            found.append(message)
            had.append(known)
            expected += 1
            left = message.follow if message.op == "reset" else max(0, left - 1)
        if not found:
            return found, had, self
        return found, had, now._replace(next=expected, left=left, heard=tuple(heard.items())[-EPOCHS:])


def message_faults(epoch: str, messages: Sequence[Message], inbox: Inbox, attributes: int) -> list[Fault]:
    """The faults of messages, in order: of each alone, and a reset in the middle of an epoch."""
    faults = []
    for i, message in enumerate(messages):
        match message.op:
            case "reset":
                if i or (epoch == inbox.epoch and message.n >= inbox.next):
                    faults.append(Fault("op", "a reset is the first message of an epoch", index=i))
            case "notify":
                if len(message.values) != attributes or not all(map(isfinite, message.values)):
                    faults.append(Fault("values", f"a finite number for each of the {attributes} attributes", index=i))
            case _:
                if not 0 < len(message.id) <= MOST_ID:
                    faults.append(Fault("id", f"has 1 to {MOST_ID} characters", index=i))
        if message.op == "subscribe" and not _is_box(message.box, attributes):
            faults.append(Fault("box", f"both ends of each of the {attributes} attributes, {REVERSED}", index=i))
        if message.n < 0 or message.follow < 0:
            faults.append(Fault("n", "cannot be negative", index=i))
    return faults


def _is_box(box: Sequence[Sequence[float]], attributes: int) -> bool:
    """Whether it has a valid side for each attribute; see `relay.wrong_sides`."""
    return len(box) == attributes and all(
        len(side) == 2 and side[0] <= side[1] and side[0] < inf and side[1] > -inf for side in box
    )
