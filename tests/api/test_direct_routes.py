"""Routes are FastAPI's own, made when the document needs them, and served without its layers or with them."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from app.api import problems
from app.api.fast_router import Direct
from app.api.responses import JsonResponse
from app.api.routing import DirectRoute, accepts, needs
from app.security.keyring import Keyring, new_key
from tests.support.app_client import AppClient
from tests.support.asker import BOARD, socket_of


class Things(BaseModel):
    """How many things there are."""

    count: int


def router() -> APIRouter:
    made = APIRouter(prefix="/v1/boards", tags=["boards"], route_class=DirectRoute)

    @made.get("/{board}/things/{id}", response_model=Things, dependencies=needs("boards:read"))
    async def get_thing(request: Request) -> Response:
        """Get a thing."""
        return JsonResponse({"count": 1, **request.path_params})

    @made.get("/open", response_model=Things, openapi_extra=accepts())
    async def get_open(request: Request) -> Response:
        """Get what needs no key."""
        return JsonResponse({"count": 2})

    return made


def serve(keyring: Keyring, *, direct: bool) -> tuple[APIRouter, FastAPI, AppClient]:
    made, app = router(), FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    problems.install(app, {})
    app.state.keyring = keyring
    app.include_router(made)
    if direct:
        app.add_middleware(Direct, routers=[made])
    return made, app, AppClient(app, "http://127.0.0.1")


def test_a_route_is_described_when_the_document_is_made_and_not_before() -> None:
    made, app, client = serve(Keyring(), direct=True)
    assert client.get("/v1/boards/b/things/t").json() == {"count": 1, "board": "b", "id": "t"}
    assert client.get("/nothing").status_code == 404
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/nothing"):
        pass
    assert not [route for route in made.routes if "dependant" in vars(route)]
    get = app.openapi()["paths"]["/v1/boards/{board}/things/{id}"]["get"]
    assert get["security"] == [{"key": ["boards:read"]}]
    assert [parameter["name"] for parameter in get["parameters"]] == ["board", "id"]
    assert get["responses"]["200"]["description"] == "How many things there are."
    assert client.get("/v1/boards/b/things/t").json() == {"count": 1, "board": "b", "id": "t"}


@pytest.mark.parametrize("direct", [True, False])
def test_a_key_needs_the_scope_that_is_documented(direct: bool) -> None:
    secret, row = new_key("reader", ["boards:read"])
    other, another = new_key("other", ["maps:read"])
    _, _, client = serve(Keyring([row, another]), direct=direct)

    def status(path: str, key: str | None) -> Any:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return client.get(f"/v1/boards/{path}", headers=headers).status_code

    assert [status("b/things/t", key) for key in (None, other, secret)] == [401, 403, 200]
    assert status("open", None) == 200


@pytest.mark.parametrize("direct", [True, False])
def test_another_method_is_refused_with_those_that_are_offered(direct: bool) -> None:
    _, _, client = serve(Keyring(), direct=direct)
    refused = client.put("/v1/boards/open")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


def test_what_the_fast_router_knows_passes_no_layer_of_fastapi(
    client: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does what is refused. The socket is FastAPI's."""
    reached, behind = list[str](), FastAPI.__call__

    async def noted(self: FastAPI, scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["type"])
        await behind(self, scope, receive, send)

    monkeypatch.setattr(FastAPI, "__call__", noted)
    assert client.put("/v1/boards/b", json=BOARD).status_code == 201
    assert client.get("/v1/boards/b", headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    assert [client.get(path).status_code for path in ("/nothing", "/v1/boards/none")] == [404, 404]
    assert client.post("/v1/boards/b", json={}).status_code == 405
    assert reached == []
    with socket_of(client) as asker:
        asker.good("GET", "/v1/boards/b")
    assert reached == ["websocket"]
