"""Draw the pictures of docs/console.md: the console over the demo and a resource of each type, in Chromium.

They are written with few colours, so that each is small.
"""

from __future__ import annotations

import argparse
import io
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.browser import launched
from tests.support.console_data import fill
from tests.support.patience import wait_until
from tests.support.ports import free_port

FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures"
COLOURS = 256
LARGEST = 150_000
"""Bytes of a picture."""

WIDE, NARROW = (1280, 900), (360, 780)


class Shot(NamedTuple):
    """A picture: the address, what is done there before it, and on which screen."""

    name: str
    hash: str
    act: Callable[[Page], None] = lambda page: page.wait_for_timeout(1_000)
    scheme: str = "light"
    size: tuple[int, int] = WIDE


def _overview(page: Page) -> None:
    page.wait_for_timeout(60_000)


def _board(page: Page) -> None:
    page.get_by_label("distance from").fill("500")
    page.get_by_label("to", exact=True).fill("1000")
    page.get_by_role("button", name="Show").click()
    page.wait_for_timeout(5_000)


def _explain(page: Page) -> None:
    page.get_by_label("Object", exact=True).fill("UA1545")
    page.get_by_label("delay", exact=True).fill("400")
    page.get_by_label("distance", exact=True).fill("1400")
    page.get_by_role("button", name="Explain").click()
    page.get_by_text("would be affected").wait_for()
    page.get_by_text("Post an event").scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(500)


def _matcher(page: Page) -> None:
    for name, value in (("age", "34"), ("credit", "520"), ("income", "60:80"), ("Winners, at most", "8")):
        page.get_by_role("textbox", name=name, exact=True).fill(value)
    page.get_by_role("button", name="Match").click()
    page.get_by_role("region", name="8 winners").wait_for()


def _map(page: Page) -> None:
    page.get_by_role("application").focus()
    for _ in range(18):
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(120)
    page.wait_for_timeout(500)


def _skyline(page: Page) -> None:
    page.get_by_role("combobox", name="Question").select_option("skyline")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_timeout(1_000)
    page.get_by_role("application").focus()


def _feed(page: Page) -> None:
    page.get_by_role("textbox", name="Words").fill("ramen coupon")
    page.get_by_role("button", name="Show").click()
    page.wait_for_timeout(1_000)


def _subscriptions(page: Page) -> None:
    page.get_by_role("button", name="Open all-best-5", exact=True).click()
    page.get_by_role("button", name="Follow all-best-5", exact=True).click()
    page.wait_for_timeout(4_000)
    page.get_by_role("button", name="Explain").click()
    page.wait_for_timeout(500)


def _admin(page: Page) -> None:
    page.get_by_role("button", name="Verify").click()
    page.get_by_role("button", name="Take a snapshot of all").click()
    page.wait_for_timeout(5_000)


SHOTS = (
    Shot("board", "#/boards/delays", _board),
    Shot("explain", "#/boards/delays", _explain, "dark"),
    Shot("matcher", "#/matchers/ads", _matcher),
    Shot("relay", "#/relays/market"),
    Shot("map", "#/maps/food", _map, "dark"),
    Shot("skyline", "#/maps/food", _skyline),
    Shot("feed", "#/feeds/city", _feed),
    Shot("subscriptions", "#/subscriptions/boards/delays", _subscriptions),
    Shot("admin", "#/admin", _admin, "dark"),
    Shot("phone", "#/boards/delays", _board, "light", NARROW),
    Shot("overview", "#/overview", _overview),
)


def draw(browser: Browser, url: str, shot: Shot, folder: Path) -> Path:
    """One picture of the console at this address. Raises an AssertionError where it is too large."""
    width, height = shot.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if shot.scheme == "dark" else "light"
    )
    page = context.new_page()
    page.goto(f"{url}/console{shot.hash}")
    page.locator("main h1").wait_for()
    page.locator("#menu").get_by_text("city").wait_for(state="attached")
    shot.act(page)
    raw = page.screenshot(animations="disabled")
    context.close()
    file = folder / f"console-{shot.name}.png"
    Image.open(io.BytesIO(raw)).convert("RGB").quantize(
        COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    ).save(file, optimize=True)
    assert file.stat().st_size <= LARGEST, f"{file} has {file.stat().st_size} bytes"
    return file


def main() -> int:
    """Start the demo, fill what it lacks, and draw."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.console_shots", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="some of: " + ", ".join(shot.name for shot in SHOTS))
    parser.add_argument("--out", type=Path, default=FIGURES, help="the folder to write to")
    asked = parser.parse_args()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-c", "from app.__main__ import main; main()", "demo", "--plain", "--speed", "0.2"]
        demo = subprocess.Popen([*command, "--port", str(port), "--data", data], stdout=subprocess.DEVNULL)
        try:
            with httpx.Client(base_url=url, timeout=300) as http, sync_playwright() as playwright:
                wait_until(lambda: _has_flights(http), pause=0.2, why=lambda: "the demo plays nothing")
                fill(http, flights=False)
                with launched(playwright) as browser:
                    for shot in SHOTS:
                        if not asked.names or shot.name in asked.names:
                            file = draw(browser, url, shot, asked.out)
                            print(f"{file} {file.stat().st_size:,} bytes")
        finally:
            demo.send_signal(signal.SIGTERM)
            demo.wait()
    return 0


def _has_flights(http: httpx.Client) -> bool:
    """Whether the demo has played some days."""
    try:
        answer = http.get("/v1/boards/delays")
    except httpx.TransportError:
        return False
    return answer.status_code == 200 and answer.json()["objects"] > 1_500


if __name__ == "__main__":
    sys.exit(main())
