"""The base image is named by the digest of what the registry has."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tools import base_image

MANIFEST = json.dumps({"schemaVersion": 2, "manifests": []}).encode()


class Registry(BaseHTTPRequestHandler):
    """A registry that gives everyone a token for reading, and has one image."""

    def do_GET(self) -> None:
        port = self.connection.getsockname()[1]
        if self.path.startswith("/token?"):
            self.answer(200, json.dumps({"token": "t"}).encode() if "service=here" in self.path else b"{}")
        elif self.path != "/v2/library/python/manifests/3.11":
            self.answer(404, b"{}")
        elif self.headers.get("Authorization") != "Bearer t":
            realm = (
                f'Bearer realm="http://127.0.0.1:{port}/token",service="here",scope="repository:library/python:pull"'
            )
            self.answer(401, b"{}", {"WWW-Authenticate": realm})
        else:
            assert "index" in self.headers["Accept"]
            self.answer(200, MANIFEST)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_digest_is_that_of_the_content(registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert base_image.main([f"{registry}/library/python:3.11"]) == 0
    digest = hashlib.sha256(MANIFEST).hexdigest()
    assert capsys.readouterr().out == f"{registry}/library/python:3.11@sha256:{digest}\n"


def test_what_cannot_be_looked_up_has_no_digest(registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert base_image.main([f"{registry}/library/python:4"]) == 1
    assert base_image.main(["127.0.0.1:9/library/python:3.11"]) == 1
    assert base_image.main(["python@sha256:0"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "404" in said.err and "cannot be looked up" in said.err


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("python:3.11", "https://registry-1.docker.io library/python 3.11"),
        ("python", "https://registry-1.docker.io library/python latest"),
        ("team/app:1", "https://registry-1.docker.io team/app 1"),
        ("images.example/team/app:1", "https://images.example team/app 1"),
        ("localhost:5000/app:1", "http://localhost:5000 app 1"),
    ],
)
def test_what_a_name_leaves_out_is_as_docker_has_it(reference: str, url: str) -> None:
    image = base_image.parse(reference)
    assert f"{image.registry} {image.repository} {image.tag}" == url
    assert reference.startswith(image.name)
