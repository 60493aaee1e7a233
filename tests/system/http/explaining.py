"""A board to explain."""

from __future__ import annotations

from typing import Any

from tests.system.http.talk import Json, Talk, fresh

CONFIG: Json = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2, 5]}


def made(talk: Talk, **more: Any) -> str:
    path = f"/v1/boards/{fresh('why')}"
    talk.good("PUT", path, {**CONFIG, **more})
    return path


def upsert(key: str, x: float, y: float, **more: Any) -> Json:
    return {"op": "upsert", "id": key, "values": {"distance": x, "delay": y}, **more}
