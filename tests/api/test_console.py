"""How the console is served: a fixed list of files, under a strict policy, cached where that is safe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.console import files
from app.console.files import ASSETS, SCRIPTS, console
from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient

FOLDER = Path(files.__file__).parent


def test_the_page_is_served_without_a_key_under_a_strict_policy(make_client: MakeClient) -> None:
    client = make_client(jwt_secret="s" * 32)
    assert client.get("/v1/boards").status_code == 401
    for path in ("/console", "/console/"):
        page = client.get(path)
        assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
        policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
        assert policy["trusted-types"] == "'none'" and policy["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in str(policy) and "http" not in str(policy)
        assert page.headers["x-content-type-options"] == "nosniff" and page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-cache"
        assert not re.search(
            r"(?:src|href)=\"(?:https?:)?//|<style|<script>|<[^>]*\s(?:on\w+|style)=|\{\w+\}", page.text
        )
        for link in re.findall(r'(?:src|href)="(/[^"]*)"', page.text):
            assert client.get(link).status_code == 200, link


def test_what_the_page_loads_is_listed_and_only_that() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_file() and path.suffix != ".py"} == {*ASSETS, files.PAGE}
    for name in SCRIPTS:
        text = (FOLDER / name).read_text(encoding="utf-8")
        imported = re.findall(r'from "([^"]+)"', text)
        assert {f"./{other}" for other in SCRIPTS} >= set(imported), name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://(?!www\.w3\.org|example\.org)"
            r"|localStorage|sessionStorage|indexedDB|document\.cookie",
            text,
        ), name


@pytest.mark.parametrize("name", ["main.js", "console.css", "icon.svg"])
def test_an_asset_may_be_kept_for_ever_since_another_release_has_another_address(client: AppClient, name: str) -> None:
    path = f"/console/{console().version}/{name}"
    asset = client.get(path)
    assert asset.status_code == 200 and asset.content == (FOLDER / name).read_bytes()
    assert asset.headers["content-type"].split(";")[0] == ASSETS[name]
    assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
    again = client.get(path, headers={"if-none-match": f'"other", {asset.headers["etag"]}'})
    assert again.status_code == 304 and not again.content and again.headers["etag"] == asset.headers["etag"]
    assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200
    assert client.head(path).status_code == 200
    other = client.get(f"/console/0123456789abcdef/{name}")
    assert other.status_code == 404 and other.json()["type"] == "/problems/not-found"
    assert "immutable" not in other.headers.get("cache-control", "")


def test_the_page_is_asked_for_again_and_answered_shortly(client: AppClient) -> None:
    etag = client.get("/console").headers["etag"]
    again = client.get("/console", headers={"if-none-match": etag})
    assert again.status_code == 304 and not again.content


@pytest.mark.parametrize(
    "name",
    ["files.py", "index.html", "__init__.py", "..%2ffiles.py", "%2e%2e", "../files.py", "main.js/", "main.js%00"],
)
def test_no_other_file_is_served(client: AppClient, name: str) -> None:
    assert client.get(f"/console/{console().version}/{name}").status_code in (404, 405)


def test_the_console_is_guarded_as_the_api_is_and_not_in_the_document(client: AppClient) -> None:
    assert client.get("/console", headers={"host": "evil.example"}).json()["type"] == "/problems/foreign-host"
    assert (
        client.get("/console", headers={"origin": "http://evil.example"}).json()["type"] == "/problems/foreign-origin"
    )
    assert client.post("/console").status_code == 405
    assert not [path for path in client.get("/openapi.json").json()["paths"] if "console" in path]
