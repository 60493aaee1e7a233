"""A page that shows the three cheapest cars of 2015 to 2018 and follows a market.

Prints:
    at first     golf 9,900 | corolla 11,500 | civic 12,000
    fiesta new   fiesta 8,700 | golf 9,900 | corolla 11,500
    golf sold    fiesta 8,700 | corolla 11,500 | civic 12,000
"""

from __future__ import annotations

import asyncio
import os

from rankcast_client import AsyncRankcast, delete, upsert

CARS = {"golf": (2016, 9900), "civic": (2018, 12000), "corolla": (2015, 11500), "model-3": (2021, 24000)}


async def main() -> None:
    """Follow the cheapest cars: boards."""
    async with AsyncRankcast(os.environ.get("RANKCAST_URL", "http://127.0.0.1:8000")) as rankcast:
        cars = rankcast.board("example-cars")
        # An object's position is its year, its rank its price; lists hold the three lowest prices.
        await cars.put(["year"], "price", order="asc", ks=[3])
        await cars.publish_many([upsert(id, {"year": year, "price": price}) for id, (year, price) in CARS.items()])
        await cars.put_subscription("page", (2015, 2018), k=3)

        market = [
            ("fiesta new", upsert("fiesta", {"year": 2017, "price": 8700})),
            ("golf sold", delete("golf")),
        ]
        watch, happened = cars.watch("page"), "at first"
        async for _ in watch:
            print(f"{happened:12}", " | ".join(f"{car.id} {car.values['price']:,.0f}" for car in watch.list))
            if not market:
                break
            happened, event = market.pop(0)
            await cars.publish(event)
        await cars.delete()


asyncio.run(main())
