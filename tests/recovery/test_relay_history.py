"""Random histories of relays over HTTP, in this process, beside a model that knows the definition alone."""

from __future__ import annotations

import pytest

from tests.support.app_client import AppClient
from tests.system.http.relay_history import RelayPlayer
from tests.system.http.talk import Talk

WAYS = [("G", 1, "kd"), ("G", 3, "zorder"), ("G*", 1, "linear"), ("poset", 1, "kd")]


@pytest.mark.parametrize("links", [0, 2])
@pytest.mark.parametrize(("graph", "k", "index"), WAYS)
def test_a_history_is_exact_after_every_step(client: AppClient, graph: str, k: int, index: str, links: int) -> None:
    talk = Talk("http://127.0.0.1", http=client)
    player = RelayPlayer(talk, 3 + links, 1 + links, graph, k, index, links)
    try:
        for _ in range(25):
            player.step()
        player.check()
    except AssertionError:
        print("\n".join(talk.calls))
        raise
