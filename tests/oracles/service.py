"""A board as it looks over HTTP, by brute force: what each request does to it, and what readers must then see.

Plain dicts and sorting, written from the wire's own words. It shares nothing with the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isinf
from typing import Any

Json = dict[str, Any]


def number(value: float) -> float:
    """A number as it is shown: whole ones up to 2^53 as integers, -0 as 0."""
    return int(value) if value == int(value) and abs(value) <= 2**53 else float(value)


def covers(got: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there; more fields may be. Numbers are of one type: 1 is not 1.0 and not true."""
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(k in got and covers(got[k], wanted[k]) for k in wanted)
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(covers, got, wanted))
    return type(got) is type(wanted) and bool(got == wanted)


def plain(entry: Json) -> Json:
    """An object or list entry whose payload, if it has none, is null."""
    return {**entry, "payload": entry.get("payload")}


@dataclass
class Thing:
    """An object."""

    id: str
    values: dict[str, float]
    created: int
    payload: Any = None

    def shown(self) -> Json:
        values = {name: number(value) for name, value in self.values.items()}
        return {"id": self.id, "values": values, "created": self.created, "payload": self.payload}


@dataclass
class Question:
    """A subscription to the ranks offset + 1 to offset + k; unbounded ends are infinite."""

    l: float
    r: float
    k: int
    ttl: float | None = None
    offset: int = 0

    @property
    def length(self) -> int:
        """How much of the ranking has to be known; one of the board's `ks`."""
        return self.offset + self.k

    @property
    def length_field(self) -> str:
        """The field that a refusal of this length names."""
        return "offset" if self.offset else "k"


@dataclass
class Done:
    """What a request did: the fields that were refused, and the indexes of the elements that were applied."""

    fields: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    applied: list[int] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        return bool(self.fields or self.taken)

    @property
    def status(self) -> int:
        """422 before 409 where both hold."""
        return 422 if self.fields else 409


class BoardModel:
    """One board with one range attribute.

    `history[id][seq]` is the list of a tracked subscription after that seq, from the first rank on, whatever its
    offset.
    """

    def __init__(self, x: str, y: str, order: str = "asc", ks: Sequence[int] = (3,), seq: int = 0) -> None:
        self.x, self.y, self.order, self.ks, self.seq = x, y, order, list(ks), seq
        self.algorithm = "sparse"
        self.objects: dict[str, Thing] = {}
        self.questions: dict[str, Question] = {}
        self.history: dict[str, dict[int, list[Json]]] = {}
        self._tracked: dict[str, Question | None] = {}
        self._asked: dict[str, dict[int, Question]] = {}
        self._born = 0

    # --- the truth --------------------------------------------------------------------------------------------------

    @property
    def sign(self) -> int:
        return -1 if self.order == "desc" else 1

    def best(self, l: float, r: float, k: int) -> list[Json]:
        """The k best objects with l <= x <= r, as list entries."""
        inside = [thing for thing in self.objects.values() if l <= thing.values[self.x] <= r]
        inside.sort(key=lambda thing: (self.sign * thing.values[self.y], thing.created))
        return [{"rank": rank, **thing.shown()} for rank, thing in enumerate(inside[:k], 1)]

    def whole_list_of(self, key: str) -> list[Json]:
        """The list of a subscription from the first rank on; of one that is not there it is empty."""
        question = self.questions.get(key)
        return [] if question is None else self.best(question.l, question.r, question.length)

    def list_of(self, key: str) -> list[Json]:
        """The list of a subscription as it is shown."""
        question = self.questions.get(key)
        return [] if question is None else self.whole_list_of(key)[question.offset :]

    def shown_question(self, key: str) -> Json:
        """A subscription without its list."""
        question = self.questions[key]
        ends = [None if isinf(end) else number(end) for end in (question.l, question.r)]
        shown: Json = {"id": key, "range": {self.x: ends}, "k": question.k}
        if question.offset:
            shown["offset"] = question.offset
        return shown if question.ttl is None else {**shown, "ttl": number(question.ttl)}

    def shown_config(self) -> Json:
        rank = {"attribute": self.y, "order": self.order}
        return {"range_attributes": [self.x], "rank": rank, "ks": self.ks, "algorithm": self.algorithm, "epsilon": None}

    def track(self, key: str, question: Question | None = None) -> None:
        """Remember the list of a subscription, or of a question that the service does not know, after every seq."""
        self._tracked[key] = question
        self.history[key] = {self.seq: self._tracked_list(key)}

    def untrack(self, key: str) -> None:
        """Remember it no more."""
        del self._tracked[key], self.history[key]

    def _tracked_list(self, key: str) -> list[Json]:
        question = self._tracked[key]
        return self.whole_list_of(key) if question is None else self.best(question.l, question.r, question.length)

    def question_at(self, key: str, seq: int) -> Question:
        """What a subscription asked right after a seq."""
        asked = self._asked[key]
        return asked[max(at for at in asked if at <= seq)]

    def tick(self) -> None:
        """A single change happened."""
        self.seq += 1
        for key, lists in self.history.items():
            lists[self.seq] = self._tracked_list(key)

    # --- requests ---------------------------------------------------------------------------------------------------

    def _whole_or_not(self, done: Done, skip: bool, before: tuple[Any, ...]) -> Done:
        if done.refused and not skip:
            self.objects, self.questions, self.seq, self._born = before
            self.history = {key: {s: v for s, v in h.items() if s <= self.seq} for key, h in self.history.items()}
            done.applied = []
        return done

    def _state(self) -> tuple[Any, ...]:
        objects = {key: replace(thing, values=dict(thing.values)) for key, thing in self.objects.items()}
        return objects, dict(self.questions), self.seq, self._born

    def events(self, events: Iterable[Json], skip: bool = False) -> Done:
        """Apply events in order; without `skip` one that does not apply refuses all."""
        before = self._state()
        done = Done()
        for at, event in enumerate(events):
            bad = self.event(event)
            if bad:
                done.fields += [f"events[{at}].{name}" for name in bad]
            else:
                done.applied.append(at)
        return self._whole_or_not(done, skip, before)

    def event(self, event: Json) -> list[str]:
        thing = self.objects.get(event["id"])
        values = event.get("values", {})
        if thing is None and event["op"] != "upsert":
            return ["id"]
        if thing is None:
            lacking = [f"values.{name}" for name in (self.x, self.y) if name not in values]
            if lacking:
                return lacking
            self.objects[event["id"]] = Thing(event["id"], dict(values), self._born, event.get("payload"))
            self._born += 1
        elif event["op"] == "delete":
            del self.objects[event["id"]]
        else:
            thing.values = {**thing.values, **values}
            if "payload" in event:
                thing.payload = event["payload"]
        self.tick()
        return []

    def subscribe(self, asked: Iterable[tuple[str, Question]], skip: bool = False) -> Done:
        """New subscriptions under ids that must be free."""
        before = self._state()
        done = Done()
        seen: set[str] = set()
        for at, (key, question) in enumerate(asked):
            bad = []
            if question.length not in self.ks:
                bad.append(f"subscriptions[{at}].{question.length_field}")
            if question.l > question.r:
                bad.append(f"subscriptions[{at}].range")
            done.fields += bad
            if key in self.questions or key in seen:
                done.taken.append(f"subscriptions[{at}].id")
            elif not bad:
                self._ask(key, question)
                done.applied.append(at)
            seen.add(key)
        return self._whole_or_not(done, skip, before)

    def set_question(self, key: str, question: Question) -> bool:
        """Make a subscription or change it to this; says whether it is new. What changes nothing takes no seq."""
        new = key not in self.questions
        if self.questions.get(key) != question:
            self._ask(key, question)
        return new

    def _ask(self, key: str, question: Question) -> None:
        self.questions[key] = question
        self.tick()
        self._asked.setdefault(key, {})[self.seq] = question

    def unsubscribe(self, keys: Iterable[str]) -> int:
        """Delete subscriptions, passing over unknown ids; says how many."""
        known = [key for key in dict.fromkeys(keys) if key in self.questions]
        for key in known:
            del self.questions[key]
            self.tick()
        return len(known)

    def configure(self, ks: Sequence[int] | None = None, algorithm: str | None = None) -> bool:
        """Change what PATCH may change; False, and nothing changed, when a k in use would go."""
        new = (self.ks if ks is None else sorted(ks), algorithm or self.algorithm)
        if any(question.length not in new[0] for question in self.questions.values()):
            return False
        if new != (self.ks, self.algorithm):
            self.ks, self.algorithm = new
            self.tick()
        return True


# --- readers ----------------------------------------------------------------------------------------------------------


def ranked(entries: Iterable[Json]) -> list[Json]:
    """List entries in this order, ranks counted from 1."""
    return [{**plain(entry), "rank": rank} for rank, entry in enumerate(entries, 1)]


def apply_changes(entries: list[Json], changes: list[Json]) -> list[Json]:
    """The wire's rule: take out every listed object, then put in those with a new rank, in ascending order."""
    listed = {change["id"] for change in changes}
    kept = [entry for entry in entries if entry["id"] not in listed]
    for change in sorted((c for c in changes if c["new_rank"] is not None), key=lambda c: c["new_rank"]):
        entry = {name: value for name, value in change.items() if name not in ("old_rank", "new_rank")}
        kept.insert(change["new_rank"] - 1, entry)
    return ranked(kept)


def net_changes(before: list[Json], after: list[Json]) -> dict[str, tuple[int | None, int | None]]:
    """What entered, left or got new values between two lists: old and new rank by id. What only shifts is not named."""
    old = {entry["id"]: entry for entry in before}
    new = {entry["id"]: entry for entry in after}
    out = {}
    for key in old.keys() | new.keys():
        was, now = old.get(key), new.get(key)
        if was is None or now is None or {**was, "rank": 0} != {**now, "rank": 0}:
            out[key] = (was["rank"] if was else None, now["rank"] if now else None)
    return out


@dataclass
class TileReader:
    """A subscriber that lives on tiles alone (paper, II-A)."""

    model: BoardModel
    question: Question
    entries: list[Json]

    def reached_by(self, tile: Json) -> bool:
        """Outer sides open, inner sides closed; what null means depends on the side."""
        l_outer = -inf if tile["l_outer"] is None else tile["l_outer"]
        l_inner = -inf if tile["l_inner"] is None else tile["l_inner"]
        r_inner = inf if tile["r_inner"] is None else tile["r_inner"]
        r_outer = inf if tile["r_outer"] is None else tile["r_outer"]
        l, r = self.question.l, self.question.r
        above = l_outer < l or tile["l_outer"] is None
        below = r < r_outer or tile["r_outer"] is None
        return bool(tile["k"] == self.question.length and above and l <= l_inner and r_inner <= r and below)

    def take(self, tiles: Iterable[Json]) -> list[Json]:
        """Apply those tiles that reach this subscriber, in order; returns them."""
        mine = [tile for tile in tiles if self.reached_by(tile)]
        for tile in mine:
            thing = tile["object"]
            kept = [entry for entry in self.entries if entry["id"] != thing["id"]]
            if not thing["gone"]:
                kept.append({name: value for name, value in thing.items() if name != "gone"})
            kept.sort(key=lambda entry: (self.model.sign * entry["values"][self.model.y], entry["created"]))
            self.entries = ranked(kept[: self.question.length])
        return mine
