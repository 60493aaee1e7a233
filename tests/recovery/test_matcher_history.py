"""Random histories of matchers over HTTP, in this process, beside a model that knows the definition alone."""

from __future__ import annotations

import pytest

from tests.support.app_client import AppClient
from tests.system.http.matcher_history import MatcherPlayer
from tests.system.http.talk import Talk

WAYS = [
    ("exact", "sum", "auto"),
    ("relaxed", "sum", "auto"),
    ("relaxed", "max", "sopt-r"),
    ("relaxed", "product", "ir"),
    ("exact", "sum", "segment"),
    ("exact", "sum", "scored-r"),
]


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("mode", "combine", "index"), WAYS)
def test_a_history_is_exact_after_every_step(client: AppClient, mode: str, combine: str, index: str, d: int) -> None:
    talk = Talk("http://127.0.0.1", http=client)
    player = MatcherPlayer(talk, d, d, mode, combine, index)
    try:
        for _ in range(25):
            player.step()
        player.check()
    except AssertionError:
        print("\n".join(talk.calls))
        raise
