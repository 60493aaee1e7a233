"""A bare loop: ``python -m bench.connect.bare --url URL --board NAME --events N --batch N``.

Makes the requests that a connector would make of these events, then posts them one after the other with httpx. Prints
seconds and seconds of the processor, the making left out.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import islice

import httpx

from app.connectors.destinations import Destination
from bench.connect.events import events


def run(url: str, board: str, count: int, batch: int) -> dict[str, float]:
    """Post all; raises for a refusal."""
    to, texts = Destination("boards", board), events(count)
    bodies = [to.body(some) for some in iter(lambda: list(islice(texts, batch)), [])]
    with httpx.Client(base_url=url, headers={"Content-Type": "application/json"}, timeout=60.0) as http:
        http.get("/readyz").raise_for_status()
        began, processor = time.perf_counter(), time.process_time()
        for number, body in enumerate(bodies):
            key = {"Idempotency-Key": f"{board}-{number}"}
            http.post(to.path, content=body, headers=key).raise_for_status()
        return {"seconds": time.perf_counter() - began, "processor": time.process_time() - processor}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--board", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    given = parser.parse_args()
    print(json.dumps(run(given.url, given.board, given.events, given.batch)))
