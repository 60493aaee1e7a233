"""A car drives 60 km along a road and always knows the two best chargers; it asks only when it leaves a safe zone.

Prints:
    at km 0: harbour, museum
    at km 60: airport, stadium
    60 moves, fewer than 15 requests
"""

from __future__ import annotations

import os

from rankcast_client import Rankcast, Top

CHARGERS = {
    "harbour": ((2, 1), 35), "museum": ((6, -2), 40), "market": ((18, 3), 30), "station": ((25, -1), 55),
    "park": ((37, 2), 45), "stadium": ((52, -3), 35), "airport": ((61, 1), 40),
}  # fmt: skip
SCORE = {"kind": "weighted_sum", "weights": {"distance": 1, "price": 0.1}}

with Rankcast(os.environ.get("RANKCAST_URL", "http://127.0.0.1:8000")) as rankcast:
    roads = rankcast.map("example-chargers")
    roads.put({"price": "low"}, (0, -10, 70, 10))
    roads.put_objects([{"id": id, "location": at, "values": {"price": price}} for id, (at, price) in CHARGERS.items()])

    # Five candidates make a zone several times wider than two; inside it the client ranks them by itself.
    near = roads.moving(Top(2, SCORE, m=3))
    for km in range(61):
        best = near.move((km, 0))
        if km in (0, 60):
            print(f"at km {km}: {', '.join(charger.id for charger in best.list)}")
    print("60 moves, fewer than 15 requests" if near.asked < 15 else f"{near.asked} requests")
    roads.delete()
