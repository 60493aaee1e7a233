"""Every operation of the OpenAPI document against the live service, with generated requests, good and bad."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case, SerializationContext
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from app.main import create_app
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE
from tests.system.http.talk import ARROW, NDJSON, Json, Talk

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
CONFIG: Json = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1, 3]}
DRAW = Random(0)


class Attacked:
    """A service of its own with an admin's key, and something on it to hit."""

    def __init__(self, service: LiveService) -> None:
        self.service = service
        self.url = service.url
        open_door = Talk(service.url)
        key = open_door.good("POST", "/v1/admin/keys", {"name": "fuzz", "scopes": ["admin"]})["key"]
        open_door.close()
        self.headers = {"Authorization": f"Bearer {key}"}
        self.talk = Talk(service.url, key)
        stock(self.talk)

    def aim(self, case: Case) -> bool:
        """Let more than half of the requests go to resources and ids that are there; says whether this one does."""
        aimed = bool(case.path_parameters) and DRAW.random() < 0.6
        if aimed:
            there = "j1" if "/jobs/" in case.path else "a"
            resources = ("board", "matcher", "relay", "map", "feed")
            case.path_parameters = {name: "b" if name in resources else there for name in case.path_parameters}
        return aimed


@pytest.fixture(scope="module")
def attacked(start_service: StartService) -> Iterator[Attacked]:
    attacked = Attacked(start_service())
    yield attacked
    attacked.talk.close()


def stock(talk: Talk) -> None:
    """Make what the requests below aim at, unless it is there."""
    if not talk.ask("GET", "/v1/admin/jobs").json()["items"]:
        talk.ask("POST", "/v1/admin/snapshots")
    if talk.ask("PUT", "/v1/boards/b", CONFIG).status_code in (200, 201):
        talk.ask("PUT", "/v1/boards/b/objects/a", {"values": {"x": 1, "y": 1}})
        talk.ask("PUT", "/v1/boards/b/subscriptions/a", {"k": 1})
    if talk.ask("PUT", "/v1/matchers/b", {"dimensions": ["x"], "mode": "relaxed"}).status_code in (200, 201):
        talk.ask("PUT", "/v1/matchers/b/subscriptions/a", {"intervals": {"x": [0, 9]}, "weights": {"x": 1}})
    link = {"url": "http://127.0.0.1:9", "relay": "b", "link": "a"}
    if talk.ask("PUT", "/v1/relays/b", {"attributes": ["x"], "links": {"a": link}}).status_code in (200, 201):
        talk.ask("PUT", "/v1/relays/b/subscriptions/a", {"box": {"x": [0, 9]}})
    if talk.ask("PUT", "/v1/maps/b", {"attributes": {"x": "low"}, "bounds": [0, 0, 9, 9]}).status_code in (200, 201):
        talk.ask("PUT", "/v1/maps/b/objects/a", {"location": [1, 1], "values": {"x": 1}})
        talk.ask("PUT", "/v1/maps/b/queries/a", {"kind": "skyline", "location": [2, 2]})
    if talk.ask("PUT", "/v1/feeds/b", {"window": 9, "bounds": [0, 0, 9, 9]}).status_code in (200, 201):
        talk.ask("PUT", "/v1/feeds/b/subscriptions/a", {"keywords": ["x"], "location": [1, 1]})
        talk.ask("POST", "/v1/feeds/b/posts", {"posts": [{"id": "a", "keywords": ["x"], "location": [2, 2]}]})


EXAMPLES = settings(
    max_examples=20,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def document() -> Json:
    """The OpenAPI document without its keys: each request here brings one."""
    found = create_app().openapi()
    for methods in found["paths"].values():
        for operation in methods.values():
            operation.pop("security", None)
    return found


@schemathesis.serializer(NDJSON, ARROW)
def as_it_is(_: SerializationContext, value: object) -> bytes:
    """A bulk body is a string in the document."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


operations = schemathesis.openapi.from_dict(document())


@operations.exclude(path_regex="/stream$").parametrize()
@EXAMPLES
def test_an_operation_keeps_to_its_document(case: Case, attacked: Attacked) -> None:
    aimed = attacked.aim(case)
    response = case.call(base_url=attacked.url, headers=attacked.headers, timeout=PATIENCE)
    judge_the_bad = not aimed and response.status_code != 413
    if response.headers["content-type"][0] in ("application/json", "application/problem+json"):
        assert response.content.endswith(b"}\n")
    case.validate_response(response, checks=[*CHECKS, negative_data_rejection] if judge_the_bad else CHECKS)
    if case.method == "DELETE" and response.status_code == 200:
        stock(attacked.talk)


@operations.include(path_regex="/stream$").parametrize()
@EXAMPLES
def test_a_stream_begins_or_is_refused(case: Case, attacked: Attacked) -> None:
    attacked.aim(case)
    request = case.as_transport_kwargs(base_url=attacked.url, headers=attacked.headers)
    with requests.request(**request, stream=True, timeout=PATIENCE) as response:
        kind = response.headers["content-type"]
        # Whatever is made up is no ticket.
        unknown = 401 if "ticket" in (case.query or {}) else 404
        assert response.status_code in (200, 400, 404, 405, 422, unknown), response.text
        if response.status_code == 200:
            assert kind.startswith("text/event-stream")
            assert response.raw.readline().startswith(b"id: ")
        else:
            assert kind == "application/problem+json"


def test_the_service_is_well_afterwards(attacked: Attacked) -> None:
    assert attacked.talk.ask("GET", "/readyz").status_code == 200
    assert attacked.service.stop() == 0
    assert "Traceback" not in attacked.service.log.read_text()
