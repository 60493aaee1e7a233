"""Arrow streams that no writer makes: what lies behind their columns is checked before anything reads it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from app.api.bodies import BodyFormat
from tests.fuzz.grammar import KINDS, World, arrow_of
from tests.support.app_client import AppClient
from tests.support.crafted_arrow import CRAFTED, TEXTS, stream

NESTED: dict[str, pa.Array] = {
    "structs": pa.array([{"a": 1}] * 3),
    "maps": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    "a union": pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [TEXTS]),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), TEXTS.slice(0, 2)),
    "bytes": TEXTS.cast(pa.binary()),
    "views of lists": pa.array([["i1"]] * 3, pa.list_view(pa.string())),
    "lists of lists": pa.array([[["i1"]]] * 3),
    "lists of structs": pa.array([[{"a": 1}]] * 3),
    "moments": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
}


@pytest.fixture
def bodies(client: AppClient) -> list[tuple[str, pa.Table]]:
    """The bulk routes of each kind of resource with a body of three valid elements."""
    world, found = World(Random(7)), []
    for kind in KINDS:
        assert client.put(f"/v1/{kind}/a", json=world.configs[kind, "a"]).status_code == 201
        for plan in (world.fill(kind, "a"), world.subscribe(kind, "a")):
            while len(plan.body[plan.elements]) < 3 or len(arrow_of(plan.body[plan.elements]).column_names) < 2:
                plan = world.fill(kind, "a") if "subs" not in plan.path and "quer" not in plan.path else plan
                plan = world.subscribe(kind, "a") if "subs" in plan.path or "quer" in plan.path else plan
            elements = [{**one, "id": f"i{i}"} for i, one in enumerate(plan.body[plan.elements][:3], 1)]
            if kind in ("matchers", "relays") and plan.elements in ("events", "notifications"):
                elements = plan.body[plan.elements][:3]
            found.append((plan.path, arrow_of(elements)))
    return found


def post(client: AppClient, path: str, body: bytes) -> Any:
    headers = {"content-type": BodyFormat.ARROW.value}
    return client.post(path, content=body, headers=headers)


def damaged(raw: bytes, rng: Random, n: int) -> Iterator[bytes]:
    """A stream with an integer of another value somewhere."""
    odd = [struct.pack("<q", v) for v in (-1, 1, 7, 1 << 31, 1 << 40, -(1 << 63), (1 << 63) - 1)]
    odd += [struct.pack("<i", v) for v in (-1, 0, 1, 64, 1 << 16, -(1 << 31), (1 << 31) - 1)]
    for _ in range(n):
        one, at = rng.choice(odd), rng.randrange(len(raw) // 4) * 4
        yield raw[:at] + one + raw[at + len(one) :]


@pytest.mark.parametrize("what", CRAFTED)
def test_columns_that_reach_beyond_their_buffers_are_refused(
    client: AppClient, bodies: list[tuple[str, pa.Table]], what: str
) -> None:
    column, old, new = CRAFTED[what]
    for path, table in bodies:
        for i, name in enumerate(table.column_names):
            raw = stream(table.set_column(i, name, column))
            assert old in raw
            answer = post(client, path, raw.replace(old, new))
            assert answer.status_code == 400, (path, name, answer.text)
            assert answer.json()["type"] == "/problems/malformed"


@pytest.mark.parametrize("what", NESTED)
def test_columns_of_other_types_are_refused(client: AppClient, bodies: list[tuple[str, pa.Table]], what: str) -> None:
    for path, table in bodies:
        for i, name in enumerate(table.column_names):
            answer = post(client, path, stream(table.set_column(i, name, NESTED[what])))
            # A union or runs of texts are read as texts where elements are read one by one.
            read = (201, 409) if name == "id" and what in ("a union", "runs") else ()
            assert answer.status_code in (422, *read), (path, name, answer.text)


def test_a_stream_with_a_damaged_integer_is_answered(client: AppClient, bodies: list[tuple[str, pa.Table]]) -> None:
    rng = Random(5)
    for path, table in bodies:
        raw = stream(table)
        refused = 0
        for body in damaged(raw, rng, 60):
            answer = post(client, path, body)
            assert answer.status_code < 500, answer.text
            refused += answer.status_code >= 400
        assert refused > 10, path
    assert client.get("/readyz").json()["failed"] == []
