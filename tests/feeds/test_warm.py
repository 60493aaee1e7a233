"""Once the kernels of feeds are warm, none is compiled while they are used."""

from __future__ import annotations

import numba
import pytest

from indexes.feeds.feed import FeedIndex
from indexes.feeds.model import FeedConfig
from indexes.feeds.warm import exercise, warm
from tests.compiling import compiled


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
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
