"""The pages: links from one to another lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from app.resource_names import RESOURCES
from tools.install import LOCKS, pins

ROOT = Path(__file__).resolve().parents[3]
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


def test_the_readme_has_the_speed_of_the_results() -> None:
    """Updates a second of Rankcast, PostgreSQL and Redis, and how many times faster Rankcast is, by subscriptions."""
    rows = re.findall(
        r"^\| ([\d,]+) \| ([\d,.]+) \| ([\d,.]+) \| ([\d,.]+) \| (.+) \|$", PAGES[0].read_text("utf-8"), re.M
    )
    results = (ROOT / "docs" / "results" / "peers-boards.md").read_text("utf-8")
    assert [row[0] for row in rows] == ["1,000,000", "10,000", "100"]
    for m, *speeds, words in rows:
        table = re.search(rf"^## m = {m}$(.*?)(?=^## |\Z)", results, re.M | re.S)
        assert table is not None
        for name, speed in zip(("Rankcast", "PostgreSQL", "Redis"), speeds, strict=True):
            (measured, ratio) = re.findall(rf"^\| {name} \(.*?\) \| ([\d,.]+) \|.* ([\d,.]+) \|$", table[1], re.M)[0]
            assert speed == measured
            said = re.search(rf"([\d.]+) times (faster|slower) than {name}", words)
            if name != "Rankcast":
                assert said is not None
                times = float(said[1]) if said[2] == "faster" else 1 / float(said[1])
                assert abs(times / float(ratio) - 1) < 0.03
    said_of = {
        ("1,000,000", "in batches of 1,000"): "takes {} updates a second at 1,000,000 subscriptions",
        ("1,000,000", "over one socket, 128 under way"): "and {} at 1,000,000, more than both at each",
        ("100", "over one socket, 128 under way"): "Rankcast takes {} a second at 100 subscriptions",
    }
    readme = PAGES[0].read_text("utf-8").replace("\n", " ")
    for (m, way), sentence in said_of.items():
        measured = re.search(rf"^## m = {m}$.*?^\| the same {way} \| ([\d,]+) \|", results, re.M | re.S)
        assert measured is not None
        assert sentence.format(measured[1]) in readme


def test_the_readme_has_the_number_of_packages_that_are_installed() -> None:
    found = re.search(r"into `\.venv`, (\d+)\s+packages", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    assert int(found[1]) == len(pins(LOCKS / "runtime.lock") | pins(LOCKS / "demo.lock"))


def test_every_page_is_in_the_index_and_in_the_navigation_of_the_site() -> None:
    docs = ROOT / "docs"
    pages = {page.name for page in docs.glob("*.md")}
    listed = [link for link in links(docs / "index.md") if link in pages]
    table = re.findall(r"^\| \[([\w-]+\.md)\]", (docs / "index.md").read_text("utf-8"), re.M)
    assert pages - {"index.md"} == set(listed)
    assert len(table) == len(set(table)), "a page is listed once"
    nav = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert len(nav) == len(set(nav))
    assert set(nav) == {str(page.relative_to(docs)) for page in docs.rglob("*.md")}


def test_the_map_of_the_code_names_every_folder() -> None:
    text = (ROOT / "docs" / "code.md").read_text("utf-8")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {Path(name).parts[0] for name in listed if "/" in name and not name.startswith(".")}
    below = {"/".join(Path(name).parts[:2]) for name in listed if re.match(r"(app|tests)/\w+/", name)}
    missing = [name for name in folders if f"| `{name}/`" not in text]
    missing += [name for name in below if f"`{name.partition('/')[2]}/`" not in text]
    assert not missing


def test_files_that_the_map_of_the_code_names_exist() -> None:
    text = (ROOT / "docs" / "code.md").read_text("utf-8")
    named = re.findall(r"`((?:app|indexes|formats|client|client-js|tests|spark_jobs|docs)/[\w./-]+)`", text)
    assert len(named) > 40
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_types_of_resources_are_listed_once() -> None:
    """Beside `app.resource_names` only clients, which import nothing of the service, and what cannot import it."""
    names = list(RESOURCES)
    listed = "|".join(re.escape(text) for text in (", ".join(f'"{name}"' for name in names), "|".join(names)))
    copies = [
        str(path.relative_to(ROOT))
        for top in ("app", "tools")
        for path in sorted((ROOT / top).rglob("*"))
        if path.suffix in (".py", ".js") and re.search(listed, path.read_text("utf-8"))
    ]
    assert copies == ["app/console/types.js", "app/resource_names.py"]
