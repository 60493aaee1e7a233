"""What all tests share: how hypothesis searches, and the fixtures of live services."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.gateways import start_gateway, start_nats
from tests.support.live import start_service
from tests.support.processes import processes

__all__ = ["processes", "start_gateway", "start_nats", "start_service"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In the background of a script; the processes that tests start would ignore it as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A kernel compiles at its first call, so time says nothing about an example.
_COMMON: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("default", print_blob=True, **_COMMON)
settings.register_profile("thorough", print_blob=True, max_examples=2_000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Spark's Java lives for some seconds in a test; to optimize its code takes more of them than it saves.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse two tests of one id, of which workers run the first one alone.

    Those that schemathesis makes have their operations in their names, not in their ids.
    """
    for item in items:
        operation = getattr(item, "operation_label", None)
        if operation is not None and operation not in item.nodeid:
            item._id = replace(item.id, params=operation)
    twice = [id for id, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"several tests are called {', '.join(twice[:5])}")
