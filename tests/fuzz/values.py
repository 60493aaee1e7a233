"""Odd values, and mutations of JSON trees, of JSON text, of bytes and of Arrow tables, all drawn from one `Random`."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

NUMBERS: tuple[Any, ...] = (
    0,
    -0.0,
    1,
    -1,
    0.5,
    1e300,
    -1e300,
    1.0000001e300,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1e-300,
    1.7976931348623157e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    2**31,
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63),
    10**30,
    10**400,
    10**4000,
    1e16,
)

STRINGS: tuple[str, ...] = (
    "",
    " ",
    ".",
    "..",
    "...",
    "/",
    "a/b",
    "%2F",
    "\x00",
    "\n",
    "\x7f",
    "\ud800",
    "\ufeff",
    "\u202e",
    "e\u0301",
    "İ",
    "ß",
    "ﬃ",
    "😀",
    "x" * 129,
    "x" * 5000,
    "_",
    "__proto__",
    "id",
    "k",
    "op",
    "payload",
    "created",
    "distance",
    "null",
    "NaN",
    "1e300",
    "-0",
    "{}",
    "'; drop table log; --",
    "../../etc/passwd",
    "\\",
    '"',
    "true",
    "where",
    "seq",
)

_DEEP = "\x01deep"


def number(rng: Random) -> Any:
    """A number: mostly a small one, so that there are ties, sometimes one at the edge of what there is."""
    chance = rng.random()
    if chance < 0.6:
        return rng.randrange(0, 8)
    if chance < 0.85:
        return round(rng.uniform(-10, 10), 2)
    return rng.choice(NUMBERS[:13])


def odd(rng: Random) -> Any:
    """A value of any type, an unlikely one."""
    match rng.randrange(9):
        case 0 | 1 | 2:
            return rng.choice(NUMBERS)
        case 3 | 4:
            return rng.choice(STRINGS)
        case 5:
            return rng.choice((None, True, False, [], {}))
        case 6:
            return [odd(rng) for _ in range(rng.randrange(4))]
        case 7:
            return {rng.choice(STRINGS): odd(rng) for _ in range(rng.randrange(4))}
    return _DEEP + str(rng.choice((3, 100, 1_100, 20_000)))


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every value of a tree by the list or dictionary that holds it."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            for key in one if isinstance(one, dict) else range(len(one)):
                found.append((one, key))
                waiting.append(one[key])
    return found


def mutate_tree(rng: Random, tree: Any) -> Any:
    """Change one place of a tree, in place where that is possible; returns the tree."""
    places = _places(tree)
    if not places or rng.random() < 0.02:
        return odd(rng)
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0 | 1 | 2:
            holder[key] = odd(rng)
        case 3:
            del holder[key]
        case 4 if isinstance(holder, dict):
            holder[rng.choice(STRINGS)] = odd(rng)
        case 4:
            holder.extend([holder[key]] * rng.choice((1, 2, 50)))
        case 5:
            other, at = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[at]))
        case 6 if isinstance(holder, dict):
            holder[rng.choice(STRINGS)] = holder.pop(key)
        case 6:
            holder.insert(0, odd(rng))
        case _:
            holder[key] = _swapped(holder[key])
    return tree


def _swapped(value: Any) -> Any:
    """A value as one of another type."""
    match value:
        case bool():
            return int(value)
        case str():
            return [value]
        case int() | float():
            return str(value)[:50]
        case list():
            return dict(enumerate(value)) if value else None
        case dict():
            return [value]
    return "null"


def text_of(rng: Random, tree: Any) -> str:
    """A tree as JSON text, or nearly; sometimes with a field twice, in other spacing or escapes."""
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.8 or _has_surrogate(tree), separators=(",", ":"))
    while (start := text.find('"\\u0001deep')) >= 0:
        end = text.index('"', start + 1)
        depth = int(text[start + 11 : end])
        text = text[:start] + "[" * depth + "]" * depth + text[end + 1 :]
    if rng.random() < 0.04 and (at := text.find("{", rng.randrange(len(text)))) >= 0:
        again = rng.choice(('"id":"i1"', '"id":7', '"values":{}', '"seq":1', '"\\u0069d":"i2"'))
        text = text[: at + 1] + again + ("" if text[at + 1 : at + 2] == "}" else ",") + text[at + 1 :]
    return text


def _has_surrogate(tree: Any) -> bool:
    return "\\ud800" in json.dumps(tree)


def mutate_bytes(rng: Random, data: bytes) -> bytes:
    """Change a few bytes: flip, cut, insert, double, or put numbers at the edge in their place."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(7):
            case 0 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + rng.choice((1, 4, 100))] = b""
            case 2:
                found[at:at] = rng.randbytes(rng.choice((1, 4, 16)))
            case 3:
                found[at:at] = found[at : at + rng.choice((4, 64, 1024))]
            case 4:
                del found[at:]
            case 5:
                found[at : at + 4] = rng.choice(
                    (b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f", b"\0\0\0\0")
                )
            case _:
                found[at : at + 1] = bytes([rng.choice((0, 1, 10, 34, 44, 91, 93, 123, 125, 127, 128, 255))])
    return bytes(found)


def mutate_table(rng: Random, table: pa.Table) -> pa.Table:
    """Change one column of a table: its name, its type, its values, or whether it is there."""
    if not table.num_columns:
        return pa.table({"id": ["i1"]})
    i = rng.randrange(table.num_columns)
    name, column = table.column_names[i], table.column(i)
    n = len(table)
    match rng.randrange(9):
        case 0:
            return table.remove_column(i)
        case 1:
            return table.append_column(rng.choice((name, *STRINGS[:20])), column)
        case 2:
            return table.set_column(i, name, pa.nulls(n, rng.choice((pa.null(), column.type))))
        case 3:
            kind = rng.choice(
                (
                    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.float16(), pa.float32()),
                    *(pa.int64(), pa.uint8(), pa.decimal128(38, 2)),
                )
            )
            try:
                return table.set_column(i, name, column.cast(kind))
            except pa.ArrowException:
                return table.set_column(i, name, pa.nulls(n, kind))
        case 4:
            odds = [float(x) if abs(x) < 1e308 or x != x else float("inf") for x in NUMBERS[:-4]]
            return table.set_column(i, name, pa.array([rng.choice(odds) for _ in range(n)], pa.float64()))
        case 5:
            odds_text = [text for text in STRINGS if text != "\ud800"]
            return table.set_column(i, name, pa.array([rng.choice(odds_text) for _ in range(n)], pa.string()))
        case 6:
            return table.set_column(
                i, name, column.combine_chunks().dictionary_encode() if column.num_chunks else column
            )
        case 7:
            lists = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32), pa.nulls(n))
            return table.set_column(i, name, lists)
    return pa.concat_tables([table] * rng.choice((2, 30))) if rng.random() < 0.5 else table.slice(0, 0)
