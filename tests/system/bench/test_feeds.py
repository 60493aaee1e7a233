"""A small run of the feeds' benchmark: it ends, and its worlds are as they are said to be. How fast is not asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.feeds import run, service, speed
from bench.feeds.ranks import rates
from bench.feeds.workload import make_world
from bench.prototypes import FEEDS
from indexes.feeds.theta import cheapest_rank

SMALL = speed.Size(60, 30, 5, 1, 3, 2, 100)


def test_a_run_writes_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FEEDS, raising=False)
    monkeypatch.setattr(speed, "QUICK", SMALL)
    monkeypatch.setattr(service, "QUICK", service.Size(40, 30, 5, 2, 1, 4, 3, 100))
    page = tmp_path / "feeds.md"
    run.run(quick=True, out=page, say=lambda _: None)
    text = page.read_text()
    assert (
        "| groups, leaf 8000 |" in text
        and "| kmax |" in text
        and "| subscriptions | 300 |" in text
        and "| no group |" in text
        and "| service |" in text
        and "Not judged at this size" in text
    )


def test_words_of_a_document_are_different_and_weigh_more_when_rare() -> None:
    world = make_world(300, 200, 1_000)
    for documents, least, most in ((world.subscriptions, 1, 5), (world.posts, 5, 15)):
        for i in range(len(documents)):
            words = documents.part(i, i + 1).word
            assert least <= len(words) <= most and (np.diff(words) > 0).all()
    posts = world.posts
    assert (np.diff(posts.weight[np.argsort(posts.word, kind="stable")]) <= 0).all()
    assert np.median(posts.word) > 500 and ((world.places >= 0) & (world.places <= 1)).all()


def test_the_cheapest_ranks_are_about_those_of_the_table() -> None:
    """A single run: at rank k there are many evaluations, and at the table's rank hardly any."""
    k = 5
    often, low = rates(k, k, 3.0, 2, 1)
    seldom, high = rates(k, cheapest_rank(k, 1_000), 3.0, 2, 1)
    assert often > 0.5 > seldom and high > low > k / 2
