"""The compiled kernels of a service: what is ready, what is being compiled, and who waits for it.

Groups that are on disk are ready at once and loaded in the background. The others are compiled in processes of their
own (`indexes.compiled.warming`), those of the main path first and in as many processes as cores, the rest at low
priority. A request that needs a group waits for it, for a bounded time; nothing else does.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

from app.errors import NotReady
from app.runtime import logs
from app.runtime.priority import be_nice, processors

WAIT_SECONDS = 30.0
"""How long a request waits for kernels that are being compiled."""

LOADING_SHARE = 0.2
"""The share of the time that loading kernels may take from a service that is busy."""

log = logs.get("kernels")


@dataclass(slots=True, eq=False)
class _State:
    """How far a group is.

    `done` is set when requests need not wait for it: it is ready, or could not be compiled beforehand and is compiled
    when it is called.
    """

    group: Any
    compiled: int = 0
    done: threading.Event = field(default_factory=threading.Event)
    waiting: list[Callable[[], object]] = field(default_factory=list)
    error: str | None = None


Progress = Callable[[str, str, float], None]
"""Called with a group, the kernel that was compiled for it or "", and the CPU seconds that it took."""


class Kernels:
    """All groups.

    `first` are resources whose main path is compiled before anything else; `progress` is called from other threads.
    With `background` what is not of the main path leaves one core and the priority to others.
    """

    def __init__(self, first: Iterable[str] = (), progress: Progress | None = None, background: bool = True) -> None:
        self._first = tuple(first)
        self._progress = progress or (lambda group, kernel, seconds: None)
        self._workers = processors()
        self._background = background
        self._lock = threading.Condition()
        self._states: dict[str, _State] = {}
        self._queue: deque[_State] = deque()
        self._processes: set[subprocess.Popen[str]] = set()
        self._stopped = False
        self._last: str | None = None
        self.ready = not compiles()
        """Whether all groups are."""

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def share(self) -> float:
        """The share of all kernels that is compiled, 0 to 1."""
        return self.share_of(self._states)

    def share_of(self, names: Iterable[str]) -> float:
        """The share of the kernels of these groups that is compiled, 0 to 1."""
        if self.ready:
            return 1.0
        return _share([self._states[name] for name in names if name in self._states])

    def serves(self, resource: str) -> bool:
        """Whether the main path of a resource is ready."""
        return self.ready or all(
            state.done.is_set()
            for state in self._states.values()
            if state.group.main and state.group.resource == resource
        )

    @property
    def serves_all(self) -> bool:
        """Whether the main path of every resource is ready."""
        return self.ready or (
            bool(self._states) and all(state.done.is_set() for state in self._states.values() if state.group.main)
        )

    def resources(self) -> dict[str, float]:
        """Each resource with the share of its main path that is compiled; it can be used from 1 on."""
        return {state.group.resource: _share([state]) for state in self._states.values() if state.group.main}

    @property
    def compiling(self) -> str | None:
        """The kernel that was compiled last, while some are still to be compiled."""
        return None if self.ready else self._last

    @property
    def failures(self) -> dict[str, str]:
        """The groups that could not be compiled, with why."""
        return {name: state.error for name, state in self._states.items() if state.error is not None}

    # --- waiting ----------------------------------------------------------------------------------------------------

    async def need(self, *names: str, seconds: float | None = WAIT_SECONDS) -> None:
        """Return once the groups of these names are ready; None waits for as long as it takes.

        Names that no group has are passed over.
        Raises the problem 503 after so many seconds, and as soon as the service is ending.
        """
        if self.ready:
            return
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        for name in names:
            state = self._states.get(name)
            if state is None or state.done.is_set():
                continue
            woken = asyncio.Event()
            self._hurry(state, partial(loop.call_soon_threadsafe, woken.set))
            try:
                await asyncio.wait_for(woken.wait(), None if deadline is None else deadline - loop.time())
            except TimeoutError:
                percent = int(100 * min(state.compiled / max(state.group.kernels, 1), 0.99))
                raise NotReady(
                    f"the kernels of {name} are being compiled ({percent}%); try again in some seconds",
                    retry_after=5,
                ) from None
            if not state.done.is_set():
                raise NotReady("the service is ending")

    def wait(self) -> None:
        """Block until everything is ready, or failed, or `stop` was called."""
        for state in list(self._states.values()):
            while not state.done.wait(0.5) and not self._stopped:
                pass

    def _hurry(self, state: _State, wake: Callable[[], object]) -> None:
        """Move a group that is waited for to the front; `wake` is called when it is done, or never will be."""
        with self._lock:
            if state.done.is_set() or self._stopped:
                wake()
                return
            state.waiting.append(wake)
            if state in self._queue:
                self._queue.remove(state)
                self._queue.appendleft(state)
                self._lock.notify_all()

    # --- compiling --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load what is on disk and to compile what is not."""
        from indexes.compiled import warming

        groups = sorted(warming.GROUPS, key=lambda group: not (group.main and group.resource in self._first))
        states = {group.name: _State(group) for group in groups}
        loaded = [state for state in states.values() if self.ready or warming.is_ready(state.group)]
        for state in loaded:
            state.compiled = state.group.kernels
            state.done.set()
        with self._lock:
            if self._stopped:
                return
            self._queue.extend(state for state in states.values() if not state.done.is_set())
            self._states = states  # as a whole: others may be looking
        if self.ready:
            return
        self._look()
        threading.Thread(target=self._load_all, args=(loaded,), name="kernel-loader", daemon=True).start()
        if self._queue:
            log.info("compiling kernels", groups=[state.group.name for state in self._queue], processes=self._workers)
            for number in range(min(self._workers, len(self._queue))):
                threading.Thread(target=self._work, args=(number,), name="kernel-compiler", daemon=True).start()

    def stop(self) -> None:
        """End the processes that compile."""
        with self._lock:
            self._stopped = True
            self._queue.clear()
            self._lock.notify_all()
            for process in self._processes:
                process.kill()
            waiting = [wake for state in self._states.values() for wake in state.waiting]
            for state in self._states.values():
                state.waiting.clear()
        for wake in waiting:
            _call(wake)

    def _load_all(self, states: list[_State]) -> None:
        for state in states:
            if self._stopped:
                return
            self._load(state, LOADING_SHARE)
        log.info("kernels loaded", groups=len(states))

    def _load(self, state: _State, share: float = 1.0) -> None:
        """Load a group into this process; one whose files are gone is compiled when it is called."""
        from indexes.compiled import warming

        try:
            warming.load(state.group, share)
        except Exception as error:
            log.warning("kernels cannot be loaded", group=state.group.name, error=f"{type(error).__name__}: {error}")

    def _goes_first(self, group: Any) -> bool:
        """Whether a group is of the path that is compiled before all else."""
        return bool(group.main and (not self._first or group.resource in self._first))

    def _next(self, number: int) -> _State | None:
        """The next group for a worker.

        One of the main path waits for no other; the rest leaves a core to the service and waits until what goes first
        is done.
        """
        with self._lock:
            while self._queue and not self._stopped:
                state = self._queue[0]
                if not self._background:
                    return self._queue.popleft()
                urgent = state.waiting or self._goes_first(state.group)
                first_done = all(self.serves(resource) for resource in self._first)
                if urgent or (first_done and (number == 0 or (state.group.main and not self._first))):
                    return self._queue.popleft()
                self._lock.wait(0.5)
            return None

    def _work(self, number: int) -> None:
        """Have one process compile one group after another."""
        process: subprocess.Popen[str] | None = None
        try:
            while (state := self._next(number)) is not None:
                if process is None:
                    process = self._spawn()
                try:
                    self._compile(process, state)
                except Exception as error:
                    state.error = f"{type(error).__name__}: {error}"
                    self._end(process)
                    process = None
                if self._stopped:
                    return
                if state.error is None:
                    self._load(state)
                else:
                    log.error("kernels cannot be compiled", group=state.group.name, error=state.error)
                self._finish(state)
        finally:
            if process is not None:
                self._end(process)

    def _spawn(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "indexes.compiled.warming"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with self._lock:
            self._processes.add(process)
            if self._stopped:
                process.kill()
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        """End a process that has nothing more to do."""
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        with self._lock:
            self._processes.discard(process)

    def _compile(self, process: subprocess.Popen[str], state: _State) -> None:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None
        if self._background and not self._goes_first(state.group):
            _be_nice(process)
        stdin.write(state.group.name + "\n")
        stdin.flush()
        for said in _lines(stdout):
            if "kernel" in said:
                state.compiled += 1
                self._last = said["kernel"]
                self._progress(state.group.name, said["kernel"], said["seconds"])
            else:
                state.error = said.get("error")
                return
        raise RuntimeError(f"the process that compiles ended with status {process.wait()}")

    def _finish(self, state: _State) -> None:
        with self._lock:
            state.done.set()
            waiting, state.waiting = state.waiting, []
            self._lock.notify_all()
        self._look()
        self._progress(state.group.name, "", 0.0)
        for wake in waiting:
            _call(wake)

    def _look(self) -> None:
        self.ready = all(state.done.is_set() for state in self._states.values())
        if self.ready:
            log.info("kernels ready")


def _share(states: Sequence[_State]) -> float:
    total = sum(state.group.kernels for state in states)
    done = sum(
        state.group.kernels if state.done.is_set() else min(state.compiled, state.group.kernels - 1) for state in states
    )
    return done / total if total else 0.0


def _lines(stream: IO[str]) -> Iterable[dict[str, Any]]:
    for line in stream:
        yield json.loads(line)


def _call(wake: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop that waited has ended
        wake()


def _be_nice(process: subprocess.Popen[str]) -> None:
    be_nice(process.pid)


def compiles() -> bool:
    """Whether kernels are compiled at all: not with ``NUMBA_DISABLE_JIT=1``."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
