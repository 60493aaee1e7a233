"""Busy polling: after a request by itself the event loop looks for the next one for a moment without sleeping.

A client that sends one request after the other has the next one there within some ten microseconds. To sleep until then
takes longer: a virtual processor that has nothing to do is given back to its host, and comes back with cold caches.
"""

from __future__ import annotations

import asyncio
from math import inf
from time import perf_counter

from app.runtime.priority import processors


class BusyPoll:
    """Keeps the event loop from sleeping for up to `seconds` after an answer, if the request came that soon after the
    answer before it: one that waits longer costs no processor time. Never where there is one processor, which the
    client needs. Lives on the event loop.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds if processors() > 1 else 0.0
        self.came = -inf
        """When the last request came, by `time.perf_counter`."""
        self._answered = -inf
        self._polling = False

    def begin(self) -> None:
        """A request by itself is answered. O(1)."""
        soon = self.came - self._answered < self._seconds
        self._answered = perf_counter()
        if soon and not self._polling:
            self._polling = True
            asyncio.get_running_loop().call_soon(self._poll)

    def _poll(self) -> None:
        """Have the event loop look for requests, and come back here."""
        if self.came > self._answered or perf_counter() - self._answered > self._seconds:
            self._polling = False
        else:
            asyncio.get_running_loop().call_soon(self._poll)
