"""Once the kernels of feeds are warm, none is compiled while they are used."""

from __future__ import annotations

import pytest

from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.warm import exercise, warm
from tests.support.compiling import compiled
from tests.support.values import UNCOMPILED


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_nothing_is_compiled_while_feeds_are_used() -> None:
    warm()
    with compiled() as kernels:
        for config in (
            FeedConfig((0.0, 0.0, 2.0, 1.0), span=1),
            FeedConfig((0.0, 0.0, 2.0, 1.0), posts=3, tfidf=False, buffer="kmax"),
            FeedConfig((0.0, 0.0, 2.0, 1.0), posts=500, buffer="kscore"),
        ):
            exercise(FeedIndex(config))
    assert not kernels
