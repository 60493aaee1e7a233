"""Alerts by price and volume: which of them a neighbouring service needs to know, and whom a trade reaches.

Prints:
    bargains: forward, covered by nothing
    small bargains: keep, covered by bargains
    trade of 300 at 12: bargains
    trade of 5 at 8: bargains, small bargains
"""

from __future__ import annotations

import os

from rankcast_client import Rankcast

with Rankcast(os.environ.get("RANKCAST_URL", "http://127.0.0.1:8000")) as rankcast:
    market = rankcast.relay("example-market")
    market.put(["price", "volume"])
    for id, box in (
        ("bargains", {"price": (0, 20), "volume": (0, None)}),
        ("small bargains", {"price": (0, 10), "volume": (0, 100)}),
    ):
        # A box inside one that was forwarded needs no forwarding of its own.
        decision = market.put_subscription(id.replace(" ", "-"), box).routed
        assert decision is not None
        covered = ", ".join(decision.covered_by).replace("-", " ") or "nothing"
        print(f"{id}: {'forward' if decision.forward else 'keep'}, covered by {covered}")

    for price, volume in ((12, 300), (8, 5)):
        reached = market.notify({"price": price, "volume": volume})
        print(f"trade of {volume} at {price}: {', '.join(id.replace('-', ' ') for id in reached.subscriptions)}")
    market.delete()
