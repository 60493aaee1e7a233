"""Data for the console: a resource of each type, filled the same way each time, over the HTTP API alone."""

from __future__ import annotations

import random
from typing import Any

import httpx

CARRIERS = ("AA", "B6", "DL", "EV", "UA", "US", "WN")
PLACES = ("ATL", "BOS", "CLT", "FLL", "IAH", "LAX", "MCO", "ORD", "SFO")
WORDS = ("ramen", "sushi", "coupon", "pizza", "vegan", "breakfast", "late", "terrace", "market", "noodles")


def flight(draw: random.Random, number: int) -> dict[str, Any]:
    """An event of the board `delays`."""
    values = {"distance": draw.randint(2, 50) * 50, "delay": round(min(900, draw.expovariate(1 / 45)) - 20)}
    payload = {"from": draw.choice(("EWR", "JFK", "LGA")), "to": draw.choice(PLACES)}
    id = f"{CARRIERS[number % len(CARRIERS)]}{100 + number}"
    return {"op": "upsert", "id": id, "values": values, "payload": payload}


def fill(http: httpx.Client, flights: bool = True) -> None:
    """Make all of it. Without `flights` the board is left out, as on the service of the demo, which has it."""
    draw = random.Random(5)

    def send(method: str, path: str, body: object) -> None:
        http.request(method, path, json=body).raise_for_status()

    if flights:
        rank = {"attribute": "delay", "order": "desc"}
        send("PUT", "/v1/boards/delays", {"range_attributes": ["distance"], "rank": rank, "ks": [5, 10]})
        subscriptions = [
            {"id": f"from-{low}-to-{low + width}-best-{k}", "range": {"distance": [low, low + width]}, "k": k}
            for width in (250, 500, 1000)
            for low in range(0, 2501 - width, width)
            for k in (5, 10)
        ]
        subscriptions.append({"id": "all-best-5", "range": {}, "k": 5})
        send("POST", "/v1/boards/delays/subscriptions", {"subscriptions": subscriptions})
        send("POST", "/v1/boards/delays/events", {"events": [flight(draw, i) for i in range(200)], "messages": "none"})
    send("PUT", "/v1/matchers/ads", {"dimensions": ["age", "credit", "income"], "mode": "relaxed"})
    ads = []
    for i in range(60):
        age, credit, income = draw.randint(18, 60), draw.randint(300, 750), draw.randint(20, 120)
        intervals = {"age": [age, age + 20], "credit": [credit, credit + 150], "income": [income, income + 40]}
        weights = {dimension: round(draw.uniform(0.1, 2), 2) for dimension in intervals}
        ads.append({"id": f"campaign-{i:02}", "intervals": intervals, "weights": weights})
    send("POST", "/v1/matchers/ads/subscriptions", {"subscriptions": ads})
    send("PUT", "/v1/relays/market", {"attributes": ["price", "volume"]})
    boxes = [
        ("all-cheap", {"price": [0, 50]}),
        ("bargain", {"price": [0, 20], "volume": [100, None]}),
        ("bargain-large", {"price": [0, 20], "volume": [1000, None]}),
        ("cheap-small", {"price": [10, 40], "volume": [0, 100]}),
        ("mid", {"price": [40, 120], "volume": [10, 5000]}),
        ("mid-narrow", {"price": [60, 80], "volume": [100, 900]}),
        ("large", {"volume": [5000, None]}),
        ("large-dear", {"price": [200, None], "volume": [8000, None]}),
    ]
    send("POST", "/v1/relays/market/subscriptions", {"subscriptions": [{"id": id, "box": box} for id, box in boxes]})
    attributes = {"price": "low", "rating": {"order": "high", "range": [0, 5]}}
    send("PUT", "/v1/maps/food", {"attributes": attributes, "bounds": [0, 0, 100, 70]})
    kinds = ("bistro", "canteen", "deli", "grill", "kiosk", "noodles", "trattoria")
    objects = [
        {
            "id": f"{kinds[i % len(kinds)]}-{i:03}",
            "location": [round(draw.gauss(50, 22) % 100, 2), round(draw.gauss(35, 16) % 70, 2)],
            "values": {"price": draw.randint(5, 40), "rating": round(draw.uniform(1, 5), 1)},
        }
        for i in range(260)
    ]
    send("POST", "/v1/maps/food/objects", {"objects": objects})
    send("PUT", "/v1/feeds/city", {"window": 400, "bounds": [13.0, 52.3, 13.8, 52.7]})
    send("POST", "/v1/feeds/city/posts", {"posts": [post(draw, i) for i in range(300)]})


def post(draw: random.Random, number: int) -> dict[str, Any]:
    """A post of the feed `city`."""
    words = draw.sample(WORDS, draw.randint(1, 4))
    location = [round(draw.gauss(13.4, 0.14), 4), round(draw.gauss(52.51, 0.07), 4)]
    return {"id": f"post-{number:03}", "keywords": words, "location": location}
