"""Streams against the model: nothing missed, nothing repeated, and every list exact at every seq."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.oracles.service import Question, covers, plain
from tests.support.gateways import StartGateway, StartNats, zoned_pair
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.http.following import Checked, Follower, Said, SseFollower, WsFollower
from tests.system.http.history import Player
from tests.system.http.talk import ZONED, Json, Talk, fresh, problem

CONFIG: Json = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2, 5]}


StartWay = Callable[[dict[str, str]], LiveService]


@pytest.fixture(scope="module", params=["service", "gateway"])
def start_way(
    request: pytest.FixtureRequest, start_service: StartService, start_nats: StartNats, start_gateway: StartGateway
) -> StartWay:
    """Starts a service with some settings, or one behind a gateway that has them too, where boards have zones."""

    def start(env: dict[str, str]) -> LiveService:
        if request.param == "service":
            return start_service(env=env)
        gateway = zoned_pair(start_service, start_nats, start_gateway, env)
        ZONED.add(gateway.url)
        return gateway

    return start


@pytest.fixture(scope="module")
def roomy(start_way: StartWay) -> LiveService:
    """Queues so long that nobody falls behind, positions kept for long."""
    env = {
        "RANKCAST_STREAM_QUEUE": "100000",
        "RANKCAST_STREAM_BYTES": "1000000000",
        "RANKCAST_RESUME_CHANGES": "100000",
        "RANKCAST_RESUME_SECONDS": "3600",
    }
    return start_way(env)


@pytest.fixture(scope="module")
def hasty(start_way: StartWay) -> LiveService:
    """Short queues, short memories, many heartbeats."""
    env = {
        "RANKCAST_STREAM_QUEUE": "4",
        "RANKCAST_RESUME_CHANGES": "8",
        "RANKCAST_RESUME_SECONDS": "0.6",
        "RANKCAST_HEARTBEAT_SECONDS": "0.2",
        "RANKCAST_MAX_STREAMS": "24",
    }
    return start_way(env)


class Crowd(Player):
    """A board under random load with subscriptions that move while they are read."""

    def __init__(self, talk: Talk, seed: int, subscriptions: int = 6, algorithm: str = "sparse") -> None:
        super().__init__(talk, seed, ["desc", "asc"][seed % 2], algorithm, whole=True)
        self.moves: dict[str, set[int]] = {}
        for n in range(subscriptions):
            key = f"s{n}"
            question = self.valid_question()
            self.talk.good("PUT", f"{self.path}/subscriptions/{key}", self.written(question))
            self.model.set_question(key, question)
            self.model.track(key)
            self.moves[key] = set()

    def valid_question(self) -> Question:
        while True:
            question = self.question()
            if question.l <= question.r and question.k in self.model.ks:
                question.ttl = None
                return question

    def checked(self, key: str, form: str = "changes", strictly: bool = True) -> Checked:
        found = Checked(self.model, key, form, strictly)
        found.moves = self.moves[key]
        return found

    def act(self) -> None:
        """One random request: events, or a subscription that moves."""
        if self.random.random() < 0.12:
            key = self.random.choice(list(self.moves))
            question = self.valid_question()
            before = self.model.seq
            method = self.random.choice(["PUT", "PATCH"])
            self.model.set_question(key, question)
            if self.model.seq > before:
                self.moves[key].add(self.model.seq)
            told = self.talk.good(
                method,
                f"{self.path}/subscriptions/{key}",
                {"range": {}, **self.written(question)}
                | ({"range": {self.x: [None if abs(e) == float("inf") else e for e in (question.l, question.r)]}}),
            )
        else:
            events = [self.event() for _ in range(self.random.choice([1, 1, 2, 5, 12]))]
            messages = self.random.choice(["full", "count", "none"])
            body = {"events": events, "on_error": "skip", "messages": messages}
            self.model.events(events, skip=True)
            told = self.talk.good("POST", f"{self.path}/events", body)
        assert told["seq"] == self.model.seq

    def stream(self, key: str) -> str:
        return f"{self.path}/subscriptions/{key}/stream"


def hears_all(follower: Follower, checked: Checked, seen: int = 0, snapshot: bool = True) -> int:
    """Wait until a follower knows the present list; check what it was told from the `seen`-th on. Returns how much."""
    taken = seen
    first = snapshot

    def caught_up() -> bool:
        nonlocal taken, first
        new = follower.said[taken:]
        if new:
            checked.take(new, first)
            first = False
            taken += len(new)
        return checked.settled()

    follower.wait(caught_up)
    return taken


def first_from(follower: Follower, seq: int) -> Said:
    """The first message that is a reset, or not before a seq."""
    found: Said = follower.wait(lambda: [said for said in follower.said if said.event == "reset" or said.seq >= seq])[0]
    return found


# --- exact under load -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["sparse", "dense"])
def test_every_reader_is_exact_at_every_seq(roomy: LiveService, closing: list[Any], algorithm: str) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    crowd = Crowd(talk, 1 if algorithm == "dense" else 2, algorithm=algorithm)
    for _ in range(15):
        crowd.act()
    socket = WsFollower(roomy.url)
    closing.append(socket)
    readers: list[tuple[Follower, Checked]] = []
    for key in crowd.moves:
        for form in ("changes", "tiles"):
            sse = SseFollower(roomy.url, crowd.stream(key), form=form)
            closing.append(sse)
            readers.append((sse, crowd.checked(key, form)))
        form = "tiles" if key in ("s0", "s1") else "changes"
        readers.append((socket.subscribe(crowd.name, key, form=form), crowd.checked(key, form)))
    for follower, _ in readers:
        follower.first()
    for _ in range(220):
        crowd.act()
    for follower, checked in readers:
        hears_all(follower, checked)
        assert checked.merged == 0
    told = sum(len(follower.said) for follower, _ in readers)
    assert told > 500, "the load reached hardly anyone"
    assert any(checked.resets for _, checked in readers if checked.form == "tiles")


def test_a_stream_that_begins_in_the_middle_of_a_load_misses_nothing(roomy: LiveService, closing: list[Any]) -> None:
    """Writers go on while readers come: each begins with the list of some seq and goes on from there."""
    import threading

    talk = Talk(roomy.url)
    closing.append(talk)
    crowd = Crowd(talk, 5, subscriptions=3)
    stop = threading.Event()
    failed: list[BaseException] = []

    def load() -> None:
        try:
            while not stop.is_set():
                crowd.act()
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=load)
    writer.start()
    readers = []
    try:
        for n in range(24):
            key = f"s{n % 3}"
            form = "tiles" if n % 4 == 3 else "changes"
            follower = SseFollower(roomy.url, crowd.stream(key), form=form)
            closing.append(follower)
            follower.first()
            readers.append((follower, crowd.checked(key, form)))
    finally:
        stop.set()
        writer.join()
    assert not failed, failed
    for follower, checked in readers:
        hears_all(follower, checked)


# --- resume -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["changes", "tiles"])
@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_a_reader_that_comes_back_misses_and_repeats_nothing(
    roomy: LiveService, closing: list[Any], transport: str, form: str
) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    crowd = Crowd(talk, 11 if form == "tiles" else 12, subscriptions=2)

    def come(after: str | None) -> tuple[Follower, Callable[[], None]]:
        if transport == "sse":
            sse = SseFollower(roomy.url, crowd.stream("s0"), last=after, form=form)
            closing.append(sse)
            return sse, sse.leave
        socket = WsFollower(roomy.url)
        closing.append(socket)
        more = {} if after is None else {"after": after}
        return socket.subscribe(crowd.name, "s0", form=form, **more), socket.leave

    position = ""
    follower, leave = come(None)
    checked = crowd.checked("s0", form)
    follower.first()
    snapshot = True
    for _ in range(12):
        for _ in range(crowd.random.randrange(12)):
            crowd.act()
        if crowd.random.random() < 0.5:
            hears_all(follower, checked, snapshot=snapshot)
            heard = len(follower.said)
        else:
            heard = len(follower.said)
            checked.take(follower.said[:heard], snapshot)
        leave()
        position = str(follower.said[heard - 1].position) if heard else position
        for _ in range(crowd.random.randrange(8)):
            crowd.act()
        moved = min((seq for seq in crowd.moves["s0"] if seq > checked.at), default=None)
        follower, leave = come(position)
        snapshot = False
        if form == "tiles" and moved is not None:
            reset = first_from(follower, moved)
            assert reset.event == "reset"
            # A gateway that has not heard of the move yet goes on with the tiles before it.
            assert reset is follower.said[0] or roomy.url in ZONED
    hears_all(follower, checked, snapshot=False)


def test_a_position_in_the_query_is_as_good_as_the_header(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    crowd = Crowd(talk, 21, subscriptions=1)
    closing.append(talk)
    first = SseFollower(roomy.url, crowd.stream("s0"))
    closing.append(first)
    position = first.first().position
    assert position is not None and first.said[0].event == "snapshot"
    for _ in range(30):
        crowd.act()
    checked = crowd.checked("s0")
    checked.take(first.said[:1])
    again = SseFollower(roomy.url, crowd.stream("s0"), after=position)
    closing.append(again)
    hears_all(again, checked, snapshot=False)


POSITIONS = ["x", ":", "{epoch}", "{epoch}:", "{epoch}:x", "{epoch}:-1", "{epoch}:1.0", "{epoch}: 3", "{epoch}:3:3"]
POSITIONS += [
    "{epoch}:99999999",
    "{epoch}:9223372036854775808",
    "{epoch}:" + "9" * 40,
    "0123456789abcdef:3",
    "3",
    "ä:3",
]


@pytest.mark.parametrize("position", POSITIONS)
def test_what_is_no_position_here_is_answered_by_a_reset(roomy: LiveService, closing: list[Any], position: str) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    crowd = Crowd(talk, 22, subscriptions=1)
    crowd.act()
    reader = SseFollower(roomy.url, crowd.stream("s0"))
    closing.append(reader)
    epoch = str(reader.first().position).split(":")[0]
    text = position.replace("{epoch}", epoch)
    if text.isascii():
        other = SseFollower(roomy.url, crowd.stream("s0"), last=text)
        closing.append(other)
        assert other.first().event == "reset"
        assert covers([plain(e) for e in other.said[0].data["list"]], crowd.model.list_of("s0"))
    socket = WsFollower(roomy.url)
    closing.append(socket)
    stream = socket.subscribe(crowd.name, "s0", after=text)
    assert stream.first().event == "reset"
    assert covers([plain(e) for e in stream.said[0].data["list"]], crowd.model.list_of("s0"))
    assert stream.said[0].seq == crowd.model.seq


def test_a_position_too_far_back_or_too_long_ago_is_answered_by_a_reset(hasty: LiveService, closing: list[Any]) -> None:
    talk = Talk(hasty.url)
    closing.append(talk)
    path, stream = followed(talk)
    first = SseFollower(hasty.url, stream)
    closing.append(first)
    position = str(first.first().position)
    seqs = [move(talk, path, n) for n in range(8)]
    first.wait(lambda: first.said[-1].seq == seqs[-1])
    near = SseFollower(hasty.url, stream, last=position)
    closing.append(near)
    near.wait(lambda: len(near.said) == 8)
    assert {said.event for said in near.said} == {"change"}
    move(talk, path, 8)
    far = SseFollower(hasty.url, stream, last=position)
    closing.append(far)
    assert far.first().event == "reset"
    other_form = SseFollower(hasty.url, stream, last=near.position, form="tiles")
    closing.append(other_form)
    assert other_form.first().event == "reset", "nobody read tiles before"
    near.wait(lambda: near.said[-1].seq == far.said[0].seq)
    for reader in (first, near, far, other_form):
        reader.leave()
    wait_until(lambda: open_streams(talk) == 0)
    time.sleep(0.7)  # longer than the setting
    late = SseFollower(hasty.url, stream, last=near.position)
    closing.append(late)
    assert late.first().event == "reset"


def test_a_position_is_continued_although_nobody_read_for_a_while(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path, stream = followed(talk)
    before = open_streams(talk)
    first = SseFollower(roomy.url, stream)
    closing.append(first)
    first.first()
    seq = move(talk, path, 0)
    first.wait(lambda: first.said[-1].seq == seq)
    first.leave()
    wait_until(lambda: open_streams(talk) <= before)
    soon = SseFollower(roomy.url, stream, last=first.position)
    closing.append(soon)
    seq = move(talk, path, 1)
    assert (soon.first().event, soon.said[0].seq) == ("change", seq)


def test_another_start_of_the_service_is_the_same_history(start_service: StartService, closing: list[Any]) -> None:
    """After a restart a position cannot be continued, and the epoch is the same."""
    service = start_service()
    talk = Talk(service.url)
    path, stream = followed(talk)
    move(talk, path, 0)
    reader = SseFollower(service.url, stream)
    position = str(reader.first().position)
    talk.close()
    assert service.stop() == 0
    again = start_service(service.data)
    other = SseFollower(again.url, stream, last=position)
    closing.append(other)
    assert other.first().event == "reset"
    assert other.said[0].position == position and other.said[0].data == reader.said[0].data
    assert again.stop() == 0


def followed(talk: Talk) -> tuple[str, str]:
    """A board with one object and one subscription; returns its path and that of the subscription's stream."""
    path = f"/v1/boards/{fresh()}"
    talk.good("PUT", path, CONFIG)
    talk.good("PUT", f"{path}/objects/a", {"values": {"distance": 1, "delay": 1}})
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 2, "range": {"distance": [0, 10]}})
    return path, f"{path}/subscriptions/mine/stream"


def move(talk: Talk, path: str, n: int) -> int:
    """A change that every list hears of; returns its seq."""
    return int(talk.good("PATCH", f"{path}/objects/a", {"values": {"delay": 100 + n}})["seq"])


def metric(talk: Talk, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = talk.ask("GET", "/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def open_streams(talk: Talk) -> float:
    return metric(talk, "rankcast_streams")


# --- forms, heartbeats, ends ------------------------------------------------------------------------------------------


def test_an_empty_board_sends_a_snapshot(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path = f"/v1/boards/{fresh()}"
    talk.good("PUT", path, CONFIG)
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 2})
    reader = SseFollower(roomy.url, f"{path}/subscriptions/mine/stream")
    closing.append(reader)
    assert reader.first().event == "snapshot" and reader.said[0].data == {"seq": 1, "list": []}
    talk.good(
        "POST", f"{path}/events", {"events": [{"op": "upsert", "id": "a", "values": {"distance": 1, "delay": 7}}]}
    )
    change = {"id": "a", "old_rank": None, "new_rank": 1, "values": {"distance": 1, "delay": 7}, "created": 0}
    reader.wait(lambda: len(reader.said) == 2)
    assert reader.said[1].data == {"seq": 2, "changes": [change]}
    talk.good("DELETE", f"{path}/objects/a")
    reader.wait(lambda: len(reader.said) == 3)
    assert reader.said[2].data == {"seq": 3, "changes": [{"id": "a", "old_rank": 1, "new_rank": None}]}


def test_a_new_payload_alone_is_a_change_and_nothing_new_is_none(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path, stream = followed(talk)
    readers = [SseFollower(roomy.url, stream, form=form) for form in ("changes", "tiles")]
    closing += readers
    for reader in readers:
        reader.first()
    talk.good("PATCH", f"{path}/objects/a", {"values": {"delay": 1}})
    seq = talk.good("PATCH", f"{path}/objects/a", {"payload": {"a": 1}})["seq"]
    talk.good("PATCH", f"{path}/objects/a", {"payload": {"a": 1}})
    last = talk.good("PATCH", f"{path}/objects/a", {"payload": None})["seq"]
    for reader in readers:
        reader.wait(lambda reader=reader: len(reader.said) == 3)
        assert [said.seq for said in reader.said[1:]] == [seq, last]
    change = readers[0].said[1].data["changes"][0]
    assert (change["old_rank"], change["new_rank"], change["payload"]) == (1, 1, {"a": 1})
    assert readers[0].said[2].data["changes"][0].get("payload") is None
    assert readers[1].said[1].data["tiles"][0]["object"]["payload"] == {"a": 1}


@pytest.mark.parametrize("form", ["changes", "tiles"])
def test_heartbeats_keep_a_quiet_reader_fresh(hasty: LiveService, closing: list[Any], form: str) -> None:
    talk = Talk(hasty.url)
    closing.append(talk)
    path, stream = followed(talk)
    reader = SseFollower(hasty.url, stream, form=form)
    socket = WsFollower(hasty.url)
    closing += [reader, socket]
    reader.first()
    name = path.rpartition("/")[2]
    follower = socket.subscribe(name, "mine", form=form)
    follower.first()
    seq = 0
    for n in range(30):
        seq = talk.good("PUT", f"{path}/objects/far{n}", {"values": {"distance": 99, "delay": 1}})["seq"]
    reader.wait(lambda: reader.beats and reader.beats[-1].endswith(f":{seq}"))
    assert [said.event for said in reader.said] == ["snapshot"]
    epoch = reader.beats[-1].split(":")[0]
    wanted = {f"boards/{name}": f"{epoch}:{seq}"}
    socket.wait(lambda: any(f["event"] == "heartbeat" and f["cursors"] == wanted for f in socket.frames))
    reader.leave()
    again = SseFollower(hasty.url, stream, last=reader.beats[-1], form=form)
    closing.append(again)
    later = move(talk, path, 1)
    assert again.first().event == ("change" if form == "changes" else "tiles") and again.said[0].seq == later


def test_a_heartbeat_is_a_block_with_an_id_alone(hasty: LiveService, closing: list[Any]) -> None:
    talk = Talk(hasty.url)
    closing.append(talk)
    _, stream = followed(talk)
    with talk.http.stream("GET", stream) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "no-store" in answer.headers["cache-control"] or "no-cache" in answer.headers["cache-control"]
        lines = answer.iter_lines()
        found = []
        for line in lines:
            found.append(line)
            if len(found) > 12:
                break
    blocks = "\n".join(found).split("\n\n")
    assert blocks[0].split("\n")[1] == "event: snapshot"
    assert blocks[1].startswith("id: ") and "\n" not in blocks[1]


@pytest.mark.parametrize("how", ["delete", "bulk", "board"])
@pytest.mark.parametrize("form", ["changes", "tiles"])
def test_a_deletion_ends_the_streams(roomy: LiveService, closing: list[Any], how: str, form: str) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path, stream = followed(talk)
    talk.good("PUT", f"{path}/subscriptions/other", {"k": 2})
    name = path.rpartition("/")[2]
    reader = SseFollower(roomy.url, stream, form=form)
    socket = WsFollower(roomy.url)
    closing += [reader, socket]
    follower = socket.subscribe(name, "mine", form=form)
    other = socket.subscribe(name, "other")
    for one in (reader, follower, other):
        one.first()
    if how == "delete":
        seq = talk.good("DELETE", f"{path}/subscriptions/mine")["seq"]
    elif how == "bulk":
        talk.good("PUT", f"{path}/subscriptions/third", {"k": 2})
        told = talk.good("POST", f"{path}/subscriptions/delete", {"ids": ["nobody", "mine", "third"]})
        assert told["deleted"] == 2
        seq = told["seq"] - 1
    else:
        seq = talk.good("DELETE", path)["seq"]
    assert reader.wait_end() == "clean"
    assert (reader.said[-1].event, reader.said[-1].data) == ("gone", {"seq": seq})
    follower.wait(lambda: follower.said[-1].event == "gone")
    assert follower.said[-1].seq == seq
    if how == "board":
        other.wait(lambda: other.said[-1].event == "gone")
    else:
        later = move(talk, path, 1)
        other.wait(lambda: other.said[-1].seq == later)
    socket.send(op="ping")
    socket.answer("pong")
    assert SseFollower(roomy.url, stream).status == 404
    socket.subscribe(name, "mine")
    assert socket.answer("error")["problem"]["status"] == 404


def test_a_subscription_made_again_is_another(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path, stream = followed(talk)
    reader = SseFollower(roomy.url, stream)
    position = str(reader.first().position)
    talk.good("DELETE", f"{path}/subscriptions/mine")
    assert reader.wait_end() == "clean"
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 5, "range": {"distance": [50, 60]}})
    again = SseFollower(roomy.url, stream, last=position)
    closing.append(again)
    assert again.first().event == "reset" and again.said[0].data["list"] == []
    talk.good("PUT", f"{path}/objects/b", {"values": {"distance": 55, "delay": 1}})
    again.wait(lambda: len(again.said) == 2)
    assert [change["id"] for change in again.said[1].data["changes"]] == ["b"]


def test_a_ttl_ends_what_nobody_reads_or_names(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path, _ = followed(talk)
    talk.good("PUT", f"{path}/subscriptions/read", {"k": 2})
    reader = SseFollower(roomy.url, f"{path}/subscriptions/read/stream")
    closing.append(reader)
    reader.first()
    talk.good("PATCH", f"{path}/subscriptions/read", {"ttl": 1})
    for ttl in (1, 2, 4, 8, 16, 32):
        made = named_for_long(talk, f"{path}/subscriptions/short", ttl)
        wait_until(lambda: len(talk.pages(f"{path}/subscriptions", 100)) == 2)
        if made is not None:
            break
    assert made is not None, "this machine is too slow"
    assert talk.good("GET", path)["seq"] == made + 1
    assert {item["id"] for item in talk.pages(f"{path}/subscriptions", 100)} == {"mine", "read"}
    assert reader.ended is None and reader.said[-1].event == "snapshot"
    reader.leave()
    wait_until(lambda: talk.good("GET", path)["seq"] == made + 2)
    problem(talk.ask("GET", f"{path}/subscriptions/read"), 404)


def named_for_long(talk: Talk, path: str, ttl: float) -> int | None:
    """Make a subscription and name it again and again until well after its time; it must be there.

    Returns the seq at which it was made, None when a pause of this machine was so long that it may be gone.
    """
    named = began = time.monotonic()
    made = int(talk.good("PUT", path, {"k": 2, "ttl": ttl})["seq"])
    while time.monotonic() < began + 2.5 * ttl:
        asked = time.monotonic()
        answer = talk.ask("GET", path)
        if time.monotonic() - named >= ttl:
            return None
        assert answer.status_code == 200 and answer.json()["ttl"] == ttl
        named = asked
        time.sleep(0.1)
    return made


# --- slow readers -----------------------------------------------------------------------------------------------------


MUCH = 60
"""Messages of 400 kB each: more than the system keeps for a socket."""


@pytest.mark.parametrize("form", ["changes", "tiles"])
@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_a_slow_reader_is_right_afterwards_and_harms_nobody(
    hasty: LiveService, closing: list[Any], transport: str, form: str
) -> None:
    """It does not read while its subscription moves to and fro between long lists.

    Then it gets one net change or a reset, and goes on exactly.
    """
    talk = Talk(hasty.url)
    closing.append(talk)
    crowd = Crowd(talk, 31, subscriptions=2)
    talk.good("PATCH", crowd.path, {"ks": [1, 3, 7, 100]})
    crowd.model.configure([1, 3, 7, 100])
    things = [
        {"op": "upsert", "id": f"{place}-{n}", "values": {crowd.x: place, crowd.y: n}, "payload": "x" * 4000}
        for place in (1000, 2000)
        for n in range(100)
    ]
    talk.good("POST", f"{crowd.path}/events", {"events": things, "messages": "none"})
    crowd.model.events(things)
    slow: Follower
    if transport == "sse":
        slow = sse = SseFollower(hasty.url, crowd.stream("s0"), buffer=2048, paused=True, form=form)
        closing.append(sse)
        gate = sse.gate
    else:
        socket = WsFollower(hasty.url, max_queue=1)
        closing.append(socket)
        slow = socket.subscribe(crowd.name, "s0", form=form)
        slow.first()
        gate = socket.gate
        gate.clear()
    quick = SseFollower(hasty.url, crowd.stream("s0"), form=form)
    closing.append(quick)
    quick.first()
    for move_number in range(MUCH):
        place = 1000.0 + move_number % 2 * 1000
        crowd.model.set_question("s0", Question(place, place, 100))
        crowd.moves["s0"].add(crowd.model.seq)
        talk.good("PATCH", f"{crowd.path}/subscriptions/s0", {"range": {crowd.x: [place, place]}, "k": 100})
        quick.wait(lambda: quick.said[-1].seq == crowd.model.seq)
    assert [said.event for said in quick.said[1:]] == ["change" if form == "changes" else "reset"] * MUCH
    for _ in range(5):
        crowd.act()
    gate.set()
    checked = crowd.checked("s0", form, strictly=False)
    hears_all(slow, checked)
    assert checked.resets + checked.merged > 0 and len(slow.said) < len(quick.said)
    hears_all(quick, crowd.checked("s0", form, strictly=False))
    for _ in range(20):
        crowd.act()
    hears_all(slow, checked, checked_so_far(slow, checked), snapshot=False)


def checked_so_far(follower: Follower, checked: Checked) -> int:
    """How many messages of a follower have been checked."""
    return sum(said.seq <= checked.at for said in follower.said)


# --- the WebSocket ----------------------------------------------------------------------------------------------------


def test_operations_of_the_socket(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path, _ = followed(talk)
    name = path.rpartition("/")[2]
    socket = WsFollower(roomy.url)
    closing.append(socket)
    stream = socket.subscribe(name, "mine")
    first = stream.first()
    assert first.event == "snapshot" and first.data["resource"] == f"boards/{name}" and first.data["id"] == "mine"
    assert first.position == first.data["cursor"] and str(first.position).endswith(f":{first.seq}")
    socket.send(op="ping")
    assert socket.answer("pong") == {"event": "pong"}
    seq = move(talk, path, 1)
    stream.wait(lambda: stream.said[-1].seq == seq)
    assert stream.said[-1].event == "change" and stream.said[-1].data["changes"][0]["new_rank"] == 1
    again = socket.subscribe(name, "mine", form="tiles")
    assert again.first().event == "snapshot"
    seq = move(talk, path, 2)
    again.wait(lambda: again.said[-1].seq == seq)
    assert [said.event for said in again.said] == ["snapshot", "tiles"], "the second replaces the first"
    socket.send(op="unsubscribe", resource=f"boards/{name}", id="mine")
    told = socket.answer("unsubscribed")
    assert (told["resource"], told["id"]) == (f"boards/{name}", "mine")
    move(talk, path, 3)
    third = socket.subscribe(name, "mine", after=None)
    assert third.first().event == "snapshot"
    assert [frame["event"] for frame in socket.frames].count("tiles") == 1
    socket.send(op="auth", key="anything")
    assert socket.answer("authenticated")


@pytest.mark.parametrize(
    ("frame", "status", "field"),
    [
        ("{", 400, None),
        ("", 400, None),
        ("[" * 3000, 400, None),
        ("[]", 422, None),
        ("7", 422, None),
        ("{}", 422, "op"),
        ('{"op": "dance"}', 422, "op"),
        ('{"op": 1}', 422, "op"),
        ('{"op": "subscribe", "id": "mine"}', 422, "resource"),
        ('{"op": "subscribe", "resource": "boards/{name}"}', 422, "id"),
        ('{"op": "subscribe", "resource": "boards/{name}", "id": 1}', 422, "id"),
        ('{"op": "subscribe", "resource": "boards/{name}", "id": "mine", "form": "all"}', 422, "form"),
        ('{"op": "subscribe", "resource": "boards/{name}", "id": "mine", "after": 5}', 422, "after"),
        ('{"op": "subscribe", "resource": "boards/{name}", "id": "mine", "speed": 5}', 422, "speed"),
        ('{"op": "subscribe", "resource": "boards/{name}", "id": "nobody"}', 404, None),
        ('{"op": "subscribe", "resource": "boards/none", "id": "mine"}', 404, None),
        ('{"op": "subscribe", "resource": "boards", "id": "mine"}', 404, None),
        ('{"op": "subscribe", "resource": "shelves/{name}", "id": "mine"}', 404, None),
        ('{"op": "subscribe", "resource": "", "id": ""}', 404, None),
        ('{"op": "unsubscribe", "resource": "boards/{name}", "id": "nobody"}', 404, None),
        ('{"op": "ping", "more": 1}', 422, "more"),
        ('{"op": "auth"}', 422, "key"),
        ('{"op": "ping", "x": NaN}', 400, None),
        (b"\xff\x00", 400, None),
        (b'{"op": "ping"}', 400, None),
    ],
)
def test_what_the_socket_refuses(
    roomy: LiveService, closing: list[Any], frame: str | bytes, status: int, field: str | None
) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    path, _ = followed(talk)
    name = path.rpartition("/")[2]
    socket = WsFollower(roomy.url)
    closing.append(socket)
    stream = socket.subscribe(name, "mine")
    stream.first()
    socket.socket.send(frame.replace("{name}", name) if isinstance(frame, str) else frame)
    told = socket.answer("error")
    assert told["problem"]["status"] == status and told["problem"]["type"].startswith("/problems/"), told
    assert "resource" in told and "id" in told
    if field is not None:
        assert field in [error["field"] for error in told["problem"]["errors"]], told
    seq = move(talk, path, 1)
    stream.wait(lambda: stream.said[-1].seq == seq)


def test_streams_do_not_share_their_headers(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    _, stream = followed(talk)
    for _ in range(3):
        reader = SseFollower(roomy.url, stream)
        closing.append(reader)
        names = [name.lower() for name, _ in reader.answer.getheaders()]
        assert len(set(names)) == len(names), names


def test_many_subscriptions_of_many_boards_on_one_socket(roomy: LiveService, closing: list[Any]) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    crowds = [Crowd(talk, seed, subscriptions=8) for seed in (41, 42, 43)]
    socket = WsFollower(roomy.url)
    closing.append(socket)
    readers = []
    for crowd in crowds:
        for n, key in enumerate(crowd.moves):
            form = "tiles" if n % 3 == 2 else "changes"
            readers.append((socket.subscribe(crowd.name, key, form=form), crowd.checked(key, form)))
    for follower, _ in readers:
        follower.first()
    for _ in range(50):
        for crowd in crowds:
            crowd.act()
    for follower, checked in readers:
        hears_all(follower, checked)


@pytest.mark.parametrize(
    ("query", "field"), [({"form": "all"}, "form"), ({"form": ""}, "form"), ({"speed": "1"}, "speed")]
)
def test_bad_queries_of_a_stream(roomy: LiveService, closing: list[Any], query: Json, field: str) -> None:
    talk = Talk(roomy.url)
    closing.append(talk)
    _, stream = followed(talk)
    problem(talk.ask("GET", stream, params=query), 422, field)


def test_too_many_streams(hasty: LiveService, closing: list[Any]) -> None:
    talk = Talk(hasty.url)
    closing.append(talk)
    path, stream = followed(talk)
    name = path.rpartition("/")[2]
    wait_until(lambda: open_streams(talk) == 0)
    readers = [SseFollower(hasty.url, stream) for _ in range(12)]
    closing += readers
    socket = WsFollower(hasty.url)
    closing.append(socket)
    for n in range(12):
        talk.good("PUT", f"{path}/subscriptions/s{n}", {"k": 2})
    streams = [socket.subscribe(name, f"s{n}") for n in range(12)]
    for one in [*readers, *streams]:
        one.first()
    refused = SseFollower(hasty.url, stream)
    assert refused.status == 429 and refused.problem["type"] == "/problems/too-many"
    socket.subscribe(name, "mine")
    assert socket.answer("error")["problem"]["status"] == 429
    replaced = socket.subscribe(name, "s0", form="tiles")
    assert replaced.first().event == "snapshot", "the second replaces the first, so it is not one more"
    readers[0].leave()

    def room() -> bool:
        one = SseFollower(hasty.url, stream)
        closing.append(one)
        return one.status == 200

    wait_until(room)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_sigterm_ends_streams_properly(start_service: StartService, closing: list[Any]) -> None:
    service = start_service()
    talk = Talk(service.url)
    path, stream = followed(talk)
    name = path.rpartition("/")[2]
    reader = SseFollower(service.url, stream)
    deaf = SseFollower(service.url, stream, buffer=2048, paused=True)
    socket = WsFollower(service.url)
    quiet = WsFollower(service.url)
    closing += [reader, deaf, socket, quiet]
    follower = socket.subscribe(name, "mine")
    for one in (reader, follower):
        one.first()
    seq = move(talk, path, 1)
    service.process.send_signal(signal.SIGTERM)
    assert reader.wait_end() == "clean"
    assert reader.said[-1].seq == seq and reader.said[-1].event == "change", "what was said before the end arrives"
    assert socket.wait_end() == "clean" and socket.code == 1001
    assert quiet.wait_end() == "clean"
    assert follower.said[-1].seq == seq
    assert service.process.wait(PATIENCE) == 0, "a reader that takes nothing holds it up"
    assert b"Traceback" not in service.log.read_bytes()
    talk.close()


def test_sigterm_lets_running_writes_end(start_service: StartService) -> None:
    import threading

    import httpx

    service = start_service()
    talk = Talk(service.url)
    path = f"/v1/boards/{fresh()}"
    talk.good("PUT", path, CONFIG)
    answered: list[int] = []
    stopped = threading.Event()

    def write(n: int) -> None:
        with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
            for i in range(100_000):
                event = {"op": "upsert", "id": f"w{n}-{i}", "values": {"distance": 1, "delay": i}}
                try:
                    answer = client.post(f"{path}/events", content=json.dumps({"events": [event]}), headers=TYPED)
                except httpx.TransportError:
                    return
                if answer.status_code != 200:
                    assert answer.status_code == 503, answer.text
                    return
                answered.append(answer.json()["seq"])
                stopped.wait(0)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for writer in writers:
        writer.start()
    wait_until(lambda: len(answered) > 200)
    assert service.stop() == 0
    for writer in writers:
        writer.join(PATIENCE)
    again = start_service(service.data)
    after = Talk(again.url)
    found = after.good("GET", path)
    assert len(set(answered)) == len(answered) and max(answered) <= found["seq"]
    assert found["objects"] == found["seq"]
    assert again.stop() == 0


TYPED = {"Content-Type": "application/json"}
