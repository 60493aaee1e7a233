"""Every operation of the API is a method of both clients, or is left out for a reason."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from rankcast_client import AsyncRankcast, ProblemError, Rankcast, Retry, Top, subscribe, update

LEFT_OUT = {
    "healthz": "for supervisors; `ready` says whether the service can be used",
    "metrics": "for Prometheus, in its own format",
    "admin_keys_create": "`rankcast keys` makes keys on the service's machine",
    "admin_keys_list": "`rankcast keys`",
    "admin_keys_delete": "`rankcast keys`",
    "relays_links_messages_receive": "the protocol between services",
    "relays_links_probe": "the protocol between services",
}

AT = (1.0, 2.0)
TOP = Top(3, {"kind": "weighted_sum", "weights": {"distance": 1}})

CALLS: list[Callable[[Any], Any]] = [
    lambda c: c.ready(),
    lambda c: c.replicas(),
    lambda c: c.promote(force=True),
    lambda c: c.jobs.snapshot(),
    lambda c: c.jobs.rebuild(),
    lambda c: c.jobs.verify(),
    lambda c: c.jobs.get("1"),
    lambda c: c.jobs.list(),
    lambda c: c.jobs.follow("1"),
    lambda c: c.boards(),
    lambda c: c.board("b").put(["x"], "y", ks=[1]),
    lambda c: c.board("b").patch(ks=[1]),
    lambda c: c.board("b").info(),
    lambda c: c.board("b").delete(),
    lambda c: c.board("b").top(),
    lambda c: c.board("b").explain(update("o", {"y": 1})),
    lambda c: c.board("b").publish(update("o", {"y": 1})),
    lambda c: c.board("b").upsert("o", {"x": 1, "y": 1}),
    lambda c: c.board("b").update("o", {"y": 1}),
    lambda c: c.board("b").object("o"),
    lambda c: c.board("b").objects(),
    lambda c: c.board("b").delete_object("o"),
    lambda c: c.board("b").register({"x": (1, 2)}, k=1),
    lambda c: c.board("b").put_subscription("s", {"x": (1, 2)}, k=1),
    lambda c: c.board("b").patch_subscription("s", k=1),
    lambda c: c.board("b").subscription("s"),
    lambda c: c.board("b").explain_subscription("s"),
    lambda c: c.board("b").delete_subscription("s"),
    lambda c: c.board("b").delete_subscriptions(["s"]),
    lambda c: c.board("b").subscriptions(),
    lambda c: c.board("b").watch("s"),
    lambda c: c.ticket("boards/b", ["s"]),
    lambda c: c.jobs.cancel("j1"),
    lambda c: c.webhooks.put("ops", "https://example.org/in", "boards/b", ["s"]),
    lambda c: c.webhooks.get("ops"),
    lambda c: c.webhooks.delete("ops"),
    lambda c: c.webhooks.test("ops"),
    lambda c: c.webhooks.enable("ops"),
    lambda c: c.webhooks.list(),
    lambda c: c.matchers(),
    lambda c: c.matcher("m").put(["x"], "relaxed"),
    lambda c: c.matcher("m").info(),
    lambda c: c.matcher("m").delete(),
    lambda c: c.matcher("m").register_many([{"id": "s"}]),
    lambda c: c.matcher("m").put_subscription("s", {"x": (1, 2)}),
    lambda c: c.matcher("m").patch_subscription("s", intervals={"x": None}),
    lambda c: c.matcher("m").subscription("s"),
    lambda c: c.matcher("m").delete_subscription("s"),
    lambda c: c.matcher("m").delete_subscriptions(["s"]),
    lambda c: c.matcher("m").subscriptions(),
    lambda c: c.matcher("m").match({"x": 1}),
    lambda c: c.matcher("m").wins("s"),
    lambda c: c.relays(),
    lambda c: c.relay("r").put(["x"]),
    lambda c: c.relay("r").link({"up": None}),
    lambda c: c.relay("r").info(),
    lambda c: c.relay("r").delete(),
    lambda c: c.relay("r").subscribe_many([{"id": "s"}]),
    lambda c: c.relay("r").put_subscription("s", {"x": (1, 2)}),
    lambda c: c.relay("r").patch_subscription("s", box={"x": None}),
    lambda c: c.relay("r").subscription("s"),
    lambda c: c.relay("r").delete_subscription("s"),
    lambda c: c.relay("r").delete_subscriptions(["s"]),
    lambda c: c.relay("r").subscriptions(),
    lambda c: c.relay("r").commands([subscribe("s", {"x": (1, 2)})]),
    lambda c: c.relay("r").notify({"x": 1}),
    lambda c: c.relay("r").watch("s"),
    lambda c: c.maps(),
    lambda c: c.map("m").put({"price": "low"}, (0, 0, 1, 1)),
    lambda c: c.map("m").info(),
    lambda c: c.map("m").delete(),
    lambda c: c.map("m").put_objects([]),
    lambda c: c.map("m").put_object("o", AT),
    lambda c: c.map("m").patch_object("o", location=AT),
    lambda c: c.map("m").object("o"),
    lambda c: c.map("m").objects(),
    lambda c: c.map("m").delete_object("o"),
    lambda c: c.map("m").delete_objects(["o"]),
    lambda c: c.map("m").top(AT, 3, TOP.score),
    lambda c: c.map("m").skyline(AT),
    lambda c: c.map("m").add_queries([{"question": TOP, "location": AT}]),
    lambda c: c.map("m").put_query("q", TOP, AT),
    lambda c: c.map("m").patch_query("q", k=1),
    lambda c: c.map("m").query("q"),
    lambda c: c.map("m").delete_query("q"),
    lambda c: c.map("m").delete_queries(["q"]),
    lambda c: c.map("m").queries(),
    lambda c: c.map("m").move_many([("q", AT)]),
    lambda c: c.map("m").results("q"),
    lambda c: c.feeds(),
    lambda c: c.feed("f").put((0, 0, 1, 1), window=10),
    lambda c: c.feed("f").info(),
    lambda c: c.feed("f").delete(),
    lambda c: c.feed("f").post(AT, ["ramen"]),
    lambda c: c.feed("f").posts(),
    lambda c: c.feed("f").get_post("p"),
    lambda c: c.feed("f").withdraw("p"),
    lambda c: c.feed("f").register(AT, ["ramen"]),
    lambda c: c.feed("f").put_subscription("s", AT, ["ramen"]),
    lambda c: c.feed("f").patch_subscription("s", k=1),
    lambda c: c.feed("f").subscription("s"),
    lambda c: c.feed("f").delete_subscription("s"),
    lambda c: c.feed("f").delete_subscriptions(["s"]),
    lambda c: c.feed("f").subscriptions(),
    lambda c: c.feed("f").watch("s"),
]


def operations() -> dict[str, tuple[str, re.Pattern[str]]]:
    """The method and the path of each operation, by its id."""
    described = yaml.load(Path("openapi.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {
        operation["operationId"]: (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path)))
        for path, item in described["paths"].items()
        for method, operation in item.items()
        if isinstance(operation, dict) and "operationId" in operation
    }


def operation_of(request: httpx.Request, known: dict[str, tuple[str, re.Pattern[str]]]) -> str:
    """A path without variables comes before one with."""
    found = [
        (path.pattern.count("[^/]+"), name)
        for name, (method, path) in known.items()
        if method == request.method and path.fullmatch(request.url.path)
    ]
    assert found, f"{request.method} {request.url.path} is no operation"
    return min(found)[1]


def refuse(seen: list[httpx.Request]) -> httpx.MockTransport:
    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(418, json={"type": "about:blank", "title": "Refused", "status": 418})

    return httpx.MockTransport(reply)


def check(calls: int, seen: list[httpx.Request]) -> None:
    known = operations()
    assert len(seen) == calls, "each call sends one request"
    reached = {operation_of(request, known) for request in seen}
    assert reached.isdisjoint(LEFT_OUT)
    assert sorted(known) == sorted(reached | LEFT_OUT.keys())


def test_the_blocking_client_has_every_operation() -> None:
    seen: list[httpx.Request] = []
    with Rankcast("http://rankcast.test", retry=Retry(attempts=1), transport=refuse(seen)) as client:
        for call in CALLS:
            with suppress(ProblemError):
                found = call(client)
                if hasattr(found, "__next__"):
                    next(found)
    check(len(CALLS), seen)


@pytest.mark.anyio
async def test_the_asynchronous_client_has_every_operation() -> None:
    seen: list[httpx.Request] = []
    async with AsyncRankcast("http://rankcast.test", retry=Retry(attempts=1), transport=refuse(seen)) as client:
        for call in CALLS:
            with suppress(ProblemError):
                found = call(client)
                await (found if inspect.isawaitable(found) else anext(found))
    check(len(CALLS), seen)
