"""What has come over a link: which messages are new, in order, and not had in an earlier epoch. See `outbox.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from indexes.relays.model import Message
from indexes.relays.outbox import EPOCHS


class Inbox(NamedTuple):
    """How far a neighbour is: its epoch, None before its first reset, and the number that is expected next. Epochs that
    are over are `past`, the latest last. So many messages are `left` of what follows a reset. `heard` says of epochs up
    to which mark notifications have come, the latest last."""

    epoch: str | None = None
    next: int = 0
    past: tuple[str, ...] = ()
    left: int = 0
    heard: tuple[tuple[str, int], ...] = ()

    def expects(self, epoch: str) -> int:
        """The next number that is expected of an epoch."""
        return self.next if epoch == self.epoch else 0

    def admit(self, epoch: str, messages: Sequence[Message], room: int) -> tuple[list[Message], list[bool], Inbox]:
        """The messages to be applied, whether each was had in another epoch, and how far that is. Those whose numbers
        are known are left out; it ends before a hole, and before more than `room` notifications."""
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
