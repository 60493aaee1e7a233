"""The two most relevant recent posts about ramen near an office, as they come and go.

Prints:
    at first   -
    posted     cocolo
    posted     nearer, cocolo
    withdrawn  cocolo
"""

from __future__ import annotations

import asyncio
import os

from rankcast_client import AsyncRankcast


async def main() -> None:
    """Find lunch near a client that moves: maps."""
    async with AsyncRankcast(os.environ.get("RANKCAST_URL", "http://127.0.0.1:8000")) as rankcast:
        city = rankcast.feed("example-city")
        # The last thousand posts; weights of words as they are given, without statistics of the window.
        await city.put((13.0, 52.3, 13.8, 52.7), window=1000, weighting="given")
        await city.put_subscription("lunch", (13.40, 52.50), ["ramen"], k=2)
        steps = [
            ("posted", lambda: city.post((13.45, 52.50), ["ramen", "coupon"], id="cocolo")),
            ("posted", lambda: city.post((13.41, 52.50), text="The ramen!", id="nearer")),
            ("withdrawn", lambda: city.withdraw("nearer")),
        ]
        async with city.watch("lunch") as watch:
            happened = "at first"
            async for _ in watch:
                print(f"{happened:10} {', '.join(post.id for post in watch.list) or '-'}")
                if not steps:
                    break
                happened, step = steps.pop(0)
                await step()
        await city.delete()


asyncio.run(main())
