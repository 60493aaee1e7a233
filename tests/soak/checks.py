"""What is there against the models: every answer in the order of seq, every state while nobody writes."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from tests.oracles.service import covers, plain
from tests.soak.writers import Checked, Steady
from tests.support.patience import PATIENCE, wait_until
from tests.system.http.talk import Json, Talk
from tests.system.killing import Write

SAMPLE = 12
"""Lists of each resource that are compared with brute force."""


def hold(resources: list[Checked]) -> None:
    """Let every writer get its last answer, and begin nothing."""
    writers = [writer for one in resources for writer in one.writers]
    for writer in writers:
        writer.hold()
    for writer in writers:
        wait_until(partial(_rests, writer), 2 * PATIENCE, why=partial(_last, writer))
        if writer.failure is not None:
            raise writer.failure


def _rests(writer: Steady) -> bool:
    return writer.idle.is_set() or writer.failure is not None


def _last(writer: Steady) -> str:
    return f"a write is never answered: {writer.writes[-1]}"


def let_go(resources: list[Checked]) -> None:
    for one in resources:
        for writer in one.writers:
            writer.let_go()


def taken(one: Checked) -> list[Write]:
    """The writes since the last call, in the order of their seqs; every one has been answered."""
    writes = [write for writer in one.writers for write in writer.writes]
    for writer in one.writers:
        writer.writes.clear()
    return sorted(writes, key=lambda write: write.seq)


def state(one: Checked, talk: Talk, draw: Random) -> Json:
    """What the service has of a resource: its seq, the ids of everything in it, and some lists."""
    kind = one.path.split("/")[2]
    parts = {"boards": "objects", "maps": "objects", "feeds": "posts"}
    subscriptions = "queries" if kind == "maps" else "subscriptions"
    found: Json = {"shown": talk.good("GET", one.path)}
    if kind in parts:
        found["things"] = talk.pages(f"{one.path}/{parts[kind]}", 1000)
    found["subscriptions"] = talk.pages(f"{one.path}/{subscriptions}", 1000)
    ids = [each["id"] for each in found["subscriptions"]]
    if kind in parts:
        some = draw.sample(ids, min(SAMPLE, len(ids)))
        found["lists"] = {id: talk.good("GET", f"{one.path}/{subscriptions}/{id}") for id in some}
    assert talk.good("GET", one.path)["seq"] == found["shown"]["seq"], "someone writes"
    return found


def compare(one: Checked, found: Json, draw: Random) -> None:
    """The state that was read is the model's. Raises AssertionError where it is not."""
    kind, model = one.path.split("/")[2], one.model
    assert found["shown"]["seq"] == model.seq, (found["shown"]["seq"], model.seq)
    _COMPARE[kind](one, found, draw)


def _board(one: Checked, found: Json, draw: Random) -> None:
    model = one.model
    things = {item["id"]: plain(item) for item in found["things"]}
    assert things.keys() == model.objects.keys()
    for id, thing in model.objects.items():
        assert covers(things[id], thing.shown()), (things[id], thing)
    assert {each["id"] for each in found["subscriptions"]} == model.questions.keys()
    for id, shown in found["lists"].items():
        assert covers(list(map(plain, shown["list"])), model.list_of(id)), (shown, model.list_of(id))


def _matcher(one: Checked, found: Json, draw: Random) -> None:
    wanted = [one.model.shown(each["id"]) for each in found["subscriptions"]]
    assert found["subscriptions"] == wanted and found["shown"]["subscriptions"] == len(wanted)


def _relay(one: Checked, found: Json, draw: Random) -> None:
    model = one.model
    assert found["shown"]["forwarded"] == model.forwarded
    assert found["subscriptions"] == [model.shown(id) for id in sorted(model.boxes)]


def _map(one: Checked, found: Json, draw: Random) -> None:
    model = one.model
    assert found["things"] == [model.objects[id].shown() for id in sorted(model.objects)]
    assert [each["id"] for each in found["subscriptions"]] == sorted(one.queries)
    for id, shown in found["lists"].items():
        x, y = one.queries[id]["location"]
        assert shown["location"] == [x, y]
        if shown["kind"] != "skyline":
            # A skyline by the definition is too much work for so many objects; `verify` looks at all of them.
            model.judge(one.queries[id], shown, (x, y), draw, 1, held=True)


def _feed(one: Checked, found: Json, draw: Random) -> None:
    model = one.model
    assert [each["id"] for each in found["things"]] == sorted(model.posts)
    assert [each["id"] for each in found["subscriptions"]] == sorted(model.subscriptions)
    lists: dict[str, Any] = model.lists()
    for id, shown in found["lists"].items():
        assert [(entry["id"], entry["score"]) for entry in shown["list"]] == [
            (post.id, score) for post, score in lists[id]
        ]


_COMPARE = {"boards": _board, "matchers": _matcher, "relays": _relay, "maps": _map, "feeds": _feed}
