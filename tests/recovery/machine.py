"""What the state machines share that play commands, jobs, failures of the log and crashes on kinds of resource."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant

from app.write_path.idempotency import KeyReused, Replay, Ticket
from app.write_path.writer import Skeleton
from tests.recovery.life import Life

HASH = b"hash"


def quiet(fraction: float, step: str, /) -> None:
    """Nobody follows the job."""


class Machine(RuleBasedStateMachine):
    """A process, `life`, over a directory of its own, and what its clients were told.

    `LIMITS` are patched so low that whatever can be cut is cut. `KEYS` are those that requests may have; `kept` says in
    which row of the log the answer to a key is, and `told` what it was.
    """

    LIMITS: ClassVar[dict[str, Any]]
    KEYS: ClassVar[list[str]]
    life: Life

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.patches = ExitStack()
        for name, value in self.LIMITS.items():
            self.patches.enter_context(patch(name, value))
        self.kept: dict[str, int] = {}
        self.told: dict[str, dict[str, Any]] = {}

    def teardown(self) -> None:
        self.life.crash()
        self.patches.close()
        shutil.rmtree(self.path)

    @invariant()
    def requests_are_answered_as_the_first_time(self) -> None:
        for key in self.KEYS:
            claimed = self.life.answers.claim("", key, HASH)
            if key not in self.kept:
                assert isinstance(claimed, Ticket)
                claimed.abandon()
                continue
            assert isinstance(claimed, Replay) and claimed.status == 200
            assert self.told.setdefault(key, claimed.answer) == claimed.answer
            with pytest.raises(KeyReused):
                self.life.answers.claim("", key, b"another")

    def timing(self, in_thread: bool, in_slices: bool) -> ExitStack:
        """Commit in the commit thread, apply in the kernel thread."""
        stack = ExitStack()
        stack.enter_context(patch("app.write_path.committing.SLOW_COMMIT", -1.0 if in_thread else 1e9))
        stack.enter_context(patch("app.write_path.applying.INLINE", -1.0 if in_slices else 1e9))
        return stack

    def die(self, batch: list[Any], turns: int, in_thread: bool, in_slices: bool) -> None:
        """Crash some turns of the loop after these requests."""

        async def cut() -> None:
            playing = asyncio.ensure_future(self.play(batch))
            for _ in range(turns):
                await asyncio.sleep(0)
            playing.cancel()

        with self.timing(in_thread, in_slices):
            self.life.run(cut())
            self.life.crash()

    async def play(self, batch: list[Any]) -> list[Any]:
        """Begin all of it in this order, jobs by their names; return what was raised, None for what was done."""
        maintenance = self.life.maintenance
        jobs: dict[str, Callable[[], Awaitable[Any]]] = {
            "snapshot": lambda: maintenance.snapshot(quiet),
            "rebuild": lambda: maintenance.rebuild(quiet, None, "local"),
            "verify": lambda: maintenance.verify(quiet, None, "local"),
        }
        one_job = asyncio.Lock()

        async def job(kind: str) -> None:
            async with one_job:
                await jobs[kind]()

        begun = [asyncio.ensure_future(job(one) if isinstance(one, str) else self.write(one)) for one in batch]
        return await asyncio.gather(*begun, return_exceptions=True)

    @abstractmethod
    async def write(self, one: Any) -> None:
        """One request of a client."""

    async def once(
        self, key: str | None, skeleton: Callable[[Any], Skeleton], ask: Callable[[Ticket | None], Awaitable[Any]]
    ) -> None:
        """Send a request with this key, unless it was answered already; `ask` returns its job."""
        ticket = None
        if key is not None:
            claimed = self.life.answers.claim("", key, HASH)
            if isinstance(claimed, Replay):
                return
            ticket = claimed
        try:
            job = await ask(ticket)
        except Exception:
            if ticket is not None:
                ticket.abandon()
            raise
        if ticket is not None and key is not None:
            self.told[key] = {**skeleton(job).answer, "replayed": True}
            ticket.complete(200, skeleton(job).answer)
