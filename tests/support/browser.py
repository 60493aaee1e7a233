"""Chromium for tests: pages of a real browser, and all that goes wrong in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright

from tests.support.patience import wait_until
from tools.chromium import advice, find
from tools.java import this_machine

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
SERIOUS = ("serious", "critical")
LIMIT = 60_000.0
"""Milliseconds that playwright waits for what must come."""


def chromium() -> str:
    """The path of the browser. Skips the test without one, and fails it in CI."""
    found = find()
    if found is None:
        why = f"no Chromium was found. {advice(this_machine())}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    return found


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    """A browser without a window. As root it runs without its sandbox, which would refuse."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    arguments += ["--disable-dev-shm-usage", "--disable-gpu"]
    browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
    try:
        yield browser
    finally:
        browser.close()


@dataclass
class Tab:
    """A page of a browser, and what it complained about: errors of scripts, of the console, and of its policy."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    expected: Callable[[ConsoleMessage], bool] = lambda message: False
    """Which messages of the console are meant to come."""

    def __post_init__(self) -> None:
        self.page.set_default_timeout(LIMIT)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not self.expected(message):
            self.complaints.append(f"{message.text} {message.location.get('url', '')}")

    def open(self, url: str, heading: str | None = None) -> Page:
        """Go there, and wait until the page is shown."""
        self.page.goto(url)
        if heading is not None:
            self.page.get_by_role("heading", level=1).filter(has_text=heading).wait_for()
        return self.page

    def until(self, true: Callable[[], Any], why: Callable[[], object] = lambda: "waited in vain") -> None:
        """Wait while the page goes on."""

        def looked() -> bool:
            self.page.wait_for_timeout(20)
            return bool(true())

        wait_until(looked, why=why)

    def serious(self) -> list[str]:
        """What axe-core finds that is serious, each with its first place."""
        found = self.page.evaluate(
            f"{AXE.read_text(encoding='utf-8')}\n; axe.run(document, {{resultTypes: ['violations']}})"
        )
        return [
            f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:300]} {one['nodes'][0].get('failureSummary', '')}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
        ]


def rows(page: Page, table: str) -> list[list[str]]:
    """The cells of a table, as the accessible tree has them, without its head. `table` is the name of its region."""
    found = page.get_by_role("region", name=table, exact=True).locator("tbody tr")
    texts: list[list[str]] = found.evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.innerText.trim()))"
    )
    return texts
