"""The pages: links from one to another lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links to them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    """The links of a page that stay here."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [link for link in found if not link.startswith(("http:", "https:", "mailto:", "/"))]


def test_links_lead_to_pages_and_headings_that_are_there() -> None:
    lost = []
    for page in PAGES:
        for link in links(page):
            place, _, anchor = link.partition("#")
            target = (page.parent / place).resolve() if place else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                lost.append(f"{page.name}: {link}")
    assert not lost


def test_the_page_of_matchers_leads_to_matches_of_a_history() -> None:
    assert "spark.md#a-history-of-events" in links(ROOT / "docs" / "matchers.md")
