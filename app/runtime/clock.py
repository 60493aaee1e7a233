"""The service's time of day: that of the system, without its jumps.

Windows of time, idempotency keys and the log go by the time of day. A system's clock may be set by hand, by a wrong
time server, or when a virtual machine moves. If the service followed it a day ahead and back again, keys would be
forgotten, and no post would expire for a day. So time passes here as on the clock that counts the seconds since the
machine started, suspended or not, and approaches the system's time by at most a tenth of what passed: a jump of an
hour is made up for in ten. It never goes back. Jumps are logged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from app.runtime import logs

RATE = 0.1
"""How much faster or slower than time itself the system's time is approached."""

JUMP = 2.0
"""Seconds by which the system's clock moves at once where it is said to jump."""

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)

log = logs.get("clock")


_boottime: Callable[[], float] = time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
"""Gives the seconds since the machine started, those in which it was suspended included."""


class Clock:
    """A time of day, in seconds since 1970, that never jumps and never goes back.

    `wall` is the system's time of day, `passed` a clock that cannot be set.
    """

    def __init__(self, wall: Callable[[], float] = time.time, passed: Callable[[], float] = _boottime) -> None:
        self._wall = wall
        self._passed = passed
        self._at = passed()
        self._time = wall()
        self.ahead = 0.0
        """Seconds by which the system's clock is ahead, at the last look."""

    def now(self) -> float:
        """The time. O(1)."""
        at, wall = self._passed(), self._wall()
        elapsed, self._at = at - self._at, at
        # Written out, since a commit asks for the time: five calls to compare two numbers would be most of it.
        if elapsed < 0.0:
            elapsed = 0.0
        ahead = wall - (self._time + elapsed)
        if not -JUMP <= ahead - self.ahead <= JUMP:
            log.warning(
                "the system's clock jumped; time goes on and approaches it slowly",
                seconds=round(ahead - self.ahead, 3),
                ahead=round(ahead, 3),
            )
        most = RATE * elapsed
        step = most if ahead > most else -most if ahead < -most else ahead
        self._time += elapsed + step
        self.ahead = ahead - step
        return self._time

    def not_before(self, seconds: float) -> None:
        """Go on from a time that was given out before a restart, if it is later than this."""
        if seconds > self.now():
            if seconds - self._time > JUMP:
                log.warning("the system's clock is behind the log's", seconds=round(seconds - self._time, 3))
            self._time = seconds
            self.ahead = self._wall() - seconds


clock = Clock()
"""The clock of this process."""


def now() -> float:
    """The service's time of day, in seconds since 1970."""
    return clock.now()
