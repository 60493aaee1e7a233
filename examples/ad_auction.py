"""Visitors arrive; for each the two ads win that bid most for what is known, and one advertiser follows its wins.

Prints:
    visitor of 28 sees scooter, anyone
    visitor of 40 sees mortgage, anyone
    mortgage won rank 1 with 1.25
"""

from __future__ import annotations

import asyncio
import os

from rankcast_client import AsyncRankcast, Win

VISITORS = [{"age": 28, "credit": 441}, {"age": 40, "credit": 720}]


async def main() -> None:
    """Run an auction of ads: matchers."""
    async with AsyncRankcast(os.environ.get("RANKCAST_URL", "http://127.0.0.1:8000")) as rankcast:
        ads = rankcast.matcher("example-ads")
        # Relaxed: every dimension that fits adds its weight to the bid.
        await ads.put(["age", "credit"], "relaxed")
        await ads.put_subscription(
            "scooter", {"age": (18, 35), "credit": (400, 700)}, weights={"age": 0.75, "credit": 0.25}
        )
        await ads.put_subscription(
            "mortgage", {"age": (30, 50), "credit": (650, None)}, weights={"age": 0.25, "credit": 1}
        )
        await ads.put_subscription("anyone", {"age": (None, None)}, weights={"age": 0.125})

        async for event in ads.wins("mortgage", ready=True):
            if isinstance(event, Win):
                print(f"mortgage won rank {event.rank} with {event.score}")
                break
            for visitor in VISITORS:
                winners = await ads.match(visitor, k=2, notify=True)
                print(f"visitor of {visitor['age']} sees {', '.join(winner.id for winner in winners)}")
        await ads.delete()


asyncio.run(main())
