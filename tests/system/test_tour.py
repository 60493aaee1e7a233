"""Every command block of the README and of the pages in `docs`, run in order, as printed, in an empty folder.

The README is read while the demo runs, as it says; the other pages on an empty service, or on the one that they start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import LiveService, StartService
from tests.pages import PAGES, ROOT, RUN, SHELL, Block, blocks, blocks_of
from tests.patience import PATIENCE, wait_until
from tests.ports import free_port
from tests.system.tour import Tour, shows

README = "README.md"
TOURS = {
    page.relative_to(ROOT).as_posix(): blocks_of(page)
    for page in PAGES
    if any(block.language in RUN and not block.not_run for block in blocks_of(page))
}
RESOURCES = ("boards", "matchers", "relays", "maps", "feeds")
DEMO = Block(README, 0, "sh", "", terminal="service")
"""Where `make run` goes on, in the reader's first terminal."""

Take = Callable[[str], Tour]


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    """What pages that start no service are read on."""
    return start_service()


@pytest.fixture(scope="module")
def take(service: LiveService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Take]:
    """Takes a tour of a page, once: `take("docs/maps.md")`. Fails where the page does not hold."""
    taken: dict[str, Tour] = {}

    def take(page: str) -> Tour:
        if page in taken:
            return taken[page]
        found = TOURS[page]
        own = page == README or any(block.terminal and " serve" in block.text for block in found)
        port = free_port() if own else int(service.url.rpartition(":")[2])
        tour = taken[page] = Tour(tmp_path_factory.mktemp("tour") / "empty", port)
        if page == README:
            tour.start(DEMO, f".venv/bin/rankcast demo --port {port}")
            wait_until(lambda: _flights(tour) >= 5, pause=0.05)
        elif not own:
            _empty(service)
        tour.run(found)
        tour.end()
        return tour

    yield take
    for tour in taken.values():
        tour.kill()


def _flights(tour: Tour) -> int:
    """How many flights of the README's range have landed, five at the most."""
    answer = httpx.get(f"{tour.url}/v1/boards/delays/top?l=500&r=1000&k=5", timeout=PATIENCE)
    return len(answer.json()["list"]) if answer.status_code == 200 else 0


def _empty(service: LiveService) -> None:
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
        for resource in RESOURCES:
            for one in http.get(f"/v1/{resource}").json()["items"]:
                assert http.delete(f"/v1/{resource}/{one['name']}").status_code == 200


@pytest.mark.parametrize("page", TOURS)
def test_every_block_of_the_page_does_what_it_says(take: Take, page: str) -> None:
    tour = take(page)
    run = [block for block in TOURS[page] if block.language in RUN and not block.not_run]
    done = {outcome.block for outcome in tour.outcomes} | {running.block for running in tour.ended}
    assert done - {DEMO} == set(run)


@pytest.mark.parametrize("page", [page for page in TOURS if page != README])
def test_pages_leave_the_board_of_the_demo_alone(page: str) -> None:
    for block in TOURS[page]:
        assert block.not_run or not re.search(r"\bdelays\b", block.text), block.place
