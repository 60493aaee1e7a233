"""Which requests a replica passes on to its leader."""

from __future__ import annotations

from typing import Any, cast

import pytest

from app.api.fast_router import Routes
from app.api.passing import Passing
from app.main import ROUTERS


@pytest.mark.parametrize(
    ("method", "path", "passed"),
    [
        ("GET", "/v1/boards/b", False),
        ("PUT", "/v1/boards/b", True),
        ("POST", "/v1/boards/b/events", True),
        ("GET", "/v1/boards/b/zones", True),
        ("GET", "/v1/boards/b/subscriptions/s/start", True),
        ("GET", "/v1/webhooks", True),
        ("POST", "/v1/tickets", False),
        ("POST", "/v1/maps/m/top", False),
        # Names are no parts of a route.
        ("GET", "/v1/boards/zones", False),
        ("GET", "/v1/boards/b/subscriptions/start", False),
        ("GET", "/v1/boards/b/objects/probe", False),
        ("PUT", "/v1/boards/top", True),
        ("PUT", "/v1/boards/b/objects/explain", True),
        ("DELETE", "/v1/maps/skyline", True),
    ],
)
def test_what_is_passed_on_is_told_by_the_route(method: str, path: str, passed: bool) -> None:
    route = Routes(ROUTERS).find({"type": "http", "path": path}, method)
    assert route is not None
    assert Passing.is_leaders(cast(Any, None), route) is passed
