"""The pages for people."""

from __future__ import annotations

import re

import pytest

from app.api.problems import PROBLEMS
from tests.support.app_client import AppClient

HTML = {"accept": "text/html,application/xhtml+xml"}
PAGES = ["/", "/docs", "/problems", "/problems/invalid"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_loads_nothing_from_elsewhere(client: AppClient, path: str) -> None:
    page = client.get(path, headers=HTML)
    assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//|<style|<script>|<[^>]*\s(?:on\w+|style)=", page.text)
    # Without one of its own a browser asks for /favicon.ico, which is not there.
    assert '<link rel="icon" href="/site/icon.svg"' in page.text and "img-src 'self'" in policy
    for link in re.findall(r'(?:src|href)="(/[^"]*)"', page.text):
        assert client.get(link, headers=HTML).status_code in (200, 503), link


@pytest.mark.parametrize("path", ["/site/docs.js", "/site/site.css", "/site/icon.svg"])
def test_an_asset_is_served_as_what_it_is(client: AppClient, path: str) -> None:
    asset = client.get(path)
    assert asset.status_code == 200 and asset.headers["x-content-type-options"] == "nosniff"
    assert (
        asset.headers["content-type"].split(";")[0]
        == {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[path[-3:].strip(".")]
    )


def test_the_script_sets_text_as_text_only(client: AppClient) -> None:
    script = client.get("/site/docs.js").text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script)


@pytest.mark.parametrize("slug", PROBLEMS)
def test_every_problem_type_has_a_page(client: AppClient, slug: str) -> None:
    page, document = client.get(f"/problems/{slug}", headers=HTML), client.get(f"/problems/{slug}")
    assert page.status_code == document.status_code == 200
    assert page.headers["vary"] == document.headers["vary"] == "Accept"
    assert document.headers["content-type"] == "application/problem+json"
    about = document.json()
    assert about["type"] == f"/problems/{slug}" and about["status"] == PROBLEMS[slug].status
    assert about["title"] in page.text.replace("&#x27;", "'") and about["detail"] and about["remedy"]


def test_an_unknown_problem_type_is_not_found(client: AppClient) -> None:
    answer = client.get("/problems/<b>", headers=HTML)
    assert answer.status_code == 404 and answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_guarded_as_the_api_is(client: AppClient, path: str) -> None:
    assert client.get(path, headers={"host": "evil.example"}).json()["type"] == "/problems/foreign-host"
    assert client.get(path, headers={"origin": "http://evil.example"}).json()["type"] == "/problems/foreign-origin"


def test_pages_are_not_in_the_document(client: AppClient) -> None:
    assert not set(client.get("/openapi.json").json()["paths"]) & {"/", "/docs", "/problems"}
