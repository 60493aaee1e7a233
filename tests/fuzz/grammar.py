"""Valid requests of every operation: bodies that fit the configurations made before, in JSON, NDJSON and Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from tests.fuzz.values import number

Body = dict[str, Any]

KINDS = ("boards", "matchers", "relays", "maps", "feeds")
NAMES = ("a", "b")
IDS = tuple(f"i{n}" for n in range(12))
WORDS = ("ramen", "coupon", "tea", "straße", "x", "y", "the")
LINK = "north"
DEAD_LINK = "127.0.0.1:9"
"""Where links lead: nobody answers there."""


class Plan(NamedTuple):
    """A request to come: `body` is a tree, `elements` the name of its list where it may come as NDJSON or Arrow."""

    method: str
    path: str
    body: Any = None
    elements: str | None = None
    query: tuple[tuple[str, str], ...] = ()


class World:
    """What a client believes to be there: a configuration for each name of each kind."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.configs: dict[tuple[str, str], Body] = {}
        for kind in KINDS:
            for name in NAMES:
                self.configs[kind, name] = self.config(kind)

    # --- small things -----------------------------------------------------------------------------------------------

    def some(self, choices: Any, least: int = 0) -> list[Any]:
        """Some of the choices, in order."""
        chosen = [one for one in choices if self.rng.random() < 0.6]
        return chosen if len(chosen) >= least else list(choices)[: max(least, 1)]

    def maybe(self, chance: float = 0.3) -> bool:
        return self.rng.random() < chance

    def id(self) -> str:
        return self.rng.choice(IDS)

    def interval(self) -> list[Any]:
        low, high = sorted((number(self.rng), number(self.rng)))
        return [None if self.maybe(0.1) else low, None if self.maybe(0.1) else high]

    def place(self) -> list[Any]:
        return [number(self.rng), number(self.rng)]

    def payload(self) -> Any:
        tag = self.rng.choice(("red", "blue", 1, None, True))
        return self.rng.choice(({"tag": tag, "n": 1}, {"tag": tag}, None, "text", [1, {"x": []}], 1.5))

    def lifetime(self) -> Body:
        return {"ttl": self.rng.choice((1, 60, 1e6))} if self.maybe(0.1) else {}

    def many(self, make: Callable[[], Body]) -> list[Body]:
        return [make() for _ in range(self.rng.choice((1, 1, 2, 3, 8, 30)))]

    # --- configurations ---------------------------------------------------------------------------------------------

    def config(self, kind: str) -> Body:
        rng = self.rng
        match kind:
            case "boards":
                attributes = rng.choice((["x"], ["x"], ["x"], ["x", "z"], ["x", "z", "u"]))
                extra: Body = {}
                if self.maybe() and len(attributes) == 1:
                    extra["epsilon"] = rng.choice((0.5, 1, 0.25))
                if self.maybe(0.25):
                    extra["indexed"] = ["tag"]
                if self.maybe(0.15):
                    extra["sketch"] = rng.choice((1, 4, 64))
                if self.maybe(0.4):
                    extra["algorithm"] = rng.choice(("sparse", "dense"))
                if self.maybe(0.2):
                    extra["index"] = "kd-tree"
                rank = {"attribute": "y", "order": rng.choice(("asc", "desc"))}
                return {"range_attributes": attributes, "rank": rank, "ks": sorted(self.some((1, 2, 5), 1)), **extra}
            case "matchers":
                mode = rng.choice(("relaxed", "exact"))
                of = ("auto", "sopt-r", "ir", "segment", "interval", "scored-r")
                combine = {"combine": rng.choice(("sum", "max", "product"))} if mode == "relaxed" else {}
                return {"dimensions": self.some(("age", "credit"), 1), "mode": mode, "index": rng.choice(of), **combine}
            case "relays":
                graph = rng.choice(({"kind": "G", "k": rng.choice((1, 3))}, {"kind": "G*"}, {"kind": "poset"}))
                link = {"url": f"http://{DEAD_LINK}", "relay": "a", "link": "south", "key": "rk_example"}
                links = {"links": {LINK: link}} if self.maybe(0.6) else {}
                return {
                    "attributes": self.some(("price", "volume"), 1),
                    "graph": graph,
                    "index": rng.choice(("kd", "zorder", "linear")),
                    **links,
                }
            case "maps":
                orders: tuple[Any, ...] = (
                    "low",
                    "high",
                    {"order": "high", "range": [0, 8]},
                    {"order": "low", "range": [-10, 10]},
                )
                attributes = self.some(("price", "rating"), 1)
                metric = rng.choice(("euclidean", "euclidean", "manhattan", "great-circle"))
                return {
                    "attributes": {a: rng.choice(orders) for a in attributes},
                    "bounds": [0, 0, 10, 10],
                    "metric": metric,
                }
        return {
            "window": rng.choice((3, 20, 1000, {"seconds": 3600})),
            "bounds": [-10, -10, 10, 10],
            "weighting": rng.choice(("tfidf", "given")),
            "buffer": rng.choice(("cost", "kscore", "fixed", "kmax")),
        }

    # --- elements ---------------------------------------------------------------------------------------------------

    def values(self, kind: str, name: str) -> Body:
        config = self.configs[kind, name]
        names: list[str]
        match kind:
            case "boards":
                names = [*config["range_attributes"], "y"]
            case "matchers":
                names = config["dimensions"]
            case "relays":
                names = config["attributes"]
            case _:
                names = list(config["attributes"])
        return {one: number(self.rng) for one in names}

    def event(self, name: str) -> Body:
        op = self.rng.choice(("upsert", "upsert", "upsert", "update", "delete"))
        if op == "delete":
            return {"op": op, "id": self.id()}
        values = self.values("boards", name)
        if op == "update":
            values = {one: values[one] for one in self.some(values)}
        return {"op": op, "id": self.id(), "values": values, **({"payload": self.payload()} if self.maybe() else {})}

    def region(self, name: str) -> Body:
        attributes = self.configs["boards", name]["range_attributes"]
        if len(attributes) == 2 and self.maybe(0.6):
            center = self.place()
            return self.rng.choice(
                (
                    {"disc": {"center": center, "radius": abs(number(self.rng))}},
                    {"half_plane": {"a": self.place(), "b": number(self.rng)}},
                    {"simplex": {"points": [self.place(), self.place(), self.place()]}},
                )
            )
        return {"range": {one: self.interval() for one in self.some(attributes)}}

    def subscription(self, kind: str, name: str) -> Body:
        rng, config = self.rng, self.configs[kind, name]
        match kind:
            case "boards":
                extra: Body = {}
                if "indexed" in config and self.maybe():
                    extra["where"] = {"tag": rng.choice(("red", "blue", True))}
                if self.maybe(0.15):
                    extra["offset"] = rng.choice((0, 1, 3))
                return {**self.region(name), "k": rng.choice(config["ks"]), **extra, **self.lifetime()}
            case "matchers":
                chosen = self.some(config["dimensions"], 1)
                ends = {one: self.interval() for one in chosen}
                if config["mode"] == "exact":
                    return {"intervals": ends, "score": number(rng), **self.lifetime()}
                return {"intervals": ends, "weights": {one: abs(number(rng)) for one in chosen}, **self.lifetime()}
            case "relays":
                link = {"link": rng.choice((None, LINK))} if self.maybe(0.2) else {}
                return {
                    "box": {one: self.interval() for one in self.some(config["attributes"])},
                    **link,
                    **self.lifetime(),
                }
            case "maps":
                return {**self.query(name), "location": self.place(), **self.lifetime()}
        words = {"keywords": self.keywords()} if self.maybe(0.8) else {"text": " ".join(rng.choices(WORDS, k=3))}
        rest = {"k": rng.choice((1, 2, 10)), "alpha": rng.choice((0, 0.4, 1))} if self.maybe(0.8) else {}
        return {**words, "location": self.place(), **rest, **self.lifetime()}

    def score(self, name: str) -> Body:
        rng, attributes = self.rng, list(self.configs["maps", name]["attributes"])
        kind = rng.choice(("weighted_sum", "weighted_product", "weighted_distance", "waspas", "expression"))
        if kind == "expression":
            a = rng.choice(attributes)
            of = (
                "distance",
                f"distance * 2 + {a}",
                f"distance + {a} ** 0.5",
                f"max(distance, {a})",
                f"log(1 + distance) + {a}",
                f"distance * 1e300 + {a}",
                f"distance / 5e-324 - {a}",
            )
            return {"kind": kind, "expression": rng.choice(of)}
        weights = {
            one: abs(number(rng))
            for one in self.some([*attributes, *(["distance"] * (kind != "weighted_distance"))], 1)
        }
        extra = {"scale": rng.choice((1, 10, 1e300, 5e-324))} if self.maybe(0.2) else {}
        if self.maybe(0.2):
            extra["shift"] = rng.choice((0, 0.01, 1))
        return {"kind": kind, "weights": weights, **extra}

    def top(self, name: str) -> Body:
        m = {"m": self.rng.choice((1, 2, 5))} if self.maybe() else {}
        ordered = {"ordered": self.maybe(0.5)} if self.maybe() else {}
        return {"k": self.rng.choice((1, 2, 5)), "score": self.score(name), **m, **ordered}

    def query(self, name: str) -> Body:
        return {"kind": "skyline"} if self.maybe() else {"kind": "top", **self.top(name)}

    def keywords(self) -> Any:
        words = self.rng.choices(WORDS, k=self.rng.choice((1, 2, 4)))
        return {word: abs(number(self.rng)) or 1 for word in words} if self.maybe() else words

    def thing(self, name: str) -> Body:
        payload = {"payload": self.payload()} if self.maybe() else {}
        return {"location": self.place(), "values": self.values("maps", name), **payload}

    def post(self) -> Body:
        words = {"keywords": self.keywords()} if self.maybe(0.8) else {"text": " ".join(self.rng.choices(WORDS, k=4))}
        return {**words, "location": self.place(), **({"payload": self.payload()} if self.maybe() else {})}

    def message(self, n: int, name: str) -> Body:
        attributes = self.configs["relays", name]["attributes"]
        key = f"s{self.rng.randrange(2)}:a:{self.id()}"
        match self.rng.choice(("subscribe", "subscribe", "unsubscribe", "notify", "reset")):
            case "subscribe":
                return {
                    "n": n,
                    "op": "subscribe",
                    "id": key,
                    "box": {one: self.interval() for one in self.some(attributes)},
                }
            case "unsubscribe":
                return {"n": n, "op": "unsubscribe", "id": key}
            case "notify":
                mark = {"mark": ["e1", self.rng.randrange(9)]} if self.maybe() else {}
                return {
                    "n": n,
                    "op": "notify",
                    "values": self.values("relays", name),
                    "payload": self.payload(),
                    **mark,
                }
        return {"n": n, "op": "reset", "follow": self.rng.randrange(4)}

    # --- requests ---------------------------------------------------------------------------------------------------

    def setup(self) -> list[Plan]:
        """Everything made and filled a little."""
        plans = []
        for kind, name in self.configs:
            plans.append(Plan("PUT", f"/v1/{kind}/{name}", self.configs[kind, name]))
            plans += [self.fill(kind, name), self.subscribe(kind, name)]
        return plans

    def fill(self, kind: str, name: str) -> Plan:
        """The request by which most comes to a resource."""
        rng, root = self.rng, f"/v1/{kind}/{name}"
        match kind:
            case "boards":
                options: Body = {
                    "mode": rng.choice(("each", "batch")),
                    "messages": rng.choice(("full", "count", "none")),
                }
                return Plan(
                    "POST",
                    f"{root}/events",
                    {"events": self.many(lambda: self.event(name)), **self.options(options)},
                    "events",
                )
            case "matchers":
                options = {"k": rng.choice((1, 20)), "explain": self.maybe(), "notify": self.maybe()}
                events = self.many(
                    lambda: {"values": self.match_values(name), **({"payload": 1} if self.maybe(0.2) else {})}
                )
                return Plan("POST", f"{root}/match", {"events": events, **self.options(options)}, "events")
            case "relays":
                some = self.many(lambda: {"values": self.values(kind, name), "payload": self.payload()})
                return Plan(
                    "POST", f"{root}/notifications", {"notifications": some, **self.options({})}, "notifications"
                )
            case "maps":
                some = self.many(lambda: {"id": self.id(), **self.thing(name)})
                return Plan("POST", f"{root}/objects", {"objects": some, **self.options({})}, "objects")
        some = self.many(lambda: {**({"id": self.id()} if self.maybe(0.7) else {}), **self.post()})
        return Plan("POST", f"{root}/posts", {"posts": some, **self.options({})}, "posts")

    def match_values(self, name: str) -> Body:
        values = self.values("matchers", name)
        return {one: self.interval() if self.maybe(0.2) else values[one] for one in self.some(values)}

    def options(self, some: Body) -> Body:
        """Some of the options of a request, and whether bad elements are skipped."""
        chosen = {name: value for name, value in some.items() if self.maybe(0.5)}
        return {**chosen, "on_error": "skip"} if self.maybe(0.3) else chosen

    def subscribe(self, kind: str, name: str) -> Plan:
        what = "queries" if kind == "maps" else "subscriptions"
        some = self.many(lambda: {**({"id": self.id()} if self.maybe(0.9) else {}), **self.subscription(kind, name)})
        lists = {"lists": self.maybe(0.5)} if kind in ("boards", "maps", "feeds") else {}
        return Plan("POST", f"/v1/{kind}/{name}/{what}", {what: some, **self.options(lists)}, what)

    def request(self) -> Plan:
        """Any request."""
        rng = self.rng
        if self.maybe(0.07):
            return self.other()
        kind, name = rng.choice(KINDS), rng.choice(NAMES)
        root, what = f"/v1/{kind}/{name}", "queries" if kind == "maps" else "subscriptions"
        one = f"{root}/{what}/{self.id()}"
        match rng.randrange(16):
            case 0 | 1 | 2:
                return self.fill(kind, name)
            case 3 | 4:
                return self.subscribe(kind, name)
            case 5:
                return Plan("PUT", one, self.subscription(kind, name))
            case 6:
                subscription = self.subscription(kind, name)
                return Plan("PATCH", one, {field: subscription[field] for field in self.some(subscription, 1)})
            case 7:
                return Plan(rng.choice(("GET", "DELETE")), one)
            case 8:
                return Plan("POST", f"{root}/{what}/delete", {"ids": self.some(IDS, 1)[:3]})
            case 9:
                page = (("limit", str(rng.choice((1, 3, 1000)))), ("cursor", "MURMOTU"))
                return Plan("GET", f"{root}/{rng.choice((what, 'objects', 'posts'))}", query=tuple(self.some(page)))
            case 10:
                after = (
                    ("after", "x:1"),
                    ("form", rng.choice(("changes", "tiles"))),
                    ("ready", "true"),
                    ("squash", "0.1"),
                )
                return Plan("GET", f"{one}/stream", query=tuple(self.some(after)))
            case 11 if self.maybe():
                if self.maybe(0.7):
                    return Plan("PUT", root, self.configs[kind, name])
                if self.maybe(0.5):
                    return Plan("DELETE", root)
                self.configs[kind, name] = self.config(kind)
                return Plan("PUT", root, self.configs[kind, name])
        return self.own(kind, name, root)

    def own(self, kind: str, name: str, root: str) -> Plan:
        """A request that only this kind has."""
        rng = self.rng
        match kind, rng.randrange(4):
            case "boards", 0:
                ends = (
                    ("l", "0"),
                    ("r", str(number(rng))),
                    ("k", str(rng.choice((1, 5, 100)))),
                    ("offset", "1"),
                    ("l.x", "1"),
                    ("where.tag", "red"),
                )
                return Plan("GET", f"{root}/top", query=tuple(self.some(ends)))
            case "boards", 1:
                if self.maybe():
                    return Plan("GET", f"{root}/subscriptions/{self.id()}/explain")
                return Plan("POST", f"{root}/explain", {"event": self.event(name)})
            case "boards", 2:
                patch: Body = {
                    "ks": sorted(self.some((1, 2, 5), 1)),
                    "algorithm": "dense",
                    "epsilon": None,
                    "sketch": None,
                }
                return Plan("PATCH", root, {field: patch[field] for field in self.some(patch, 1)})
            case "boards", _:
                body = {"values": self.values(kind, name), "payload": self.payload()}
                query = (("messages", "none"),) if self.maybe() else ()
                method = rng.choice(("PUT", "PUT", "PATCH", "DELETE", "GET"))
                return Plan(method, f"{root}/objects/{self.id()}", body if method[0] == "P" else None, query=query)
            case "relays", 0 | 1:
                n, count = rng.randrange(6), rng.choice((1, 2, 5))
                messages = [self.message(n + i, name) for i in range(count)]
                if self.maybe(0.5):
                    messages.insert(0, {"n": max(n - 1, 0), "op": "reset", "follow": 0})
                who = {"identity": "s1:a", "behind": self.some(("s2:b",))} if self.maybe() else {}
                body = {"epoch": rng.choice(("e1", "e2")), "messages": messages, **who}
                return Plan("POST", f"{root}/links/{LINK}/messages", body)
            case "relays", 2:
                if self.maybe():
                    return Plan("POST", f"{root}/links/{LINK}/probe", {"identity": "s1:a", "behind": ["s2:b"]})
                link = {"url": f"http://{DEAD_LINK}", "relay": "a", "link": "south", "key": "k"}
                return Plan("PATCH", root, {"links": {LINK: rng.choice((link, None))}})
            case "relays", _:
                lines = [
                    {"op": "subscribe", "id": self.id(), "box": self.subscription(kind, name)["box"]}
                    if self.maybe(0.6)
                    else {"op": "unsubscribe", "id": self.id()}
                    for _ in range(rng.choice((1, 3, 10)))
                ]
                return Plan("POST", f"{root}/commands", {"lines": lines, **self.options({})}, "lines")
            case "maps", 0:
                place = {"locations": [self.place(), self.place()]} if self.maybe() else {"location": self.place()}
                return Plan("POST", f"{root}/top", {**self.top(name), **place})
            case "maps", 1:
                return Plan("POST", f"{root}/skyline", {"location": self.place()})
            case "maps", 2:
                moves = self.many(lambda: {"id": self.id(), "location": self.place()})
                return Plan("POST", f"{root}/queries/moves", {"moves": moves, **self.options({})}, "moves")
            case "maps", _:
                method = rng.choice(("PUT", "PUT", "PATCH", "DELETE", "GET", "POST"))
                if method == "POST":
                    return Plan(method, f"{root}/objects/delete", {"ids": self.some(IDS, 1)[:3]})
                return Plan(method, f"{root}/objects/{self.id()}", self.thing(name) if method[0] == "P" else None)
            case "feeds", 0:
                return Plan(rng.choice(("GET", "DELETE")), f"{root}/posts/{self.id()}")
        return self.fill(kind, name)

    def other(self) -> Plan:
        """A request of no resource, or of all of a kind."""
        rng = self.rng
        names = [f"{kind}/{name}" for kind, name in self.configs]
        job = f"/v1/admin/jobs/j{rng.randrange(1, 4)}"
        scopes = ("boards:read", "maps/a:write", "feeds:publish", "relays/a:link.north", "matchers/b:subscribe")
        return rng.choice(
            (
                Plan(
                    "GET",
                    rng.choice(("/healthz", "/readyz", "/metrics", "/openapi.json", "/", "/docs", "/problems/invalid")),
                ),
                Plan("GET", f"/v1/{rng.choice((*KINDS, 'admin/jobs', 'admin/keys'))}", query=(("limit", "2"),)),
                Plan("POST", "/v1/admin/verify", {"resources": self.some(names, 1)[:2]}),
                Plan("POST", "/v1/admin/snapshots", {}),
                Plan("POST", "/v1/admin/rebuilds", {"resources": self.some(names, 1)[:2], "engine": "local"}),
                Plan(rng.choice(("GET", "DELETE")), job),
                Plan("GET", f"{job}/stream"),
                Plan("POST", "/v1/admin/keys", {"name": "some", "scopes": self.some(scopes, 1)}),
                Plan("DELETE", "/v1/admin/keys/k0a1b2c3d4e5f"),
                Plan(
                    "PUT",
                    f"/v1/webhooks/{rng.choice(('a', 'b'))}",
                    {
                        "url": f"http://{DEAD_LINK}/in?a=b",
                        "resource": rng.choice(names),
                        "ids": self.some(IDS, 1)[:3],
                        "batch": rng.choice((1, 10)),
                    },
                ),
                Plan(rng.choice(("GET", "DELETE")), f"/v1/webhooks/{rng.choice(('a', 'b'))}"),
                Plan("POST", f"/v1/webhooks/{rng.choice(('a', 'b'))}/{rng.choice(('test', 'enable'))}"),
                Plan("GET", "/v1/webhooks", query=(("limit", "2"),)),
                Plan("POST", "/v1/tickets", {"resource": rng.choice(names), "ids": [self.id()], "seconds": 60}),
            )
        )


def arrow_of(elements: list[Body]) -> pa.Table:
    """Elements as the columns that the service documents. Raises ArrowException or ValueError for what has none."""
    rows = [_row(element) for element in elements]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _row(element: Body) -> Body:
    row: Body = {}
    for field, value in element.items():
        match field, value:
            case (("range" | "intervals" | "box"), dict()):
                for name, ends in value.items():
                    row[f"{name}_min"], row[f"{name}_max"] = ends
            case "weights", dict():
                row.update({f"{name}_weight": weight for name, weight in value.items()})
            case "values", dict():
                for name, number in value.items():
                    if isinstance(number, list):
                        row[f"{name}_min"], row[f"{name}_max"] = number
                    else:
                        row[name] = number
            case "location", [x, y]:
                row["x"], row["y"] = x, y
            case "keywords", dict():
                row["keywords"], row["weights"] = list(value), [float(weight) for weight in value.values()]
            case (("payload" | "score"), (dict() | list() | str())):
                row[field] = json.dumps(value)
            case "payload", _:
                row[field] = json.dumps(value)
            case _:
                row[field] = value
    return row


def _column(name: str, values: list[Any]) -> pa.Array:
    if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values) and name not in (
        "k",
        "m",
        "offset",
    ):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array(values)
