"""The console in a real browser, over a small service: it shows what the API says, to everybody, and goes on."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Playwright, Route, expect, sync_playwright

from tests.support.browser import LIMIT, Tab, launched, rows
from tests.support.console_data import fill, flight
from tests.support.live import LiveService, serve_command
from tests.support.ports import free_port

PAGES = {
    "#/overview": "Overview",
    "#/boards/delays": "delays",
    "#/matchers/ads": "ads",
    "#/relays/market": "market",
    "#/maps/food": "food",
    "#/feeds/city": "city",
    "#/subscriptions/boards/delays": "Subscriptions",
    "#/admin": "Administration",
}
CHANGES = 1_000
Open = Callable[..., Tab]
WIDE = """[...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > 361
  && !one.closest(".scroll, pre")).map((one) => one.outerHTML.slice(0, 200))"""
"""What is wider than a narrow screen."""


@dataclass
class Site:
    """A service on a port and a data directory, which may be killed and come back."""

    port: int
    folder: Path
    options: tuple[str, ...] = ()
    service: LiveService | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        command = serve_command("--data", self.folder / "data", *self.options, port=self.port)
        with (self.folder / "log").open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        self.service = LiveService(process, self.url, self.folder / "data", self.folder / "log")
        self.service.wait_until_ready()

    def kill(self) -> None:
        if self.service is not None:
            self.service.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with launched(playwright) as running:
        yield running


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service without keys, with a resource of each type."""
    one = Site(free_port(), tmp_path_factory.mktemp("console") / "open")
    try:
        one.start()
        with httpx.Client(base_url=one.url, timeout=LIMIT) as http:
            fill(http)
        yield one
    finally:
        one.kill()


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, timeout=LIMIT) as client:
        yield client


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Open]:
    """`open_tab(expected=..., **context)` opens an empty page, which must have had no complaints at the end."""
    contexts: list[BrowserContext] = []
    tabs: list[Tab] = []

    def make(expected: Callable[[str], bool] = lambda text: False, **given: Any) -> Tab:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **given})
        contexts.append(context)

        def meant(message: ConsoleMessage) -> bool:
            text = f"{message.text} {message.location.get('url', '')}"
            # A service without webhooks says so, and the page hides them.
            return "/v1/webhooks" in text or expected(text)

        tabs.append(Tab(context.new_page(), expected=meant))
        return tabs[-1]

    yield make
    for context in contexts:
        context.close()
    assert [tab.complaints for tab in tabs] == [[] for _ in tabs]


def number(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace(",", "").replace("−", "-"))


def ranked(tab: Tab, table: str) -> list[tuple[int, str]]:
    """Rank and id of each row of a live list."""
    return [(int(cells[0]), cells[1]) for cells in rows(tab.page, table) if len(cells) > 2]


def listed(answer: dict[str, Any], field: str = "list") -> list[tuple[int, str]]:
    return [(rank, entry["id"]) for rank, entry in enumerate(answer[field], 1)]


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_the_overview_shows_each_resource_and_how_the_service_is(
    site: Site, http: httpx.Client, open_tab: Open
) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/overview", "Overview")
    expect(page.get_by_text("Ready", exact=True)).to_be_visible()
    shown = {(cells[0], cells[1]): cells for cells in rows(page, "Resources, by type and name")}
    for type in ("boards", "matchers", "relays", "maps", "feeds"):
        for one in http.get(f"/v1/{type}").json()["items"]:
            cells = shown.pop((one["name"], type[:-1].capitalize()))
            if "objects" in one:
                assert number(cells[2].split()[0]) == one["objects"]
            if "subscriptions" in one:
                assert number(cells[3]) == one["subscriptions"]
    assert shown == {}
    memory = page.get_by_role("img", name=re.compile(r"^Memory: now [\d.,]+ MiB"))
    expect(memory).to_be_visible()
    http.get("/healthz")
    expect(page.get_by_role("img", name=re.compile(r"^Requests: now [\d.]+, of the last"))).to_be_visible()


def test_the_console_opens_on_the_overview_of_a_service_with_several_resources(site: Site, open_tab: Open) -> None:
    page = open_tab().open(f"{site.url}/console", "Overview")
    menu = page.get_by_role("navigation", name="Pages")
    menu.get_by_role("link", name="delays").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("delays")
    expect(menu.get_by_role("link", name="delays")).to_have_attribute("aria-current", "page")
    expect(page).to_have_title("delays – Rankcast console")


def test_the_top_of_a_range_is_what_the_api_says(site: Site, http: httpx.Client, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/boards/delays", "delays")
    page.get_by_label("distance from").fill("500")
    page.get_by_label("to", exact=True).fill("1000")
    page.get_by_label("Ranks").select_option("5")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("The 5 largest by delay, distance from 500 to 1,000")).to_be_visible()
    wanted = http.get("/v1/boards/delays/top", params={"l": 500, "r": 1000, "k": 5}).json()
    tab.until(lambda: ranked(tab, "The live list") == listed(wanted))
    for cells, entry in zip(rows(page, "The live list"), wanted["list"], strict=True):
        assert (number(cells[2]), number(cells[3])) == (entry["values"]["delay"], entry["values"]["distance"])
        assert cells[4:6] == [entry["payload"]["from"], entry["payload"]["to"]]
    page.get_by_label("distance from").fill("five")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("“five” is not a number")


def test_the_plane_counts_every_subscription_and_lists_the_tiles_of_an_event(
    site: Site, http: httpx.Client, open_tab: Open
) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/boards/delays", "delays")
    page.get_by_text("The plane as tables").click()

    def counted() -> bool:
        total = http.get("/v1/boards/delays").json()["subscriptions"]
        cells = rows(page, "Subscriptions by cell of the plane")
        return sum(number(cell[2]) for cell in cells if len(cell) == 3) == total

    tab.until(counted)
    page.get_by_label("Object", exact=True).fill("UA999")
    page.get_by_label("delay", exact=True).fill("2000")
    page.get_by_label("distance", exact=True).fill("760")
    event = {"op": "upsert", "id": "UA999", "values": {"delay": 2000, "distance": 760}}
    said = http.post("/v1/boards/delays/explain", json={"event": event}).json()
    page.get_by_role("button", name="Explain").click()
    outcome = page.get_by_text(re.compile("would be affected"))
    expect(outcome).to_contain_text(
        f"{said['affected']} subscriptions would be affected, by {said['tile_count']} tiles"
    )
    assert http.get("/v1/boards/delays/objects/UA999").status_code == 404, "explain applies nothing"
    page.get_by_role("button", name="Post").click()
    expect(page.get_by_text(re.compile(r"^Applied at seq"))).to_contain_text(f"with {said['tile_count']} tiles")
    assert http.get("/v1/boards/delays/objects/UA999").json()["values"] == event["values"]

    def drawn(id: str) -> int:
        return sum(cells[2:3] == [id] for cells in rows(page, "The latest tiles drawn"))

    tab.until(lambda: drawn("UA999") == said["tile_count"], lambda: rows(page, "The latest tiles drawn"))
    # What another one publishes is drawn as it comes.
    event["values"] = {"delay": 2100, "distance": 760}
    posted = http.post("/v1/boards/delays/events", json={"events": [{**event, "id": "UA998"}]}).json()
    tab.until(lambda: drawn("UA998") == posted["tile_count"], lambda: rows(page, "The latest tiles drawn"))


def test_winners_are_shown_with_what_each_dimension_adds(site: Site, http: httpx.Client, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/matchers/ads", "ads")
    page.get_by_role("textbox", name="age").fill("34")
    page.get_by_label("income").fill("60:80")
    page.get_by_label("Winners, at most").fill("8")
    page.get_by_role("button", name="Match").click()
    event = {"values": {"age": 34, "income": [60, 80]}}
    (wanted,) = http.post("/v1/matchers/ads/match", json={"events": [event], "k": 8, "explain": True}).json()["results"]
    region = page.get_by_role("region", name=re.compile("^8 winners"))
    expect(region).to_be_visible()
    cells = rows(page, region.get_attribute("aria-label") or "")
    for row, winner in zip(cells, wanted["winners"], strict=True):
        assert row[1] == winner["id"] and number(row[2]) == pytest.approx(winner["score"], abs=1e-3)
        parts = {
            name: number(cell[1:]) for name, cell in zip(("age", "credit", "income"), row[3:6], strict=True) if cell
        }
        assert parts == pytest.approx(winner["matched"], abs=1e-3)


def test_the_covering_is_a_tree_and_links_have_their_state(site: Site, http: httpx.Client, open_tab: Open) -> None:
    link = {"url": "http://127.0.0.1:9", "relay": "market", "link": "here", "key": "rk_x"}
    http.patch("/v1/relays/market", json={"links": {"north": link}}).raise_for_status()
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/relays/market", "market")
    roots = page.get_by_role("list", name="Subscriptions that nothing covers").locator(":scope > li")
    first = [text.split()[0] for text in roots.all_inner_texts()]
    assert first == ["all-cheap", "large", "mid"]
    under = page.get_by_role("list", name="Covered by bargain")
    expect(under).to_contain_text("bargain-large")
    for one in http.get("/v1/relays/market/subscriptions").json()["items"]:
        expect(page.get_by_text(one["id"], exact=True)).to_be_visible()
    relay = http.get("/v1/relays/market").json()
    tab.until(
        lambda: rows(page, "Links")[0][:2] == ["north", http.get("/v1/relays/market").json()["links"]["north"]["state"]]
    )
    expect(page.get_by_text(f"north: {relay['forwarded']['north']}", exact=True)).to_be_visible()
    http.patch("/v1/relays/market", json={"links": {"north": None}}).raise_for_status()
    expect(page.get_by_text("This relay has no links")).to_be_visible()


def test_a_client_is_moved_by_keys_and_asks_where_it_leaves_its_zone(
    site: Site, http: httpx.Client, open_tab: Open
) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/maps/food", "food")
    score = {"kind": "weighted_sum", "weights": {"distance": 1, "price": 0.5, "rating": 0.5}}

    def right(x: float, y: float) -> bool:
        question = {"location": [x, y], "k": 5, "m": 11, "score": score}
        return ranked(tab, "The answer") == listed(http.post("/v1/maps/food/top", json=question).json())

    tab.until(lambda: right(50, 35))
    client = page.get_by_role("application", name=re.compile("^Map food"))
    client.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    expect(page.get_by_label("Place x")).to_have_value("20")
    tab.until(lambda: right(20, 35))
    expect(page.get_by_text("Inside the zone: the answer holds, and no request is needed.", exact=True)).to_be_visible()
    asked = rows(page, "When the service was asked")
    assert asked[-1][2] == "a new question" and {cells[2] for cells in asked[:-1]} == {"the zone was left"}
    assert len(asked) < 30, "the client asked at every move"
    # An object changes where the client stands: the answer comes by itself.
    nearest = rows(page, "The answer")[0][1]
    http.patch(f"/v1/maps/food/objects/{nearest}", json={"values": {"price": 39}}).raise_for_status()
    tab.until(lambda: right(20, 35))
    box = client.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.5, steps=4)
    page.mouse.up()
    x, y = (float(page.get_by_label(label, exact=True).input_value()) for label in ("Place x", "y"))
    assert x > 50
    tab.until(lambda: right(x, y))
    page.get_by_role("combobox", name="Question").select_option("skyline")
    page.get_by_role("button", name="Ask").click()
    wanted = http.post("/v1/maps/food/skyline", json={"location": [x, y]}).json()["skyline"]
    tab.until(lambda: {id for _, id in ranked(tab, "The answer")} == {one["id"] for one in wanted})
    page.get_by_text("The map as a table").click()
    assert len(rows(page, "Objects")) == http.get("/v1/maps/food").json()["objects"]


def test_a_list_of_posts_follows_what_is_published(site: Site, http: httpx.Client, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/feeds/city", "city")
    page.get_by_role("textbox", name="Words").fill("ramen coupon")
    page.get_by_role("button", name="Show").click()

    def right() -> bool:
        items = http.get("/v1/feeds/city/subscriptions").json()["items"]
        own = [one["id"] for one in items if one["id"].startswith("console-")]
        if not own:
            return False
        wanted = http.get(f"/v1/feeds/city/subscriptions/{own[-1]}").json()
        return len(wanted["list"]) == 10 and ranked(tab, "The live list") == listed(wanted)

    tab.until(right)
    page.get_by_role("textbox", name="Text").fill("Ramen, and a coupon")
    page.get_by_role("button", name="Publish").click()
    said = page.get_by_text(re.compile("^Post .* is in 1 list"))
    expect(said).to_be_visible()
    tab.until(right)
    assert said.inner_text().split()[1] in {id for _, id in ranked(tab, "The live list")}


def test_a_subscription_is_made_followed_explained_and_deleted(site: Site, http: httpx.Client, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/subscriptions/boards/delays", "Subscriptions")
    page.get_by_label("Id", exact=True).fill("mine")
    page.get_by_label("The subscription, as JSON").fill('{"range": {"distance": [100, 700]}, "k": 5}')
    page.get_by_role("button", name="Make or change").click()
    expect(page.get_by_text(re.compile("^Made at seq"))).to_be_visible()
    assert http.get("/v1/boards/delays/subscriptions/mine").json()["range"] == {"distance": [100, 700]}
    page.get_by_role("button", name="Follow", exact=True).click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("event: snapshot")
    page.get_by_label("The subscription, as JSON").fill('{"range": {"distance": [100, 1700]}, "k": 10}')
    page.get_by_role("button", name="Make or change").click()
    expect(page.get_by_text(re.compile("^Changed at seq"))).to_be_visible()
    expect(log).to_contain_text("event: change")
    page.get_by_role("button", name="Explain").click()
    said = http.get("/v1/boards/delays/subscriptions/mine/explain").json()
    expect(page.get_by_text("What mine costs:").locator("..")).to_contain_text(
        f"objects in range{said['objects_in_range']}", use_inner_text=False
    )
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(log).to_contain_text("event: gone")
    assert http.get("/v1/boards/delays/subscriptions/mine").status_code == 404


def test_jobs_are_started_and_shown_to_their_end(site: Site, http: httpx.Client, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/admin", "Administration")
    page.get_by_label("Resource").select_option("boards/delays")
    page.get_by_role("button", name="Verify").click()
    page.get_by_role("button", name="Take a snapshot of all").click()

    def ended() -> bool:
        jobs = http.get("/v1/admin/jobs").json()["items"]
        shown = rows(page, "Jobs that have not ended, and the last that have, the newest first")
        return (
            [cells[:3] for cells in shown] == [[job["job"], job["kind"], "succeeded"] for job in reversed(jobs)] != []
        )

    tab.until(ended)


# --- for everybody ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hash", "heading"), PAGES.items())
def test_a_page_is_accessible_in_light_and_dark_and_fits_a_narrow_screen(
    site: Site, open_tab: Open, hash: str, heading: str
) -> None:
    tab = open_tab(reduced_motion="reduce")
    page = tab.open(f"{site.url}/console{hash}", heading)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="city").wait_for()
    if heading == "ads":
        page.get_by_role("button", name="Match").click()
        page.get_by_role("region", name=re.compile("winners at seq")).wait_for()
    for summary in page.locator("main summary").all():
        if summary.locator("..").get_attribute("open") is None:
            summary.click()
    assert tab.serious() == []
    page.emulate_media(color_scheme="dark")
    assert tab.serious() == []
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Overview").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, page.evaluate(WIDE)


def test_the_console_is_used_by_keyboard_alone(site: Site, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/overview", "Overview")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="ads").wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="ads").focus()
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("ads")
    expect(heading).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="age")).to_be_focused()
    page.keyboard.type("34")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name=re.compile("winners at seq"))).to_be_visible()


# --- it goes on -------------------------------------------------------------------------------------------------------


def test_a_list_follows_a_thousand_changes(site: Site, http: httpx.Client, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/boards/delays", "delays")
    page.get_by_label("Ranks").select_option("10")
    page.get_by_role("button", name="Show").click()
    draw = random.Random(11)
    for part in range(CHANGES // 20):
        if part in (10, 20, 30):
            # The question changes while its list does.
            page.get_by_label("distance from").fill({10: "500", 20: "900", 30: ""}[part])
            page.get_by_role("button", name="Show").click()
        events = [flight(draw, draw.randrange(200)) for _ in range(20)]
        http.post("/v1/boards/delays/events", json={"events": events, "messages": "none"}).raise_for_status()
    http.post("/v1/boards/delays/events", json={"events": [{**events[0], "values": {"distance": 60, "delay": 3000}}]})
    wanted = http.get("/v1/boards/delays/top", params={"k": 10}).json()
    tab.until(lambda: ranked(tab, "The live list") == listed(wanted))
    cells = rows(page, "The live list")
    assert [number(row[2]) for row in cells] == [entry["values"]["delay"] for entry in wanted["list"]]
    noted = page.get_by_text(re.compile("changes since you asked")).inner_text()
    assert number(noted.split()[3]) > 20, noted
    expect(page.get_by_role("status").filter(has_text="Rank 1 is")).to_contain_text(wanted["list"][0]["id"])


def test_the_page_goes_on_when_the_service_was_killed_and_comes_back(
    site: Site, http: httpx.Client, open_tab: Open
) -> None:
    away = ("ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "WebSocket connection", "503", "does not answer")
    tab = open_tab(expected=lambda text: any(one in text for one in away))
    page = tab.open(f"{site.url}/console#/boards/delays", "delays")
    state = page.locator("#state")
    expect(state).to_have_text("Live")
    before = http.get("/v1/boards/delays/top", params={"k": 10}).json()
    tab.until(lambda: ranked(tab, "The live list") == listed(before))
    site.kill()
    expect(state).to_have_text("Reconnecting")
    assert ranked(tab, "The live list") == listed(before), "what is known stays"
    site.start()
    expect(state).to_have_text("Live")
    top = {"op": "upsert", "id": "BACK1", "values": {"distance": 800, "delay": 4000}}
    http.post("/v1/boards/delays/events", json={"events": [top]}).raise_for_status()
    after = http.get("/v1/boards/delays/top", params={"k": 10}).json()
    assert after["list"][0]["id"] == "BACK1"
    tab.until(lambda: ranked(tab, "The live list") == listed(after))
    # A page that is opened while the service is away waits for it, once its files are there.
    page.evaluate("location.hash = '#/overview'")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_the_page_leaves_no_subscriptions_behind(site: Site, http: httpx.Client, open_tab: Open) -> None:
    tab = open_tab()
    page = tab.open(f"{site.url}/console#/boards/delays", "delays")

    def own() -> list[str]:
        items = http.get("/v1/boards/delays/subscriptions", params={"limit": 1000}).json()["items"]
        return [one["id"] for one in items if one["id"].startswith("console-")]

    tab.until(own)
    page.evaluate("location.hash = '#/overview'")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    tab.until(lambda: not own())


# --- keys and other origins -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The origin of another site, with an empty page."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "index.html").write_text('<!doctype html><html lang="en"><title>Elsewhere</title>')

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", free_port()), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def closed(browser: Browser, elsewhere: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """A service that asks for keys and lets in the pages of `elsewhere`, and a key with `admin`."""
    one = Site(free_port(), tmp_path_factory.mktemp("console") / "closed", ("--cors-origins", elsewhere))
    try:
        one.start()
        with httpx.Client(base_url=one.url, timeout=LIMIT) as client:
            made = client.post("/v1/admin/keys", json={"name": "ops", "scopes": ["admin"]}).json()["key"]
            client.headers["Authorization"] = f"Bearer {made}"
            board = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [5]}
            client.put("/v1/boards/delays", json=board).raise_for_status()
            events = [flight(random.Random(3), i) for i in range(30)]
            client.post("/v1/boards/delays/events", json={"events": events}).raise_for_status()
            client.put("/v1/boards/delays/subscriptions/mine", json={"range": {}, "k": 5}).raise_for_status()
        yield one, made
    finally:
        one.kill()


def test_a_key_is_asked_for_and_kept_in_memory_alone(closed: tuple[Site, str], open_tab: Open) -> None:
    site, key = closed
    tab = open_tab(expected=lambda text: "401" in text)
    page = tab.open(f"{site.url}/console")
    dialog = page.get_by_role("dialog", name="Key")
    dialog.get_by_label("API key or token").fill("rk_wrong")
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog.get_by_text("The service does not take this key.")).to_be_visible()
    assert tab.serious() == []
    dialog.get_by_label("API key or token").fill(key)
    page.keyboard.press("Enter")
    # The console of a service with one resource opens on it.
    expect(page.get_by_role("heading", level=1)).to_contain_text("delays")
    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {key}"}) as http:
        wanted = http.get("/v1/boards/delays/top").json()
        tab.until(lambda: ranked(tab, "The live list") == listed(wanted))
        expect(page.locator("#state")).to_have_text("Live")
        top = {"op": "upsert", "id": "FIRST", "values": {"distance": 800, "delay": 4000}}
        http.post("/v1/boards/delays/events", json={"events": [top]}).raise_for_status()
        tab.until(lambda: ranked(tab, "The live list")[0] == (1, "FIRST"))
    kept = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.href]")
    assert kept[:3] == [0, 0, ""] and key not in kept[3]
    assert key not in page.content()
    page.reload()
    expect(page.get_by_role("dialog", name="Key")).to_be_visible()


def test_a_key_that_may_only_read_has_the_top_of_a_range_read_again_and_again(
    closed: tuple[Site, str], open_tab: Open
) -> None:
    site, key = closed
    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {key}"}) as http:
        reader = http.post("/v1/admin/keys", json={"name": "reader", "scopes": ["boards:read"]}).json()["key"]
        tab = open_tab(expected=lambda text: "401" in text or "403" in text)
        page = tab.open(f"{site.url}/console#/boards/delays")
        page.get_by_label("API key or token").fill(reader)
        page.keyboard.press("Enter")
        expect(page.get_by_text("The key may not subscribe")).to_be_visible()
        top = {"op": "upsert", "id": "READ1", "values": {"distance": 800, "delay": 5000}}
        http.post("/v1/boards/delays/events", json={"events": [top]}).raise_for_status()
        wanted = http.get("/v1/boards/delays/top").json()
        assert wanted["list"][0]["id"] == "READ1"
        tab.until(lambda: ranked(tab, "The live list") == listed(wanted))
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Administration").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("This cannot be shown")


def test_webhooks_are_shown_where_the_service_has_them(site: Site, open_tab: Open) -> None:
    hook = {
        "name": "ops", "url": "https://example.org/in", "resource": "boards/delays", "ids": ["all-best-5"], "batch": 1,
        "state": "failing", "failures": 3, "last_status": 500, "last_error": None, "delivered": 1200, "waiting": 7,
    }  # fmt: skip
    asked: list[tuple[str, str]] = []

    def answer(route: Route) -> None:
        request = route.request
        asked.append((request.method, request.url.removeprefix(site.url)))
        if request.method == "PUT":
            route.fulfill(status=201, json={**hook, "secret": "whsec_once"})
        elif request.method == "GET":
            route.fulfill(json={"items": [hook], "next": None})
        else:
            route.fulfill(json={})

    tab = open_tab()
    tab.page.route("**/v1/webhooks**", answer)
    page = tab.open(f"{site.url}/console#/overview", "Overview")
    page.get_by_role("link", name="Webhooks").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Webhooks")
    shown = ["ops", "failing", "boards/delays: 1 subscription", "https://example.org/in", "1,200", "7", "3", "500"]
    tab.until(lambda: [cells[:8] for cells in rows(page, "Webhooks")] == [shown])
    fields = {"Name": "ops", "Address": hook["url"], "Resource": "boards/delays", "Ids of subscriptions": "all-best-5"}
    for label, value in fields.items():
        page.get_by_role("textbox", name=label).fill(str(value))
    page.get_by_role("button", name="Make or change").click()
    expect(page.get_by_text("whsec_once")).to_be_visible()
    page.get_by_role("button", name="Test ops").click()
    expect(page.get_by_text("A test was sent to ops.")).to_be_visible()
    assert ("PUT", "/v1/webhooks/ops") in asked and ("POST", "/v1/webhooks/ops/test") in asked
    assert tab.serious() == []


FRAME = """(url) => {
  const frame = document.createElement("iframe");
  frame.src = url;
  document.body.append(frame);
}"""
TRY = """async ([service, headers, body]) => {
  const said = {};
  const ask = async (name, path, options) => {
    try { said[name] = (await fetch(service + path, options)).status; } catch (error) { said[name] = "refused"; }
  };
  await ask("get", "/v1/boards/delays/top", {headers});
  headers = {...headers, "Content-Type": "application/json"};
  await ask("post", "/v1/boards/delays/events", {method: "POST", headers, body});
  said.socket = await new Promise((resolve) => {
    const socket = new WebSocket(service.replace("http", "ws") + "/v1/stream");
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  });
  return said;
}"""
FOLLOW = """async ([service, headers]) => {
  headers = {...headers, "Content-Type": "application/json"};
  const asked = await fetch(service + "/v1/tickets", {method: "POST", headers,
    body: JSON.stringify({resource: "boards/delays", ids: ["mine"], seconds: 60})});
  const {ticket} = await asked.json();
  const events = new EventSource(`${service}/v1/boards/delays/subscriptions/mine/stream?ticket=${ticket}`);
  const list = await new Promise((resolve, reject) => {
    events.addEventListener("snapshot", (event) => resolve(JSON.parse(event.data).list));
    events.onerror = () => reject(new Error("refused"));
  });
  events.close();
  return list.map((entry) => entry.id);
}"""


def test_a_page_of_another_origin_is_refused_unless_it_is_let_in(
    site: Site, closed: tuple[Site, str], elsewhere: str, open_tab: Open
) -> None:
    refused = open_tab(expected=lambda text: True).open(elsewhere)
    body = '{"events": [{"op": "upsert", "id": "EVIL", "values": {"distance": 1, "delay": 9999}}]}'
    assert refused.evaluate(TRY, [site.url, {}, body]) == {"get": "refused", "post": "refused", "socket": "refused"}
    assert httpx.get(f"{site.url}/v1/boards/delays/objects/EVIL").status_code == 404
    service, key = closed
    headers = {"Authorization": f"Bearer {key}"}
    let_in = open_tab().open(elsewhere)
    assert let_in.evaluate(TRY, [service.url, headers, body]) == {"get": 200, "post": 200, "socket": "open"}
    wanted = httpx.get(f"{service.url}/v1/boards/delays/subscriptions/mine", headers=headers).json()["list"]
    assert let_in.evaluate(FOLLOW, [service.url, headers]) == [entry["id"] for entry in wanted]


def test_the_console_of_one_origin_is_not_shown_in_a_frame_of_another(
    site: Site, elsewhere: str, open_tab: Open
) -> None:
    tab = open_tab(expected=lambda text: True)
    page = tab.open(elsewhere)
    page.evaluate(FRAME, f"{site.url}/console")
    tab.until(lambda: len(page.frames) == 2 and page.frames[1].url.startswith("chrome-error:"))
