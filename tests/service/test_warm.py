"""Once the service is ready, no request waits for a kernel to be compiled."""

from __future__ import annotations

import sys
from pathlib import Path

from numba.core.registry import CPUDispatcher
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from indexes.boards.painter import INDEXES
from tests.service.history import Player
from tests.service.talk import ARROW, Talk, arrow, event_table, subscription_table


def compiled() -> dict[str, int]:
    """How many signatures each kernel is there for, compiled or loaded."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "indexes"]
    kernels = {id(one): one for module in modules for one in vars(module).values() if isinstance(one, CPUDispatcher)}
    return {f"{one.py_func.__module__}.{one.py_func.__name__}": len(one.signatures) for one in kernels.values()}


def test_nothing_is_compiled_while_requests_are_served(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    for start in range(2):
        with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
            before = compiled()
            assert min(before[f"indexes.boards.step.{name}"] for name in ("run", "run_heard", "advance")) == len(
                INDEXES
            )
            talk = Talk("http://127.0.0.1", http=client)
            for algorithm in ("sparse", "dense"):
                for index in ("range-tree", "kd-tree"):
                    player = Player(talk, 5 + start, "desc", algorithm, index)
                    for _ in range(40):
                        player.step()
                    bulk(player)
            grown = {name: (before.get(name, 0), n) for name, n in compiled().items() if n > before.get(name, 0)}
            assert not grown, f"compiled while serving: {grown}"


def bulk(player: Player) -> None:
    """Arrow bodies long enough for every path that only long ones take."""
    names = [f"{n:05}" for n in range(6_000)]
    for order in (names, names[::-1]):
        events = [
            {"op": "upsert", "id": f"e{n}", "values": {player.x: int(n) % 99, player.y: int(n) % 17}} for n in order
        ]
        events += [{"op": "delete", "id": event["id"]} for event in events[:100]]
        body = arrow(event_table(events, [player.x, player.y]), 2_500)
        player.talk.good("POST", f"{player.path}/events", body, headers={"Content-Type": ARROW})
        prefix = "a" if order is names else "b"
        k = player.model.ks[0]
        asked = [{"id": prefix + n, "k": k, "range": {player.x: [int(n) % 50, 60]}} for n in order]
        body = arrow(subscription_table(asked, player.x), 2_500)
        player.talk.good("POST", f"{player.path}/subscriptions", body, headers={"Content-Type": ARROW})
        player.talk.good("POST", f"{player.path}/subscriptions/delete", {"ids": [one["id"] for one in asked[::2]]})
