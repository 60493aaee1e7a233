"""The order of writes that came in one after the other on one connection and are carried out side by side.

Writes share a commit where one waits for it while the next is checked already. So a write passes its turn on as soon as
the writer has accepted it, which fixes its place among the commands of its resource, and not when it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextvars import ContextVar

_current: ContextVar[Turn | None] = ContextVar("rankcast_turn", default=None)


class Turn:
    """The turn of one write, or of some that are carried out together: it begins when those before it have passed their
    own on.
    """

    __slots__ = ("_before", "_passed", "_waiting")

    def __init__(self) -> None:
        self._before: list[Turn] = []
        self._passed = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def passed(self) -> bool:
        """Whether it was passed on."""
        return self._passed

    @property
    def has_come(self) -> bool:
        """Whether `begin` would not suspend."""
        return not self._before or all(one._passed for one in self._before)

    def follow(self, before: Turn) -> None:
        """Let it begin behind another one, which began or was taken before."""
        self._before.append(before)

    async def begin(self) -> None:
        """Wait for the turn; the current task works for it from then on. Does not suspend where it has come."""
        before, self._before = self._before, []
        for one in before:
            if not one._passed:
                waiting = asyncio.get_running_loop().create_future()
                one._waiting.append(waiting)
                await waiting
        _current.set(self)

    def pass_on(self) -> None:
        """Let the next ones begin. Idempotent."""
        self._passed = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)


class Turns:
    """The last turns of one connection by what is written to, as long as they are not passed on."""

    def __init__(self) -> None:
        self._last: dict[Hashable, Turn] = {}

    def take(self, place: Hashable) -> Turn:
        """The next turn at a place; it must be given back by `leave`."""
        turn = Turn()
        self.join(place, turn)
        return turn

    def join(self, place: Hashable, turn: Turn) -> None:
        """Make a turn, which has not begun, the next one at a place here too; as with `take`."""
        before = self._last.get(place)
        if before is not None:
            turn.follow(before)
        self._last[place] = turn

    def waits(self, place: Hashable) -> bool:
        """Whether the next turn at a place would have to wait for another one."""
        last = self._last.get(place)
        return last is not None and not last.passed

    def leave(self, place: Hashable, turn: Turn) -> None:
        """Pass a turn on, and forget it."""
        turn.pass_on()
        if self._last.get(place) is turn:
            del self._last[place]


def keep() -> None:
    """Let the current task write without passing its turn on."""
    _current.set(None)


def pass_on() -> None:
    """Note that the writer has accepted what the current task writes. O(1); nothing without a turn."""
    turn = _current.get()
    if turn is not None:
        turn.pass_on()
