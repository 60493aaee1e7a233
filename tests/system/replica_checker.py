"""A checker of replicas: clients at all nodes of a group record what they see while one fault follows the other.

Writers of all five resources send each request under its key until it is answered, and read at the same node what
they have written. Wanderers keep a list by its stream, from node to node with their cursor. In the end each answered
write is there once, at both nodes; a service of its own that gets the same requests in the order of their seqs shows
the same; and each list that a stream ever showed is the one that a model of the board, which shares nothing with the
service, has at that seq. So no seq was shown two ways, and no stream had a hole.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx

from tests.oracles.service import BoardModel, Question
from tests.support.clocks import SystemClock
from tests.support.live import StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.disks import MIB, fill, small_disk
from tests.system.group import Group, Proxy
from tests.system.http.talk import Json
from tests.system.kill_mixed import BOARD, Mixed, compare
from tests.system.killing import Write
from tests.system.replicas import make_all, show_the_same, wait_for_writes, writing

WATCHED = Question(10, 70, 10)
"""The subscription that wanderers follow."""

PROBE_X = 99
"""Where probes write: in no list that is watched."""

DISK = 256 * MIB
"""Bytes of a node's disk."""

CLOCK_HOURS = 9.0
"""How far the clocks of nodes are off at most: two may differ by less than keys are remembered."""

ROUNDS = int(os.environ.get("RANKCAST_ROUNDS", "100"))
"""Faults of the soak."""

BETWEEN = 30
"""Writes that are answered between two faults."""


class Shown(NamedTuple):
    """A list as a stream showed it."""

    seq: int
    node: int
    event: str
    list: list[tuple[str, float, float]]


class OwnWrites(Mixed):
    """A writer that reads each of its writes at the node that answered it."""

    def __init__(self, number: int, root: str) -> None:
        super().__init__(number, root)
        self.reads = 0

    def after(self, http: httpx.Client, write: Write) -> None:
        with suppress(httpx.TransportError):
            answer = http.get(self.root)
            if answer.status_code == 200:
                self.reads += 1
                assert answer.json()["seq"] >= write.seq, (write.key, http.base_url, answer.text, write.answer)


class Wanderer(threading.Thread):
    """Keeps the list of one subscription by its stream, and goes on at the next node when the stream ends."""

    def __init__(self, group: Group, first: int) -> None:
        super().__init__(daemon=True)
        self.shown: list[Shown] = []
        self.resets = self.connections = 0
        self.failure: BaseException | None = None
        self.done = False
        self._group, self._node = group, first
        self._cursor: str | None = None
        self._list: list[Json] = []
        self._seq = -1

    @property
    def ids(self) -> list[str]:
        """The objects of the list, best first."""
        return [entry["id"] for entry in self._list]

    def run(self) -> None:
        try:
            while not self.done:
                with suppress(httpx.HTTPError):
                    self._follow()
                self._node = 1 - self._node
                time.sleep(0.05)
        except BaseException as error:
            self.failure = error
            raise

    def _follow(self) -> None:
        url = f"{self._group.url(self._node)}{BOARD}/subscriptions/watched/stream"
        headers = {} if self._cursor is None else {"Last-Event-ID": self._cursor}
        with httpx.stream("GET", url, headers=headers, timeout=httpx.Timeout(5, read=3)) as answer:
            if answer.status_code != 200:
                return
            self.connections += 1
            event = ""
            for line in answer.iter_lines():
                if self.done:
                    return
                name, _, value = line.partition(": ")
                if name == "id":
                    self._cursor = value
                elif name == "event":
                    event = value
                elif name == "data":
                    self._take(event, json.loads(value))

    def _take(self, event: str, data: Any) -> None:
        if event in ("snapshot", "reset"):
            self.resets += 1
            self._list = data["list"]
        else:
            assert event == "change" and data["seq"] > self._seq, (event, data["seq"], self._seq)
            changes = {one["id"]: one for one in data["changes"]}
            self._list = [entry for entry in self._list if entry["id"] not in changes]
            for one in sorted(
                (one for one in changes.values() if one["new_rank"] is not None), key=lambda one: one["new_rank"]
            ):
                self._list.insert(one["new_rank"] - 1, one)
        self._seq = data["seq"]
        self.shown.append(Shown(self._seq, self._node, event, brief(self._list)))


def brief(entries: Iterable[Json]) -> list[tuple[str, float, float]]:
    """What a list says of each object."""
    return [(entry["id"], entry["values"]["x"], entry["values"]["y"]) for entry in entries]


def history(writes: Iterable[Write]) -> dict[int, list[tuple[str, float, float]]]:
    """The watched list at each seq that a reader can see, by the model."""
    model = BoardModel("x", "y", "desc", [3, 10])
    current: list[tuple[str, float, float]] = []
    found = {0: current}

    def look() -> None:
        nonlocal current
        current = brief(model.best(WATCHED.l, WATCHED.r, WATCHED.k))
        found[model.seq] = current

    for write in sorted((write for write in writes if write.path.startswith(BOARD)), key=lambda write: write.seq):
        path, first = write.path.removeprefix(BOARD), model.seq + 1
        if path == "/events":
            each = write.body.get("mode") != "batch"
            for event in write.body["events"]:
                old = model.objects.get(event["id"])
                places = [event["values"]["x"], *([old.values["x"]] if old is not None else [])]
                assert not model.event(event)
                if each and any(WATCHED.l <= place <= WATCHED.r for place in places):
                    look()
                elif each:
                    found[model.seq] = current
        elif path.startswith("/objects/"):
            model.event({"op": "upsert", "id": path.rpartition("/")[2], **write.body})
        elif path == "/subscriptions/delete":
            model.unsubscribe(write.body["ids"])
        else:
            low, high = write.body["range"]["x"]
            model.set_question(path.rpartition("/")[2], Question(low, high, write.body["k"]))
        assert model.seq == write.seq, (write.key, first, model.seq, write.seq)
        look()
    return found


class Checker:
    """A leader and a replica under load. A fault is a method, under its name in `faults`; each ends with all mended."""

    def __init__(self, group: Group, seed: int) -> None:
        self.group = group
        self.draw = Random(seed)
        self.leader = 0
        self.proxies = [Proxy(port) for port in group.ports]
        self.clocks: list[SystemClock] = []
        self.writers: list[Mixed] = []
        self.wanderers: list[Wanderer] = []
        self.probes: list[Write] = []
        self.seconds: dict[str, list[float]] = {}
        self.faults: dict[str, Callable[[], None]] = {
            "kill leader": self.kill_leader,
            "restart leader": self.restart_leader,
            "stop leader": self.stop_leader,
            "kill replica": self.kill_replica,
            "stop replica": self.stop_replica,
            "cut": self.cut,
            "silence": self.silence,
            "delay": self.delay,
            "halve": self.halve,
            "full leader": lambda: self.full(self.leader),
            "full replica": lambda: self.full(self.replica),
            "clock of leader": lambda: self.set_clock(self.leader),
            "clock of replica": lambda: self.set_clock(self.replica),
        }

    @property
    def replica(self) -> int:
        """The node that follows."""
        return 1 - self.leader

    # --- faults -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def kill_leader(self) -> None:
        """The leader is killed, replaced, and started again."""

    @abstractmethod
    def stop_leader(self) -> None:
        """The leader is stopped, replaced, and wakes up."""

    @abstractmethod
    def restart_leader(self) -> None:
        """The leader is killed, and started again before it is replaced."""

    @abstractmethod
    def apart(self, fault: str) -> None:
        """What has to be seen while the nodes do not reach each other."""

    @abstractmethod
    def full(self, node: int) -> None:
        """The disk of a node is full for a while."""

    def kill_replica(self) -> None:
        """The replica is killed, and started again."""
        self.group.kill(self.replica)
        self.group.follow(self.replica)

    def stop_replica(self) -> None:
        """The replica is stopped, and wakes up."""
        process = self.group.nodes[self.replica].process
        process.send_signal(signal.SIGSTOP)
        self.apart("stop-replica")
        process.send_signal(signal.SIGCONT)

    def cut(self) -> None:
        """All connections between nodes end, and none begins."""
        with self._links("cut"):
            self.apart("cut")

    def silence(self) -> None:
        """Nothing passes between nodes, which nobody tells them."""
        with self._links("silence"):
            self.apart("silence")

    def delay(self) -> None:
        """What passes between nodes comes late."""
        for proxy in self.proxies:
            proxy.delay = 0.1
        wait_for_writes(self.writers, BETWEEN // 2)
        for proxy in self.proxies:
            proxy.delay = 0.0

    def halve(self) -> None:
        """Connections between nodes are cut in the middle of what passes, one after the other."""
        before = self._cuts()
        for proxy in self.proxies:
            proxy.halves = True
        wait_until(lambda: self._cuts() >= before + 3)
        for proxy in self.proxies:
            proxy.halves = False

    def set_clock(self, node: int) -> None:
        """The clock of a node jumps by hours, and stays there."""
        self.clocks[node].set(self.draw.uniform(-CLOCK_HOURS, CLOCK_HOURS) * 3600)
        wait_for_writes(self.writers, BETWEEN // 2)

    def _cuts(self) -> int:
        return sum(proxy.cuts for proxy in self.proxies)

    @contextmanager
    def _links(self, how: str) -> Iterator[None]:
        for proxy in self.proxies:
            getattr(proxy, how)()
        try:
            yield
        finally:
            for proxy in self.proxies:
                proxy.mend()

    # --- a run --------------------------------------------------------------------------------------------------------

    def run(self, start: StartService, faults: Sequence[str]) -> str:
        """Let these faults happen one after the other, and check the state after them; returns what was counted."""
        group = self.group
        make_all(group.url(0))
        watched = {"range": {"x": [WATCHED.l, WATCHED.r]}, "k": WATCHED.k}
        self.probes.append(Write("watched", "PUT", f"{BOARD}/subscriptions/watched", watched))
        settle(self.probes, group.url(0))
        self.wanderers = [Wanderer(group, 0), Wanderer(group, 1)]
        for wanderer in self.wanderers:
            wanderer.start()
        with writing(group.url(0), group.url(1), kind=OwnWrites) as self.writers:
            for number, fault in enumerate(faults):
                wait_for_writes(self.writers, BETWEEN)
                self.find_leader()
                began = time.monotonic()
                print(f"{number + 1}: {fault}", end=" ", flush=True)
                self.faults[fault]()
                self.seconds.setdefault(fault, []).append(time.monotonic() - began)
                print(f"{self.seconds[fault][-1]:.1f} s", flush=True)
            wait_for_writes(self.writers, BETWEEN)
        self.find_leader()
        group.wait_for(self.replica, role="replica", ready=True)
        settle(self.probes, group.url(self.leader))
        writes = [*self.probes, *(write for writer in self.writers for write in writer.writes)]
        self._check_lists(show_the_same(group, 0, 1), writes)
        term = group.about(self.leader)["term"]
        compare(start, group.nodes[self.leader], writes)
        doubtful = sum(write.in_doubt for write in writes)
        reads = sum(writer.reads for writer in self.writers if isinstance(writer, OwnWrites))
        streams = sum(one.connections for one in self.wanderers)
        lists, whole = sum(len(one.shown) for one in self.wanderers), sum(one.resets for one in self.wanderers)
        return (
            f"{len(faults)} faults, {len(writes)} writes, {doubtful} in doubt, {reads} read back; "
            f"{streams} streams with {lists} lists, {whole} of them whole; term {term}"
        )

    def drawn(self, rounds: int) -> list[str]:
        """So many faults at random; of those that RANKCAST_FAULTS names, if it does."""
        named = [one for one in os.environ.get("RANKCAST_FAULTS", "").split(",") if one]
        return self.draw.choices(named or list(self.faults), k=rounds)

    def find_leader(self) -> None:
        """Find out who leads, where nodes decide that by themselves."""

    def _check_lists(self, found: Json, writes: list[Write]) -> None:
        """Wanderers have the list in the end, and each list that they were shown is the model's at that seq."""
        right = [entry["id"] for entry in found[f"{BOARD}/subscriptions/watched"]["list"]]
        for one in self.wanderers:
            wait_until(lambda one=one: one.failure or one.ids == right, why=lambda one=one: (one.ids, right))  # type: ignore[misc]
            one.done = True
            assert one.failure is None
        truth = history(writes)
        for one in self.wanderers:
            for at, shown in enumerate(one.shown):
                wanted = truth.get(shown.seq)
                assert wanted == shown.list, (at, shown, wanted, one.shown[max(0, at - 2) : at + 3])

    def refused(self, fault: str) -> None:
        """Write until the leader answers 503; the last of these writes has no answer."""
        with httpx.Client(base_url=self.group.url(self.leader), timeout=PATIENCE) as http:
            while True:
                key = f"{fault}-{time.monotonic_ns()}"
                # More than a log has room for in the space that it has taken already, before long.
                events = [
                    {"op": "upsert", "id": f"probe{n}", "values": {"x": PROBE_X, "y": n}, "payload": key * 20}
                    for n in range(100)
                ]
                body = {"events": events, "mode": "batch", "messages": "none"}
                self.probes.append(Write(key, "POST", f"{BOARD}/events", body))
                self.probes[-1].send(http)
                if self.probes[-1].answer is None:
                    return

    def close(self) -> None:
        """End what is between the nodes."""
        for proxy in self.proxies:
            proxy.close()


class OwnLogs(Checker):
    """Each node has a log of its own; the replica confirms each write, and is promoted by hand."""

    def kill_leader(self) -> None:
        self.group.kill(self.leader)
        answer = self.group.promote(self.replica)
        assert answer.status_code == 200, answer.text
        self.group.follow(self.leader)
        self.leader = self.replica

    def restart_leader(self) -> None:
        self.group.kill(self.leader)
        self.group.lead(self.leader)

    def stop_leader(self) -> None:
        process = self.group.nodes[self.leader].process
        process.send_signal(signal.SIGSTOP)
        answer = self.group.promote(self.replica, force=True)
        process.send_signal(signal.SIGCONT)
        assert answer.status_code == 200, answer.text
        self.group.wait_for(self.leader, role="replica", ready=True)
        self.leader = self.replica

    def apart(self, fault: str) -> None:
        self.refused(fault)

    def full(self, node: int) -> None:
        filler = fill(self.group.disk(node), 0)
        self.refused(f"full-{node}")
        filler.unlink()


@contextmanager
def two_nodes(start: StartService, folder: Path, *options: str) -> Iterator[tuple[Group, list[SystemClock]]]:
    """A group of two, each with a disk and a clock of its own, that are not started yet."""
    group = Group(start, folder, 2, "--heartbeat-seconds", "1", "--snapshot-rows", "200", *options)
    with ExitStack() as disks:
        clocks = []
        for node in (0, 1):
            disks.enter_context(small_disk(group.disk(node), DISK))
            clocks.append(SystemClock(folder / f"clock{node}"))
            group.env[node] = clocks[node].env
        yield group, clocks


def seed() -> int:
    """What the faults of a soak are drawn with: RANKCAST_SEED, or another one each time, which is printed."""
    found = int(os.environ.get("RANKCAST_SEED", str(time.time_ns())))
    print(f"RANKCAST_SEED={found}", flush=True)
    return found


def settle(writes: list[Write], url: str) -> None:
    """Send writes until each is answered."""
    with httpx.Client(base_url=url, timeout=PATIENCE) as http:
        for write in writes:
            while write.answer is None:
                write.send(http)
