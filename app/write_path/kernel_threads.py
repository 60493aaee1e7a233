"""The threads for long work: slices of commands, and bulk that is checked or encoded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

COUNT = 2


class KernelThreads(ThreadPoolExecutor):
    """An executor that knows whether a piece of work would begin at once."""

    def __init__(self) -> None:
        super().__init__(COUNT, "kernel")
        self._under_way: set[Future[Any]] = set()

    @property
    def free(self) -> bool:
        """Whether one of the threads has nothing to do."""
        return len(self._under_way) < COUNT

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `ThreadPoolExecutor.submit`."""
        future = super().submit(fn, *args, **kwargs)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future
