"""Random histories of a board over HTTP: each answer, and all that can be seen after it, against the model."""

from __future__ import annotations

from math import inf, isinf
from random import Random
from typing import Any

import httpx

from tests.oracles.service import BoardModel, Done, Json, Question, TileReader, covers, net_changes, plain
from tests.support.values import between
from tests.system.http.talk import ARROW, NDJSON, Talk, arrow, event_table, fresh, ndjson, problem, subscription_table

PLACES = [0, 1, 2, 3, 4, 5, 2.5, -1, 0.1, 1e300, -1e300, 2**53, 2**53 + 2]
RANKS = [0, 1, 2, 3, -7, 0.5, 1e300, -1e300]
PAYLOADS: list[Any] = [None, {"to": "IAH"}, [1, 2.5, 'ä\n"\\'], "text", True, 0, {"deep": [{"er": None}]}]
NOT_REPLAYED = ("tiles", "list", "replayed", "truncated")


def without_ends(field: str) -> str:
    """A field path up to the range: a range as a whole is wrong when its ends are."""
    head, found, _ = field.partition("range")
    return head + found


def ends(question: Question) -> list[float | None]:
    """The ends of a range as they are written."""
    return [None if isinf(end) else end for end in (question.l, question.r)]


class Player:
    """Plays on one board and checks each step.

    `virtual` are subscribers that the service does not know; `whole` leaves out batches and windows, for those who
    follow every seq from the first rank on.
    """

    def __init__(
        self,
        talk: Talk,
        seed: int,
        order: str = "asc",
        algorithm: str = "sparse",
        index: str | None = None,
        whole: bool = False,
    ):
        self.talk, self.random = talk, Random(seed)
        self.name = fresh()
        self.path = f"/v1/boards/{self.name}"
        self.x, self.y = "distance", "delay"
        self.index = index
        self.whole = whole
        self.readers: dict[str, TileReader] = {}
        self.replays: list[tuple[tuple[Any, ...], dict[str, Any], httpx.Response]] = []
        self.model = self.make(order, algorithm, 0)

    # --- the board itself -------------------------------------------------------------------------------------------

    def make(self, order: str, algorithm: str, seq: int) -> BoardModel:
        model = BoardModel(self.x, self.y, order, [1, 3, 7], seq)
        model.algorithm = algorithm
        more = {} if self.index is None else {"index": self.index}
        answer = self.talk.ask("PUT", self.path, {**model.shown_config(), **more})
        assert answer.status_code == 201, answer.text
        assert covers(answer.json(), {"seq": seq, **model.shown_config()}), answer.text
        for n in range(4):
            key, question = f"virtual{n}", Question(*between(self.random.choices([-inf, *PLACES, inf], k=2)), 3)
            model.track(key, question)
            self.readers[key] = TileReader(model, question, [])
        return model

    def recreate(self) -> None:
        answer = self.talk.good("DELETE", self.path)
        assert answer["seq"] == self.model.seq + 1
        problem(self.talk.ask("GET", self.path), 404)
        problem(self.talk.ask("GET", f"{self.path}/top"), 404)
        self.readers.clear()
        self.model = self.make(self.random.choice(["asc", "desc"]), self.model.algorithm, self.model.seq + 2)

    def configure(self) -> None:
        model = self.model
        ks = sorted(self.random.sample([1, 2, 3, 5, 7, 12], self.random.randint(1, 5)))
        algorithm = self.random.choice(["sparse", "dense"])
        if self.random.random() < 0.5:
            body: dict[str, Any] = self.random.choice(
                [{"ks": ks}, {"algorithm": algorithm}, {"ks": ks, "algorithm": algorithm}]
            )
            answer = self.write("PATCH", self.path, body)
        else:
            body = {"ks": ks, "algorithm": algorithm}
            more: dict[str, Any] = {} if self.index is None else {"index": self.index}
            answer = self.write("PUT", self.path, {**model.shown_config(), **body, **more})
        if model.configure(body.get("ks"), body.get("algorithm")):
            assert answer.status_code == 200, answer.text
            assert covers(answer.json(), {"seq": model.seq, **model.shown_config()}), answer.text
        else:
            problem(answer, 409)
        if self.random.random() < 0.3:
            other: Json = {"rank": {"attribute": self.y, "order": "asc" if model.order == "desc" else "desc"}}
            other = self.random.choice([other, {"range_attributes": ["elsewhere"]}])
            problem(self.talk.ask("PUT", self.path, {**model.shown_config(), **other}), 409)

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """A write; now and then under an Idempotency-Key, with all that this promises."""
        if self.random.random() < 0.75:
            return self.talk.ask(method, path, body, **more)
        key = fresh("key")
        more["headers"] = {**more.get("headers", {}), "Idempotency-Key": key}
        answer = self.talk.ask(method, path, body, **more)
        if answer.status_code >= 400:
            return answer
        assert "replayed" not in answer.json() or answer.json()["replayed"] is False
        self.replays.append(((method, path, body), more, answer))
        self.replay(self.replays[-1])
        other = self.random.choice(["query", "body", "path"])
        if other == "query":
            params = {**more.get("params", {}), "else": "1"}
            problem(self.talk.ask(method, path, body, **{**more, "params": params}), 422)
        elif other == "body":
            problem(self.talk.ask("POST", f"{self.path}/events", {"events": []}, headers=more["headers"]), 422)
        else:
            problem(self.talk.ask("DELETE", f"{self.path}/objects/none", headers=more["headers"]), 422, exact=False)
        return answer

    def replay(self, call: tuple[tuple[Any, ...], dict[str, Any], httpx.Response]) -> None:
        args, more, first = call
        again = self.talk.ask(*args, **more)
        assert again.status_code == first.status_code, self.talk.calls[-2:]
        assert again.json()["replayed"] is True
        wanted = {name: value for name, value in first.json().items() if name not in NOT_REPLAYED}
        if isinstance(wanted.get("subscriptions"), list):
            wanted["subscriptions"] = [{k: v for k, v in one.items() if k != "list"} for one in wanted["subscriptions"]]
        found = {name: value for name, value in again.json().items() if name != "replayed"}
        assert found == wanted, (found, wanted)

    # --- objects ----------------------------------------------------------------------------------------------------

    def values(self) -> Json:
        values: Json = {}
        if self.random.random() < 0.7:
            values[self.x] = self.random.choice(PLACES)
        if self.random.random() < 0.9:
            values[self.y] = self.random.choice(RANKS)
        return values

    def event(self) -> Json:
        """An event, most often one that applies."""
        known = list(self.model.objects)
        if known and self.random.random() < 0.6:
            key = self.random.choice(known)
        else:
            key = f"o{self.random.randrange(14)}"
        op = self.random.choice(
            ["upsert"] * 5 + ["update"] * 3 + ["delete"] if key in known else ["upsert"] * 12 + ["update"]
        )
        event: Json = {"op": op, "id": key}
        if op != "delete":
            event["values"] = self.values()
            if op == "upsert" and key not in known and self.random.random() < 0.97:
                event["values"] = {self.x: self.random.choice(PLACES), self.y: self.random.choice(RANKS)}
            if self.random.random() < 0.25:
                event["payload"] = self.random.choice(PAYLOADS)
            elif self.random.random() < 0.2:
                event["values"] = {}
        return event

    def post_events(self) -> None:
        events = [self.event() for _ in range(self.random.choice([1, 1, 2, 3, 8, 20]))]
        skip = self.random.random() < 0.3
        messages = self.random.choice(["full"] * 6 + ["count", "none"])
        options: Json = {"messages": messages, "on_error": "skip"} if skip else {"messages": messages}
        if messages == "full" and self.random.random() < 0.5:
            del options["messages"]
        batch = not self.whole and self.random.random() < 0.25
        if batch:
            options["mode"] = "batch"
        kind = self.random.choice(["json", "ndjson", "arrow"])
        if kind == "json":
            answer = self.write("POST", f"{self.path}/events", {"events": events, **options})
        elif kind == "ndjson":
            headers = {"Content-Type": NDJSON}
            answer = self.write("POST", f"{self.path}/events", ndjson(events), headers=headers, params=options)
        else:
            body = arrow(event_table(events, [self.x, self.y]), self.random.choice([None, 1, 3]))
            answer = self.write("POST", f"{self.path}/events", body, headers={"Content-Type": ARROW}, params=options)
        before = self.model.seq
        done = self.model.events(events, skip)
        told = self.check_events(answer, done, skip)
        if told is None:
            return
        if messages != "full":
            assert "tiles" not in told
            self.resync()
        elif batch:
            self.take_batch(told["tiles"], before)
        else:
            self.take_tiles(told["tiles"], [(at, before + n, events[at]) for n, at in enumerate(done.applied, 1)])

    def check_events(self, answer: httpx.Response, done: Done, skip: bool) -> Json | None:
        """The answer, None if it is the refusal that it should be."""
        if done.refused and not skip:
            problem(answer, done.status, *done.fields)
            return None
        assert answer.status_code == 200, self.talk.calls[-1]
        told: Json = answer.json()
        assert told["seq"] == self.model.seq and told["applied"] == len(done.applied), told
        if skip:
            assert sorted(error["field"] for error in told.get("errors", [])) == sorted(done.fields), told
        assert "tiles" not in told or told["tile_count"] == len(told["tiles"])
        return told

    def resync(self) -> None:
        """Tiles were not told: the readers take their lists anew."""
        for key, reader in self.readers.items():
            reader.entries = self.model.history[key][self.model.seq]

    def take_tiles(self, tiles: list[Json], applied: list[tuple[int, int, Json]]) -> None:
        """Give the readers the tiles, event by event: each list is right after each, and nobody hears too much."""
        model = self.model
        assert [tile["event"] for tile in tiles] == sorted(tile["event"] for tile in tiles)
        assert {tile["event"] for tile in tiles} <= {at for at, _, _ in applied}
        for at, seq, event in applied:
            mine = [tile for tile in tiles if tile["event"] == at]
            heard: set[int] = set()
            for key, reader in self.readers.items():
                if key.startswith("virtual") and (
                    model.algorithm == "sparse" or reader.question.length not in model.ks
                ):
                    reader.entries = model.history[key][seq]
                    continue
                was, now = model.history[key][seq - 1], model.history[key][seq]
                got = reader.take(mine)
                assert covers(reader.entries, now), (key, reader.question, reader.entries, now, mine)
                heard |= {id(tile) for tile in got}
                assert bool(got) == bool(net_changes(was, now)), f"{key} is told of {event} in vain: {got}"
                about = [tile["object"]["id"] for tile in got]
                twice = {name for name in about if about.count(name) > 1}
                assert twice <= {event["id"]} and about.count(event["id"]) <= 2, (event, got)
                if about.count(event["id"]) == 2:
                    first = next(tile for tile in got if tile["object"]["id"] == event["id"])
                    assert self.x in event["values"] and first["object"]["gone"], (event, got)
            if model.algorithm == "sparse":
                assert len(heard) == len(mine), f"a tile of {event} reaches nobody"

    def heard_by_all(self, question: Question) -> bool:
        """Whether the board's tiles are for everyone who might ask so."""
        return self.model.algorithm == "dense" and question.length in self.model.ks

    def take_batch(self, tiles: list[Json], before: int) -> None:
        """Give the readers the tiles of a batch: each list is right, and where it is the same nothing is heard."""
        model = self.model
        assert all(tile["event"] is None for tile in tiles)
        heard: set[int] = set()
        for key, reader in self.readers.items():
            was, now = model.history[key][before], model.history[key][model.seq]
            if key.startswith("virtual") and not self.heard_by_all(reader.question):
                reader.entries = now
                continue
            got = reader.take(tiles)
            assert covers(reader.entries, now), (key, reader.question, reader.entries, now, tiles)
            assert bool(got) == bool(net_changes(was, now)), f"{key} is told in vain: {got}"
            heard |= {id(tile) for tile in got}
        if model.algorithm == "sparse":
            assert len(heard) == len(tiles), "a tile reaches nobody"

    def one_object(self) -> None:
        key = self.random.choice([*self.model.objects, f"o{self.random.randrange(14)}", "new"])
        path = f"{self.path}/objects/{key}"
        known = key in self.model.objects
        method = self.random.choice(["PUT", "PUT", "PATCH", "DELETE"])
        event: Json = {"op": {"PUT": "upsert", "PATCH": "update", "DELETE": "delete"}[method], "id": key}
        body: Json | None = None
        if method != "DELETE":
            body = {"values": self.values()}
            if self.random.random() < 0.3:
                body["payload"] = self.random.choice(PAYLOADS)
            event |= body
        answer = self.write(method, path, body)
        before = self.model.seq
        done = self.model.events([event])
        if done.refused and method == "PUT":
            problem(answer, 422, *(field.removeprefix("events[0].") for field in done.fields))
        elif done.refused:
            problem(answer, 404)
        else:
            assert answer.status_code == (201 if method == "PUT" and not known else 200), self.talk.calls[-1]
            told = answer.json()
            assert told["seq"] == self.model.seq and told["applied"] == 1
            self.take_tiles(told["tiles"], [(0, before + 1, event)])

    def put_back_what_get_shows(self) -> None:
        """PUT takes back what GET shows: an event that changes nothing."""
        if self.model.objects:
            key = self.random.choice(list(self.model.objects))
            path = f"{self.path}/objects/{key}"
            shown = self.talk.good("GET", path)
            told = self.talk.good("PUT", path, shown)
            assert told == {"seq": self.model.seq + 1, "applied": 1, "tile_count": 0, "tiles": []}, told
            self.model.events([{"op": "upsert", "id": key}])
        if self.model.questions:
            path = f"{self.path}/subscriptions/{self.random.choice(list(self.model.questions))}"
            shown = self.talk.good("GET", path)
            assert self.talk.good("PUT", path, shown) == shown
        shown = self.talk.good("GET", self.path)
        assert self.talk.good("PUT", self.path, shown) == shown

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def question(self) -> Question:
        l, r = sorted(self.random.choices([*PLACES, inf, -inf], k=2))
        if self.random.random() < 0.06:
            l, r = r, l
        l, r = (-inf if l == inf else l), (inf if r == -inf else r)
        k = self.random.choice(self.model.ks) if self.random.random() < 0.93 else self.random.choice([2, 4, 1000])
        offset = self.random.randrange(k) if not self.whole and self.random.random() < 0.3 else 0
        return Question(l, r, k - offset, self.random.choice([None, None, None, 3600, 0.5e6]), offset)

    def written(self, question: Question) -> Json:
        body: Json = {"k": question.k}
        if ends(question) != [None, None] or self.random.random() < 0.5:
            body["range"] = {self.x: ends(question)}
        else:
            body["range"] = {}
        if question.offset or self.random.random() < 0.2:
            body["offset"] = question.offset
        return body if question.ttl is None else {**body, "ttl": question.ttl}

    def subscribe(self) -> None:
        model = self.model
        asked = [(f"s{self.random.randrange(14)}", self.question()) for _ in range(self.random.choice([1, 1, 2, 3]))]
        kind = self.random.choice(["json", "ndjson", "arrow"])
        if kind == "arrow":
            for _, question in asked:
                question.ttl = None
        elements = [{"id": key, **self.written(question)} for key, question in asked]
        options: Json = {}
        skip = self.random.random() < 0.3
        if skip:
            options["on_error"] = "skip"
        lists = self.random.choice([None, True, False])
        if lists is not None:
            options["lists"] = lists
        path = f"{self.path}/subscriptions"
        if kind == "json":
            answer = self.write("POST", path, {"subscriptions": elements, **options})
        else:
            params = {name: str(value).lower() for name, value in options.items()}
            body = ndjson(elements) if kind == "ndjson" else arrow(subscription_table(elements, self.x))
            content_type = NDJSON if kind == "ndjson" else ARROW
            answer = self.write("POST", path, body, headers={"Content-Type": content_type}, params=params)
        done = model.subscribe(asked, skip)
        if done.refused and not skip:
            # What is wrong by itself is told before what is wrong on this board.
            reversed_ends = [field for field in done.fields if field.endswith("range")]
            named = reversed_ends or done.fields or done.taken
            found = {without_ends(error["field"]) for error in problem(answer, done.status)["errors"]}
            assert set(named) <= found <= {*done.fields, *done.taken}, found
            return
        assert answer.status_code in ((200, 201) if skip else (201,)), self.talk.calls[-1]
        told = answer.json()
        assert told["seq"] == model.seq
        wanted = []
        for at in done.applied:
            key = asked[at][0]
            self.follow(key)
            one = model.shown_question(key)
            one |= {"list": self.without_none(model.list_of(key))} if lists in (None, True) else {}
            wanted.append(one | ({"index": at} if skip and done.refused else {}))
        answers = [
            one | ({"list": list(map(plain, one["list"]))} if "list" in one else {}) for one in told["subscriptions"]
        ]
        assert covers(answers, wanted), (answers, wanted)
        assert all(("list" in one) == (lists in (None, True)) for one in told["subscriptions"]), told
        if skip:
            named = sorted(without_ends(error["field"]) for error in told.get("errors", []))
            assert set(named) <= {*done.fields, *done.taken} and len(named) >= len(asked) - len(done.applied), told

    def without_none(self, entries: list[Json]) -> list[Json]:
        return [plain(entry) for entry in entries]

    def follow(self, key: str) -> None:
        """Begin, or begin anew, to live on tiles."""
        self.model.track(key)
        self.readers[key] = TileReader(self.model, self.model.questions[key], self.model.whole_list_of(key))

    def one_subscription(self) -> None:
        model = self.model
        key = self.random.choice([*model.questions, f"s{self.random.randrange(14)}"])
        path = f"{self.path}/subscriptions/{key}"
        known = key in model.questions
        match self.random.choice(["PUT", "PATCH", "PATCH", "DELETE"]):
            case "PUT":
                question = self.question()
                answer = self.write("PUT", path, self.written(question))
                self.check_question(answer, key, question, 200 if known else 201, question.length_field)
            case "PATCH":
                asked = self.question()
                body = self.written(asked)
                for name in self.random.sample(["range", "k", "ttl", "offset"], self.random.randrange(3)):
                    body.pop(name, None)
                answer = self.write("PATCH", path, body)
                if not known:
                    reversed_ends = bool(body.get("range")) and asked.l > asked.r
                    problem(answer, 422 if reversed_ends else 404, exact=False)
                    return
                old = model.questions[key]
                moved = bool(body.get("range"))
                question = Question(
                    asked.l if moved else old.l,
                    asked.r if moved else old.r,
                    body.get("k", old.k),
                    body.get("ttl", old.ttl),
                    body.get("offset", old.offset),
                )
                self.check_question(answer, key, question, 200, "offset" if body.get("offset") else "k")
            case "DELETE":
                answer = self.write("DELETE", path)
                if not known:
                    problem(answer, 404)
                    return
                assert answer.status_code == 200
                self.drop([key])
                assert answer.json()["seq"] == model.seq
                problem(self.talk.ask("GET", path), 404)

    def check_question(self, answer: httpx.Response, key: str, question: Question, status: int, length: str) -> None:
        """`length` is the field to blame where the board does not offer such a list."""
        model = self.model
        bad = ([length] if question.length not in model.ks else []) + (["range"] if question.l > question.r else [])
        if bad:
            assert {without_ends(error["field"]) for error in problem(answer, 422)["errors"]} == set(bad), answer.text
            return
        model.set_question(key, question)
        self.follow(key)
        assert answer.status_code == status, self.talk.calls[-1]
        found = answer.json()
        found["list"] = list(map(plain, found["list"]))
        wanted = {"seq": model.seq, **model.shown_question(key), "list": self.without_none(model.list_of(key))}
        assert covers(found, wanted), (found, wanted)

    def unsubscribe(self) -> None:
        keys = self.random.choices([*self.model.questions, "nobody", f"s{self.random.randrange(14)}"], k=2)
        answer = self.write("POST", f"{self.path}/subscriptions/delete", {"ids": keys})
        assert answer.status_code == 200, answer.text
        gone = self.drop(keys)
        assert covers(answer.json(), {"seq": self.model.seq, "deleted": gone}), answer.text

    def drop(self, keys: list[str]) -> int:
        for key in keys:
            if self.readers.pop(key, None) is not None:
                self.model.untrack(key)
        return self.model.unsubscribe(keys)

    # --- reading ----------------------------------------------------------------------------------------------------

    def top(self) -> None:
        l, r = sorted(self.random.choices([*PLACES, inf, -inf], k=2))
        k = self.random.choice([None, 1, 2, 4, 1000])
        params: Json = {name: end for name, end in (("l", l), ("r", r)) if not isinf(end)}
        if l == inf or r == -inf:
            return
        answer = self.talk.good("GET", f"{self.path}/top", params=params if k is None else {**params, "k": k})
        wanted = self.model.best(l, r, k or max(self.model.ks))
        assert answer["seq"] == self.model.seq
        assert covers(list(map(plain, answer["list"])), self.without_none(wanted)), (answer, wanted)

    def step(self) -> None:
        """One random request with its check, and then a look at everything."""
        steps = {
            self.post_events: 40,
            self.one_object: 14,
            self.subscribe: 12,
            self.one_subscription: 16,
            self.unsubscribe: 3,
            self.configure: 5,
            self.top: 6,
            self.put_back_what_get_shows: 3,
            self.recreate: 1,
        }
        self.random.choices(list(steps), list(steps.values()))[0]()
        if self.replays and self.random.random() < 0.1:
            self.replay(self.random.choice(self.replays))
        self.compare()

    def compare(self) -> None:
        """All that can be seen of the board is as the model says."""
        talk, model = self.talk, self.model
        shown = talk.good("GET", self.path)
        sizes = {"objects": len(model.objects), "subscriptions": len(model.questions)}
        assert covers(shown, {"seq": model.seq, **model.shown_config(), **sizes}), shown
        objects = [plain(item) for item in talk.pages(f"{self.path}/objects", self.random.choice([1, 3, 100]))]
        assert covers(objects, [model.objects[key].shown() for key in sorted(model.objects)]), objects
        subscriptions = talk.pages(f"{self.path}/subscriptions", self.random.choice([1, 4, 1000]))
        assert covers(subscriptions, [model.shown_question(key) for key in sorted(model.questions)]), subscriptions
        for key in model.questions:
            found = talk.good("GET", f"{self.path}/subscriptions/{key}")
            assert found["seq"] == model.seq
            wanted = self.without_none(model.list_of(key))
            assert covers(list(map(plain, found["list"])), wanted), (key, model.questions[key], found, wanted)
        if model.objects:
            key = self.random.choice(list(model.objects))
            found = plain(talk.good("GET", f"{self.path}/objects/{key}"))
            assert covers(found, {"seq": model.seq, **model.objects[key].shown()}), found
