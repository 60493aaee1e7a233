"""Random histories of maps over HTTP, in this process, beside a model that knows the definition alone."""

from __future__ import annotations

import pytest

from tests.support.app_client import AppClient
from tests.system.http.map_history import MapPlayer
from tests.system.http.talk import Talk


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "great-circle"])
def test_a_history_is_exact_after_every_step(client: AppClient, metric: str, seed: int) -> None:
    talk = Talk("http://127.0.0.1", http=client)
    player = MapPlayer(talk, seed, metric)
    try:
        for _ in range(20):
            player.step()
        player.check()
    except AssertionError:
        print("\n".join(talk.calls))
        raise
