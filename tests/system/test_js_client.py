"""The JavaScript client in a process of Node against a live service."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.live import LiveService, StartService
from tests.support.node import missing, node
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port
from tools.chromium import find

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ASYNCAPI = (ROOT / "asyncapi.yaml").read_text(encoding="utf-8")
SCRIPTS = Path(__file__).resolve().parent / "js"

LEFT_OUT = {
    "healthz": "for supervisors",
    "metrics": "for Prometheus, in its own format",
    "admin_keys_create": "`rankcast keys` makes keys on the service's machine",
    "admin_keys_list": "`rankcast keys`",
    "admin_keys_delete": "`rankcast keys`",
    "admin_jobs_stream": "jobs are looked at",
    "admin_promote_create": "`rankcast promote`",
    "admin_replicas_list": "`rankcast replicas`",
    "relays_links_messages_receive": "the protocol between services",
    "relays_links_probe": "the protocol between services",
    "relays_subscriptions_stream": "followed on the WebSocket",
    "maps_queries_stream": "followed on the WebSocket",
    "feeds_subscriptions_stream": "followed on the WebSocket",
}


def script(name: str, *arguments: str) -> Any:
    """What a script says in its last line."""
    done = subprocess.run(
        [node(), str(SCRIPTS / name), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def killed_at_half(start_service: StartService, output: Path, name: str, *arguments: str) -> Any:
    """What a script says in its last line, whose service is killed once it says `half`, and comes back on its port."""
    service = start_service()
    port = int(service.url.rpartition(":")[2])
    command = [node(), str(SCRIPTS / name), service.url, *arguments]
    with output.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as running:
        try:
            wait_until(lambda: "half" in output.read_text() or running.poll() is not None)
            service.stop(signal.SIGKILL)
            service = start_service(service.data, port=port)
            assert running.wait(PATIENCE) == 0, output.read_text()
        finally:
            running.kill()
    assert service.stop() == 0
    return json.loads(output.read_text().splitlines()[-1])


def test_lists_are_right_when_the_service_was_killed_meanwhile(start_service: StartService, tmp_path: Path) -> None:
    said = killed_at_half(start_service, tmp_path / "output", "follow.mjs", "300")
    assert said["applied"] == 300, "each event once"
    assert len(said["lists"]) == 12
    for one in said["lists"]:
        assert one["gone"] and one["reconnects"] > 0, one
        assert {"gone", one["form"].removesuffix("s") if one["form"] == "changes" else "tiles"} <= {*one["events"]}, one
    by_id: dict[str, list[Any]] = {}
    for one in said["lists"]:
        by_id.setdefault(one["id"], []).append([(entry["rank"], entry["id"]) for entry in one["list"]])
    assert all(found == [found[0]] * 4 for found in by_id.values())


@pytest.mark.skipif("const: request" not in ASYNCAPI, reason="this service takes no requests on the socket")
def test_requests_on_the_socket_are_applied_once_and_in_order(start_service: StartService, tmp_path: Path) -> None:
    assert killed_at_half(start_service, tmp_path / "output", "requests.mjs")["reconnects"] > 0


def test_each_verb_of_each_resource_does_what_it_says(start_service: StartService) -> None:
    service = start_service(env={"RANKCAST_WEBHOOK_NETWORKS": "127.0.0.1/32"})
    asked = script("verbs.mjs", service.url)
    paths = yaml.safe_load((ROOT / "openapi.yaml").read_text(encoding="utf-8"))["paths"]
    missing = set()
    for path, methods in paths.items():
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        for method, operation in methods.items():
            found = [one for one in asked if one.split()[0] == method.upper() and pattern.fullmatch(one.split()[1])]
            if not found:
                missing.add(operation["operationId"])
    assert missing == set(LEFT_OUT)


def make_key(service: LiveService, name: str, scopes: list[str], key: str = "") -> str:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = httpx.post(f"{service.url}/v1/admin/keys", json={"name": name, "scopes": scopes}, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["key"])


def test_keys_and_tickets_open_what_they_say_and_the_rest_is_refused(start_service: StartService) -> None:
    service = start_service()
    url = f"{service.url}/v1/boards/delays"
    config = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2]}
    assert httpx.put(url, json=config).status_code == 201
    assert httpx.put(f"{url}/subscriptions/mine", json={"k": 2}).status_code == 201
    admin = make_key(service, "ops", ["admin"])
    reader = make_key(service, "others", ["boards/other:read"], admin)
    said = script("rights.mjs", service.url, admin, reader)
    assert said["sse"] == said["websocket"] == [401, 401, 403, 404, 401]
    assert said["requests"] == [401, 403, 422, 422, 409, 404]
    assert said["ticket"] == [401]


@pytest.fixture
def origin() -> Iterator[str]:
    """The checkout as another origin than the service's."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(ROOT)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as serving:
        yield f"http://127.0.0.1:{port}"
        serving.kill()


def test_the_page_of_the_example_shows_the_list_from_another_origin(
    start_service: StartService, origin: str, tmp_path: Path
) -> None:
    browser = find() or missing("no Chromium was found")
    service = start_service(None, env={"RANKCAST_CORS_ORIGINS": origin})
    url = f"{service.url}/v1/boards/arcade"
    config = {"range_attributes": ["level"], "rank": {"attribute": "score", "order": "desc"}, "ks": [10]}
    assert httpx.put(url, json=config).status_code == 201
    assert httpx.put(f"{url}/subscriptions/top10", json={"k": 10}).status_code == 201
    admin = make_key(service, "ops", ["admin"])
    key = make_key(service, "page", ["boards/arcade:read"], admin)
    score = {"values": {"level": 12, "score": 9100}}
    headers = {"Authorization": f"Bearer {admin}"}
    assert httpx.put(f"{url}/objects/ada", json=score, headers=headers).status_code == 201
    page = f"{origin}/examples/leaderboard.html?url={service.url}"
    text = script("browse.mjs", browser, str(tmp_path / "page"), f"{page}&key={key}", "ada", "12 / 9100", "1 players")
    assert "Leaderboard" in text
    script("browse.mjs", browser, str(tmp_path / "other"), f"{page}&key=wrong", "401")
