"""Work in the background: in a thread that gives way to all others."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextvars import ContextVar

import pytest

from app.runtime.priority import BACKGROUND_NICENESS, in_background

_mark: ContextVar[str] = ContextVar("mark", default="")


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own elsewhere")
def test_it_has_a_low_priority_and_nobody_else_has() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    assert asyncio.run(in_background(niceness)) == max(before, BACKGROUND_NICENESS)
    assert niceness() == before


def test_it_has_the_context_of_its_caller() -> None:
    async def story() -> str:
        _mark.set("mine")
        return await in_background(_mark.get)

    assert asyncio.run(story()) == "mine"


def test_an_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_background(lambda: 1 // 0))
