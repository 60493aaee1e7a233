"""Who may do what: every route against every scope, prefixes of tokens, tickets, and other origins."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from fastapi import params

from app.api.routing import DirectRoute
from app.main import ROUTERS
from app.resource_names import RESOURCES

SIGNS = "0123456789abcdef0123456789abcdef"
RIGHTS = ("read", "subscribe", "publish", "write")
INCLUDED = {"read": {"read"}, "subscribe": {"subscribe", "read"}, "publish": {"publish"}, "write": set(RIGHTS)}
NDJSON = "application/x-ndjson"
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]}


def routes() -> Iterator[tuple[str, str, str | None]]:
    """Method, path and scope of every route that asks for a key; None is any key."""
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, DirectRoute):
                security = [one for one in route.dependencies if isinstance(one, params.Security)]
                for method in sorted(route.methods) if security else ():
                    yield method, route.path, next(iter(security[0].scopes or ()), None)


TABLE = list(routes())
SCOPES = [f"{of}{name}:{right}" for of in RESOURCES for right in RIGHTS for name in ("", "/mine", "/other")]
SCOPES += ["admin", "relays/mine:link.north", "relays/other:link.north", "relays/mine:link.south"]


def expected(scope: str, needed: str | None, path: str) -> bool:
    """Whether a key with one scope may take a route on the resource `mine`, behind the link `north`."""
    if needed is None or scope == "admin":
        # A match says itself what it needs.
        return not path.endswith("/match") or scope in ("admin", *MATCHES)
    if needed == "admin":
        return False
    of, _, right = needed.rpartition(":")
    of = of.partition("/")[0]
    given, _, has = scope.rpartition(":")
    given_of, _, name = given.partition("/")
    if right.startswith("link."):
        return scope == "relays/mine:link.north"
    about_one = "{" + of.removesuffix("s") + "}" in path
    return of == given_of and (name in ("", "mine") or not about_one) and right in INCLUDED.get(has, ())


MATCHES = [f"matchers{name}:{right}" for name in ("", "/mine") for right in RIGHTS if right != "subscribe"]
MATCHES += ["matchers:subscribe", "matchers/mine:subscribe"]


@pytest.fixture
def ring(client: Any) -> tuple[Any, dict[str, str]]:
    """A client of a service with an admin, and a key for each scope."""
    admin = client.post("/v1/admin/keys", json={"name": "all", "scopes": ["admin"]}).json()["key"]
    keys = {"admin": admin}
    for scope in SCOPES:
        if scope != "admin":
            made = client.post("/v1/admin/keys", json={"name": "one", "scopes": [scope]}, headers=bearer(admin))
            keys[scope] = made.json()["key"]
    return client, keys


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_every_route_against_every_scope(ring: tuple[Any, dict[str, str]]) -> None:
    """On a resource that is not there, so that what is let in is refused later and changes nothing."""
    client, keys = ring
    assert len(TABLE) > 90
    for method, template, needed in TABLE:
        path = template
        for noun in ("board", "matcher", "relay", "map", "feed"):
            path = path.replace("{" + noun + "}", "mine")
        path = path.replace("{link}", "north").replace("{id}", "nothing")
        if needed == "admin" and method == "POST":
            # These would do something: what is not admin is refused before.
            allowed = [scope for scope in SCOPES if scope != "admin"]
        else:
            allowed = SCOPES
        for scope in allowed:
            answer = client.request(method, path, headers=bearer(keys[scope]))
            assert (answer.status_code not in (401, 403)) == expected(scope, needed, template), (method, path, scope)
        assert client.request(method, path).status_code == 401, (method, path)


def token(**claims: Any) -> str:
    return jwt.encode({"exp": time.time() + 60, **claims}, SIGNS, "HS256")


@pytest.fixture
def site(make_client: Any) -> tuple[Any, dict[str, str]]:
    """A service that takes tokens, with a board and subscriptions of two prefixes; and the header of an admin."""
    open_one = make_client()
    admin = open_one.post("/v1/admin/keys", json={"name": "all", "scopes": ["admin"]}).json()["key"]
    open_one.__exit__(None, None, None)
    client = make_client(jwt_secret=SIGNS, cors_origins="https://app.example")
    ops = bearer(admin)
    assert client.put("/v1/boards/b", json=BOARD, headers=ops).status_code == 201
    made = [{"id": id, "range": {"x": [0, 9]}, "k": 3} for id in ("u1.a", "u1.b", "u2.a", "u", "v")]
    assert client.post("/v1/boards/b/subscriptions", json={"subscriptions": made}, headers=ops).status_code == 201
    return client, ops


def test_a_token_sees_the_ids_with_its_prefix_alone(site: tuple[Any, dict[str, str]]) -> None:
    client, ops = site
    mine = bearer(token(scope="boards:subscribe boards:publish", prefix="u1."))
    base = "/v1/boards/b/subscriptions"
    page = client.get(base, headers=mine).json()
    assert [one["id"] for one in page["items"]] == ["u1.a", "u1.b"] and page["next"] is None
    first = client.get(f"{base}?limit=1", headers=mine).json()
    assert [one["id"] for one in first["items"]] == ["u1.a"] and first["next"] is not None
    second = client.get(f"{base}?limit=1&cursor={first['next']}", headers=mine).json()
    assert [one["id"] for one in second["items"]] == ["u1.b"] and second["next"] is None
    whole = {"range": {"x": [1, 2]}, "k": 3}
    for method, path, body in (
        ("GET", f"{base}/u2.a", None),
        ("PUT", f"{base}/u2.new", whole),
        ("PATCH", f"{base}/u2.a", {"k": 3}),
        ("DELETE", f"{base}/u2.a", None),
        ("GET", f"{base}/u2.a/stream", None),
        ("POST", base, {"subscriptions": [{"id": "u1.c", **whole}, {"id": "u3", **whole}]}),
        ("POST", base, {"subscriptions": [whole]}),
        ("POST", f"{base}/delete", {"ids": ["u1.a", "u2.a"]}),
        ("GET", f"{base}/u1.a/explain", None),
        ("POST", "/v1/boards/b/explain", {"event": {"op": "upsert", "id": "o", "values": {"x": 1, "y": 1}}}),
        ("POST", "/v1/boards/b/events", {"events": [{"op": "upsert", "id": "o", "values": {"x": 1, "y": 1}}]}),
    ):
        assert client.request(method, path, json=body, headers=mine).status_code == 403, (method, path)
    assert client.get("/v1/boards/b", headers=ops).json()["seq"] == 5, "nothing of that has changed anything"
    assert client.put(f"{base}/u1.c", json=whole, headers=mine).status_code == 201
    counted = {"messages": "count", "events": [{"op": "upsert", "id": "o", "values": {"x": 1, "y": 1}}]}
    assert client.post("/v1/boards/b/events", json=counted, headers=mine).status_code == 200
    assert client.post(f"{base}/delete", json={"ids": ["u1.a", "u1.none"]}, headers=mine).json()["deleted"] == 1


def test_a_list_of_resources_has_those_that_a_scope_names(site: tuple[Any, dict[str, str]]) -> None:
    client, ops = site
    client.put("/v1/boards/c", json=BOARD, headers=ops)
    for scope, names in (("boards:read", ["b", "c"]), ("boards/c:read", ["c"]), ("boards/x:read", [])):
        page = client.get("/v1/boards", headers=bearer(token(scope=scope))).json()
        assert [one["name"] for one in page["items"]] == names, scope


def test_tokens_that_are_not_taken(site: tuple[Any, dict[str, str]]) -> None:
    client, _ = site
    for text in (
        token(scope="boards:read", exp=1),
        jwt.encode({"scope": "boards:read"}, SIGNS, "HS256"),
        jwt.encode({"exp": time.time() + 60, "scope": "boards:read"}, "x" * 32, "HS256"),
    ):
        assert client.get("/v1/boards", headers=bearer(text)).status_code == 401
    assert client.get("/v1/admin/keys", headers=bearer(token(scope="admin"))).status_code == 403


def test_tickets_are_given_for_what_one_may_read(site: tuple[Any, dict[str, str]]) -> None:
    client, ops = site
    mine = bearer(token(scope="boards/b:read", prefix="u1."))
    made = client.post("/v1/tickets", json={"resource": "boards/b", "ids": ["u1.a"]}, headers=mine)
    assert made.status_code == 201 and made.json().keys() == {"ticket", "expires"}
    for body, status in (
        ({"resource": "boards/b", "ids": ["u2.a"]}, 403),
        ({"resource": "boards/c", "ids": ["u1.a"]}, 403),
        ({"resource": "maps/b"}, 403),
        ({"resource": "nothing/b"}, 422),
        ({"resource": "boards/b", "seconds": 3_601}, 422),
        ({"resource": "boards/b", "seconds": 0}, 422),
        ({"resource": "boards/b", "ids": []}, 422),
        ({}, 422),
    ):
        assert client.post("/v1/tickets", json=body, headers=mine).status_code == status, body
    assert client.post("/v1/tickets", json={"resource": "boards/none"}, headers=ops).status_code == 422
    assert client.post("/v1/tickets", json={"resource": "boards/b"}).status_code == 401
    ticket = made.json()["ticket"]
    for path, status in (
        (f"/v1/boards/b/subscriptions/u1.b/stream?ticket={ticket}", 403),
        (f"/v1/boards/b/subscriptions/u1.a/stream?ticket={ticket}x", 401),
        (f"/v1/boards/b/subscriptions/u1.a?ticket={ticket}", 401),
        (f"/v1/boards?ticket={ticket}", 401),
    ):
        assert client.get(path).status_code == status, path


def test_a_page_of_another_origin_may_read_if_it_is_let_in(site: tuple[Any, dict[str, str]]) -> None:
    client, ops = site
    asks = {"origin": "https://app.example", "access-control-request-method": "PUT"}
    preflight = client.options("/v1/boards/b", headers=asks)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://app.example"
    assert "PUT" in preflight.headers["access-control-allow-methods"]
    assert {"authorization", "content-type", "idempotency-key"} <= set(
        preflight.headers["access-control-allow-headers"].lower().split(", ")
    )
    for headers, status in (({}, 401), (ops, 200)):
        answer = client.get("/v1/boards/b", headers={"origin": "https://app.example", **headers})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        exposed = {name.strip() for name in answer.headers["access-control-expose-headers"].split(",")}
        assert {"ETag", "Retry-After", "Location"} <= exposed
    for other in ("https://evil.example", "null", "https://app.example.evil"):
        answer = client.get("/v1/boards/b", headers={"origin": other, **ops})
        assert "access-control-allow-origin" not in answer.headers
        assert "origin" in answer.headers["vary"].lower()


def test_without_keys_other_origins_are_refused_whatever_is_set(make_client: Any) -> None:
    client = make_client(cors_origins="*")
    assert client.get("/v1/boards", headers={"origin": "https://app.example"}).status_code == 403
    asks = {"origin": "https://app.example", "access-control-request-method": "PUT"}
    assert client.options("/v1/boards/b", headers=asks).status_code == 403
