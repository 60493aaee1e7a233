"""A hub over one board, and tests that run on an event loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from app.errors import ServiceError
from tests.streaming.world import Limits, Service
from tests.support.patience import PATIENCE

Case = Callable[[], Coroutine[Any, Any, None]]


def alone(case: Case) -> Callable[[], None]:
    """Run a test on a loop of its own."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(case(), PATIENCE))

    run.__name__ = case.__name__
    return run


def ready(*, limits: Limits | None = None) -> Service:
    """One board with a subscription `mine` to the best 3, and four objects."""
    service = Service(limits=limits)
    world = service.world
    world.subscribe("mine")
    for i in range(4):
        world.put(f"o{i}", i, 10.0 * i)
    world.take_slice()
    return service


def better(service: Service, i: int) -> Callable[[], None]:
    """A change of the list of `mine`, a new one for each i."""
    return partial(service.world.put, "o0", 0, -float(i))


def assert_refuses_board_options(source: Any) -> None:
    """Tiles, previous entries and squashing are options of boards' streams; another source names the field that asks
    for one.
    """
    for given, field in (
        (("tiles", False, None), "form"),
        (("changes", True, None), "old"),
        (("changes", False, 2.5), "squash"),
    ):
        with pytest.raises(ServiceError) as refused:
            source.form(*given)
        assert [error.field for error in refused.value.errors] == [field]
