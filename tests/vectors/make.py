"""What every client must make of the same messages: `python -m tests.vectors.make` writes the JSON files beside it.

`lists.json` has streams, message by message, with the list after each, found by sorting all objects; `zones.json` has
places and whether they are inside of a zone for sure, found with exact fractions; `sse.json` has texts of server-sent
events and the blocks in them. Nothing here uses a client. `--check` says whether the files are what would be written.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
SEED = 20
STEPS = 40

Data = dict[str, Any]


# Streams of boards and feeds


class World:
    """All objects of a board with the range attributes x and z, and the list of one subscription among them."""

    def __init__(self, chance: random.Random, subscription: Data, order: str, is_feed: bool = False) -> None:
        self.chance, self.subscription, self.sign, self.is_feed = (
            chance,
            subscription,
            1 if order == "asc" else -1,
            is_feed,
        )
        self.objects: dict[str, Data] = {}
        self.created = 0
        self.seq = 0

    def list(self, offset: int | None = None) -> list[Data]:
        """The list behind its offset, by brute force."""
        offset = self.subscription.get("offset", 0) if offset is None else offset
        inside = [one for one in self.objects.values() if contains(self.subscription, one)]
        inside.sort(key=lambda one: (self.sign * one["values"]["y"], one["created"]))
        depth = self.subscription.get("offset", 0) + self.subscription["k"]
        return [self.shown(one, rank) for rank, one in enumerate(inside[:depth], 1)][offset:]

    def shown(self, one: Data, rank: int) -> Data:
        """An entry as a stream has it."""
        if self.is_feed:
            place = {"location": [one["values"]["x"], one["values"]["z"]], "keywords": ["ramen"]}
            return {"rank": rank, "id": one["id"], "score": one["values"]["y"], **place}
        return {"rank": rank, **one}

    def step(self) -> tuple[str, Data | None, Data | None]:
        """One event: the id of its object, what that was, and what it is."""
        self.seq += 1
        id = self.chance.choice("abcdefgh")
        old = self.objects.pop(id, None)
        if old is not None and self.chance.random() < 0.25:
            return id, old, None
        values = {name: self.chance.randrange(-4, 5) for name in ("x", "z", "y")}
        new: Data = {"id": id, "values": values, "created": self.created if old is None else old["created"]}
        self.created += old is None
        if self.chance.random() < 0.5:
            new["payload"] = {"to": self.chance.choice(["IAH", "ORD", 1, True])}
        self.objects[id] = new
        return id, old, new


def contains(subscription: Data, one: Data) -> bool:
    """Whether an object is in a subscription's region and passes its filter."""
    x, z = one["values"]["x"], one["values"]["z"]
    for name, wanted in subscription.get("where", {}).items():
        held = (one.get("payload") or {}).get(name)
        if held != wanted or isinstance(held, bool) != isinstance(wanted, bool):
            return False
    if "disc" in subscription:
        (cx, cz), radius = subscription["disc"]["center"], subscription["disc"]["radius"]
        return bool((x - cx) ** 2 + (z - cz) ** 2 <= radius**2)
    if "half_plane" in subscription:
        (a, c), b = subscription["half_plane"]["a"], subscription["half_plane"]["b"]
        return bool(a * x + c * z <= b)
    return all(
        (low is None or low <= one["values"][name]) and (high is None or one["values"][name] <= high)
        for name, (low, high) in subscription["range"].items()
    )


def changes_case(name: str, subscription: Data, order: str, seed: int, resource: str = "boards") -> Data:
    """A stream of changes in any order, with a reset now and then, to its end."""
    chance = random.Random(seed)
    world = World(chance, subscription, order, resource == "feeds")
    for _ in range(6):
        world.step()
    steps = [snapshot(world, "snapshot")]
    before = world.list()
    for number in range(STEPS):
        for _ in range(chance.choice([1, 1, 3])):
            world.step()
        after = world.list()
        if number % 13 == 12:
            steps.append(snapshot(world, "reset"))
        elif changes := changes_between(before, after):
            chance.shuffle(changes)
            steps.append({"event": "change", "data": {"seq": world.seq, "changes": changes}, "list": after})
        before = after
    steps.append({"event": "ready", "data": {"seq": world.seq}, "list": before})
    steps.append({"event": "gone", "data": {"seq": world.seq + 1}, "list": before})
    return {"name": name, "resource": resource, "form": "changes", "subscription": subscription, "steps": steps}


def snapshot(world: World, event: str, offset: int | None = None) -> Data:
    """The message with the whole list; its data begin at rank `offset` + 1."""
    begins = world.subscription.get("offset", 0) if offset is None else offset
    data: Data = {"seq": world.seq, "list": world.list(begins)}
    if begins:
        data["offset"] = begins
    return {"event": event, "data": data, "list": world.list()}


def changes_between(old: list[Data], new: list[Data]) -> list[Data]:
    """Who entered, left or has other values."""
    before, after = ({one["id"]: one for one in found} for found in (old, new))
    changes = [{"id": id, "old_rank": one["rank"], "new_rank": None} for id, one in before.items() if id not in after]
    for id, one in after.items():
        held = before.get(id)
        rest = {name: value for name, value in one.items() if name not in ("id", "rank")}
        if held is None or {**held, "rank": 0} != {**one, "rank": 0}:
            changes.append({"id": id, "old_rank": held and held["rank"], "new_rank": one["rank"], **rest})
    return changes


def tiles_case(name: str, subscription: Data, order: str, seed: int, axes: int = 1) -> Data:
    """A stream of tiles, some of which are for others."""
    chance = random.Random(seed)
    world = World(chance, subscription, order)
    for _ in range(6):
        world.step()
    steps = [snapshot(world, "snapshot", 0)]
    for number in range(STEPS):
        before = world.list(0)
        id, old, new = world.step()
        after = world.list(0)
        if number % 13 == 12:
            steps.append(snapshot(world, "reset", 0))
            continue
        tiles = []
        held, there = (any(one["id"] == id for one in found) for found in (before, after))
        inside = new is not None and contains(subscription, new)
        if old is not None and held and not inside:
            tiles.append(tile(chance, subscription, {**old, "gone": True}, axes))
        elif new is not None and inside and (held or there):
            tiles.append(tile(chance, subscription, {**new, "gone": False}, axes))
        entered = [one for one in after if one["id"] != id and one["id"] not in {each["id"] for each in before}]
        tiles += [tile(chance, subscription, {**world.objects[one["id"]], "gone": False}, axes) for one in entered]
        noise = {"id": "other", "values": {"x": 0, "z": 0, "y": -99 * world.sign}, "created": 999, "gone": False}
        if chance.random() < 0.5:
            tiles.insert(chance.randrange(len(tiles) + 1), missing(chance, subscription, noise, axes))
        if tiles:
            steps.append({"event": "tiles", "data": {"seq": world.seq, "tiles": tiles}, "list": world.list()})
    board = {"rank": {"attribute": "y", "order": order}}
    facts = {"resource": "boards", "form": "tiles", "subscription": subscription, "board": board}
    return {"name": name, **facts, "steps": steps}


def tile(chance: random.Random, subscription: Data, thing: Data, axes: int) -> Data:
    """A tile that reaches the subscription."""
    made: Data = {"k": subscription.get("offset", 0) + subscription["k"], "object": thing}
    if "where" in subscription or chance.random() < 0.2:
        wanted = subscription.get("where", {}).get("to")
        made["where"] = {"to": {"any": "where" not in subscription, "values": ["zzz"] if wanted is None else [wanted]}}
    for shape in ("disc", "half_plane"):
        if shape in subscription:
            return {**made, shape: {name: around(chance, value) for name, value in subscription[shape].items()}}
    sides = {}
    for name in ("x", "z")[:axes]:
        low, high = subscription["range"].get(name, (None, None))
        sides[name] = [
            None if low is None else chance.choice([None, low - 1]),
            None if low is None else low + chance.choice([0, 1]),
            None if high is None else high - chance.choice([0, 1]),
            None if high is None else chance.choice([None, high + 1]),
        ]
    return {**made, **by_name(sides)}


def by_name(sides: Data) -> Data:
    """The sides as a board with so many range attributes has them."""
    if len(sides) > 1:
        return {"box": sides}
    return dict(zip(("l_outer", "l_inner", "r_inner", "r_outer"), sides["x"], strict=True))


def around(chance: random.Random, value: Any) -> Any:
    """Bounds of one number, or of each of some."""
    if isinstance(value, list):
        return [around(chance, one) for one in value]
    return [value - chance.choice([0, 1]), value + chance.choice([0, 1])]


def missing(chance: random.Random, subscription: Data, thing: Data, axes: int) -> Data:
    """A tile that is for others: by its k, its filter, its shape or its sides."""
    made = tile(chance, subscription, thing, axes)
    ways = ["k", "where"] + ["sides"] * ("range" in subscription) + ["shape"] * (axes > 1)
    match chance.choice(ways):
        case "k":
            return {**made, "k": made["k"] + 1}
        case "where":
            return {**made, "where": {"to": {"any": "where" in subscription, "values": ["nowhere"]}}}
        case "shape":
            kept = {name: made[name] for name in ("k", "object")}
            return {**kept, "simplex": {"points": [[[-9, 9], [-9, 9]]] * 3}}
    sides = {}
    for name in ("x", "z")[:axes]:
        low, high = subscription["range"].get(name, (None, None))
        # Outer sides are open: one on the end itself does not take it in, and a finite one no unbounded range.
        sides[name] = [low, low, high, None] if low is not None else [-9, None, high, None]
    return {**{name: made[name] for name in ("k", "object")}, **by_name(sides)}


def streams() -> list[Data]:
    """The cases of `lists.json`."""
    both, wide = {"x": [-3, 3], "z": [None, 2]}, {"x": [-4, 4]}
    return [
        changes_case("changes, the largest first", {"range": {"x": [-2, 3]}, "k": 3}, "desc", SEED),
        changes_case("changes, unbounded, the smallest first", {"range": {}, "k": 5}, "asc", SEED + 1),
        changes_case("changes behind an offset", {"range": {"x": [None, 2]}, "k": 3, "offset": 2}, "desc", SEED + 2),
        changes_case("changes of a feed", {"range": {"x": [-3, 3]}, "k": 4}, "desc", SEED + 3, "feeds"),
        tiles_case("tiles, both ends", {"range": {"x": [-2, 3]}, "k": 3}, "desc", SEED + 4),
        tiles_case("tiles, unbounded", {"range": {"x": [None, None]}, "k": 4}, "asc", SEED + 5),
        tiles_case("tiles behind an offset", {"range": {"x": [None, 2]}, "k": 2, "offset": 2}, "desc", SEED + 6),
        tiles_case("tiles of two attributes", {"range": both, "k": 3}, "asc", SEED + 7, 2),
        tiles_case("tiles of a disc", {"disc": {"center": [0, 1], "radius": 3}, "k": 3}, "desc", SEED + 8, 2),
        tiles_case("tiles of a half-plane", {"half_plane": {"a": [1, 2], "b": 3}, "k": 3}, "asc", SEED + 9, 2),
        tiles_case("tiles of a filter", {"range": wide, "where": {"to": "IAH"}, "k": 2}, "asc", SEED + 10),
        tiles_case("tiles of a filter by a number", {"range": wide, "where": {"to": 1}, "k": 2}, "asc", SEED + 11),
        tiles_case("tiles of a filter by true", {"range": wide, "where": {"to": True}, "k": 2}, "asc", SEED + 12),
    ]  # fmt: skip


# Zones


def polygon_places(geometry: Data, bounds: list[float]) -> list[list[Any]]:
    """Places of a grid, on borders too, and whether each is inside by the margin: with exact fractions."""
    polygons = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
    x0, y0, x1, y1 = bounds
    found = []
    for i in range(33):
        for j in range(33):
            x, y = x0 + (x1 - x0) * i / 32, y0 + (y1 - y0) * j / 32
            found.append([x, y, any(strictly_inside(rings, Fraction(x), Fraction(y)) for rings in polygons)])
    return found


def strictly_inside(rings: list[Any], x: Fraction, y: Fraction) -> bool:
    """Whether a place is inside an odd number of rings and on none of their edges."""
    odd = False
    for ring in rings:
        for a, b in pairwise(ring):
            ax, ay, bx, by = (Fraction(end) for end in (*a, *b))
            side = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
            within = min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by)
            if side == 0 and within:
                return False
            if (ay > y) != (by > y) and (x - ax) * (by - ay) * (1 if by > ay else -1) < (bx - ax) * (y - ay) * (
                1 if by > ay else -1
            ):
                odd = not odd
    return odd


def circle_places(metric: str) -> list[Data]:
    """Circles through places that are clearly nearer, clearly farther, or on the border, which does not count."""
    chance = random.Random(SEED)
    cases = []
    for _ in range(40):
        ax, ay, bx, by = (chance.randrange(-60, 60) for _ in range(4))
        far = distance(metric, ax, ay, bx, by)
        for radius, inside in (
            (far * 1.001 + 1e-3, True),
            (far, False),
            (far * 0.999, False),
            (None, True),
            (0, False),
        ):
            cases.append({"zone": {"center": [ax, ay], "radius": radius}, "places": [[bx, by, inside]]})
    return cases


def distance(metric: str, ax: float, ay: float, bx: float, by: float) -> float:
    """How far two places are apart; on the globe by the angle between their vectors."""
    if metric == "manhattan":
        return abs(ax - bx) + abs(ay - by)
    if metric == "euclidean":
        return math.hypot(ax - bx, ay - by)
    vectors = []
    for lon, lat in ((ax, ay), (bx, by)):
        l, b = math.radians(lon), math.radians(lat)
        vectors.append((math.cos(b) * math.cos(l), math.cos(b) * math.sin(l), math.sin(b)))
    (a, b, c), (d, e, f) = vectors
    cross = math.hypot(b * f - c * e, c * d - a * f, a * e - b * d)
    return 6_371_008.8 * math.atan2(cross, a * d + b * e + c * f)


def zones() -> list[Data]:
    """The cases of `zones.json`."""
    bounds = [0, 0, 16, 16]
    diamond = [[8, 0], [16, 8], [8, 16], [0, 8], [8, 0]]
    steps = [[1, 1], [15, 1], [15, 11], [10, 11], [10, 6], [6, 6], [6, 11], [1, 11], [1, 1]]
    hole = [[2, 2], [4, 2], [4, 4], [2, 4], [2, 2]]
    shapes: list[Data] = [
        {"type": "Polygon", "coordinates": [diamond]},
        {"type": "Polygon", "coordinates": [steps, hole]},
        {"type": "MultiPolygon", "coordinates": [[hole], [[[8, 8], [14, 8.5], [11, 15], [8, 8]]]]},
        {"type": "GeometryCollection", "coordinates": []},
    ]
    cases: list[Data] = [
        {"metric": "euclidean", "bounds": bounds, "zone": one, "places": polygon_places(one, [0, 0, 16, 16])}
        for one in shapes[:3]
    ]
    cases.append({"metric": "euclidean", "bounds": bounds, "zone": shapes[3], "places": [[1, 1, False]]})
    cases.append({"metric": "euclidean", "bounds": bounds, "zone": None, "places": [[1, 1, False]]})
    for metric in ("euclidean", "manhattan", "great-circle"):
        cases += [{"metric": metric, "bounds": [-60, -60, 60, 60], **one} for one in circle_places(metric)]
    return cases


# Server-sent events


def sse() -> list[Data]:
    """The cases of `sse.json`: text, and its blocks. Readers cut the text's bytes where they like."""
    found: dict[str, list[tuple[str, str | None, str | None]]] = {
        'id: e:1\nevent: snapshot\ndata: {"a": 1}\n\n': [("snapshot", '{"a": 1}', "e:1")],
        ": a comment\n\n": [],
        "id: e:2\r\n\r\n": [("message", None, "e:2")],
        "event: change\rdata:x\rdata: y\r\r": [("change", "x\ny", None)],
        "event: change\r\ndata:x\r\ndata:  y\r\n\r\ndata: z\n\n": [("change", "x\n y", None), ("message", "z", None)],
        "data: \u2028 \u0085 \x0b \x1c stays\n\n": [("message", "\u2028 \u0085 \x0b \x1c stays", None)],
        "id\ndata\n\n": [("message", "", "")],
        "id: a\x00b\ndata: kept\nretry: 10\nunknown: 1\n\n": [("message", "kept", None)],
        "data: M\u00fcnchen \u6771\u4eac \U0001f98a\n\n": [("message", "M\u00fcnchen \u6771\u4eac \U0001f98a", None)],
        "\n\n\ndata: after empty lines\n\n": [("message", "after empty lines", None)],
        "data: never finished\n": [],
    }
    named = ("event", "data", "id")
    return [
        {"text": text, "blocks": [dict(zip(named, block, strict=True)) for block in blocks]}
        for text, blocks in found.items()
    ]


FILES = {"lists.json": streams, "zones.json": zones, "sse.json": sse}


def text(cases: list[Data]) -> str:
    """The file: one case a line."""
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    return f"[\n{lines}\n]\n"


def main() -> int:
    """Write the files, or with ``--check`` say which would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    check = parser.parse_args().check
    changed = {name: made for name, make in FILES.items() if not _is(FOLDER / name, made := text(make()))}
    for name, made in changed.items():
        if check:
            print(f"tests/vectors/{name} is not what python -m tests.vectors.make writes")
        else:
            (FOLDER / name).write_text(made, encoding="utf-8")
    return int(check and bool(changed))


def _is(path: Path, made: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == made


if __name__ == "__main__":
    sys.exit(main())
