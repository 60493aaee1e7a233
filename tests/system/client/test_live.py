"""The client and the commands against a live service, as a user has them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli.main import cli
from app.demo import verify as proof
from app.demo.flights import load_arrivals
from app.demo.process import running
from rankcast_client import (
    AsyncRankcast,
    Change,
    Disc,
    Entry,
    Gone,
    HalfPlane,
    MapAttribute,
    Missed,
    Rankcast,
    Ready,
    Reset,
    Skyline,
    Snapshot,
    Top,
    Win,
    delete,
    update,
    upsert,
)
from rankcast_client.models import Pair
from tests.oracles.map_service import MapModel
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[3] / "docs" / "client.md"
COMMAND = [sys.executable, "-c", "from app.__main__ import main; main()"]


@pytest.fixture(scope="module")
def service(start_service: StartService) -> Iterator[LiveService]:
    live = start_service()
    yield live
    assert live.stop() == 0


def rankcast(*arguments: str, url: str | None = None, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    environment = os.environ | ({"RANKCAST_URL": url} if url else {}) | {"COLUMNS": "200"}
    command = [*COMMAND, *arguments]
    return subprocess.run(
        command, env=environment, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_the_examples_of_the_documentation_run(service: LiveService) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.M | re.S)
    assert len(examples) == 10
    for example in examples:
        text = example.replace("http://127.0.0.1:8000", service.url)
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_a_write_sent_twice_under_one_key_is_applied_once(service: LiveService) -> None:
    with Rankcast(service.url) as client:
        board = client.board("once")
        board.put(["x"], "y", ks=[2])
        first = board.publish(upsert("a", {"x": 1, "y": 1}), messages="full", idempotency_key="only")
        again = board.publish(upsert("a", {"x": 1, "y": 1}), messages="full", idempotency_key="only")
        assert not first.replayed
        assert again.replayed
        assert (again.seq, again.applied, again.tiles) == (first.seq, 1, None)
        assert board.info().seq == first.seq


def test_asking_why_tells_what_then_happens(service: LiveService) -> None:
    with Rankcast(service.url) as client:
        board = client.board("why")
        board.put(["x"], "y", ks=[1, 2])
        board.publish_many([upsert(f"o{n}", {"x": n, "y": n % 5}) for n in range(12)])
        wants = board.register_many([{"range": (n, n + 4), "k": 1 + n % 2} for n in range(9)]).subscriptions
        assert [one.id for one in board.subscriptions()] == sorted(one.id for one in wants)
        for event in (
            update("o5", {"y": 9}),
            update("o5", {"x": 2, "y": 0}),
            upsert("new", {"x": 4, "y": -1}),
            delete("new"),
        ):
            said = board.explain(event)
            done = board.publish(event, messages="full")
            assert said.seq + 1 == done.seq and done.tiles is not None and said.affected > 0
            told = {k: [replace(tile, event=None) for tile in done.tiles if tile.k == k] for k in (1, 2)}
            assert told == {k: [tile for tile in said.tiles if tile.k == k] for k in (1, 2)}
        cost = board.explain_subscription(wants[0].id)
        assert (cost.k, cost.live, cost.list_length) == (1, False, 1)


def test_asking_why_where_there_are_shapes_and_filters(service: LiveService) -> None:
    with Rankcast(service.url) as client:
        board = client.board("why-flats")
        board.put(["x", "y"], "rent", ks=[2])
        board.publish_many([upsert(f"o{n}", {"x": n % 4, "y": n % 3, "rent": 9 * n % 11}) for n in range(12)])
        asked: list[Any] = [Disc((1, 1), 1.5), HalfPlane((1, 1), 3), {"x": (1, None)}, {"y": (0, 1)}]
        wants = board.register_many([{"range": one, "k": 2} for one in asked]).subscriptions
        for event in (update("o0", {"rent": 50}), update("o1", {"x": 3}), upsert("new", {"x": 1, "y": 1, "rent": -1})):
            held = {one.id: board.subscription(one.id).list or () for one in wants}
            said = board.explain(event)
            assert {one.shape for one in said.classes} == {"box", "disc", "half_plane"} and said.near_after is None
            for one in wants:
                areas = [area for effect in said.classes for area in effect.before]
                there = said.before is not None and said.before in held[one.id]
                assert [area.reaches(one.region) for area in areas].count(True) == there
            done = board.publish(event, messages="full")
            assert done.tiles is not None and said.tile_count == len(done.tiles)
            for shape in ("box", "disc", "half_plane"):
                told = [replace(tile, event=None) for tile in done.tiles if tile.shape == shape]
                assert told == [tile for tile in said.tiles if tile.shape == shape]
        cost = board.explain_subscription(wants[0].id)
        assert (cost.k, cost.list_length, cost.objects_in_range >= 2) == (2, 2, True)

        board = client.board("why-arrivals")
        board.put(["distance"], "delay", order="desc", ks=[1], indexed=["to"])
        board.publish_many([upsert(f"o{n}", {"distance": n, "delay": n}, {"to": "AB"[n % 2]}) for n in range(6)])
        mine = board.register({"distance": (0, 9)}, k=1, where={"to": "A"}, id="mine")
        said = board.explain(update("o5", payload={"to": "A"}))
        assert (said.kind, said.affected, said.classes[0].before) == ("move", 1, ())
        assert [tile.reaches(mine.range, {"to": "A"}) for tile in said.tiles] == [True]
        assert [tile.reaches(mine.range, {"to": "B"}) for tile in said.tiles] == [False]
        assert board.explain_subscription("mine").objects_in_range == 3


def test_every_kind_of_write_and_read(service: LiveService) -> None:
    async def run() -> None:
        async with AsyncRankcast(service.url) as client:
            board = client.board("whole")
            info = await board.put(["x"], "y", order="desc", ks=[2])
            assert (info.range_attributes, info.rank, info.order, info.ks) == (("x",), "y", "desc", (2,))
            assert (await board.patch(ks=[2, 3])).ks == (2, 3)

            assert (await board.upsert("a", {"x": 1, "y": 5}, {"n": 1})).applied == 1
            await board.update("a", {"y": 6})
            many = [upsert(f"o{i}", {"x": i, "y": i}) for i in range(1_500)]
            assert (await board.publish_many(many, messages="none")).applied == 1_500
            skipped = await board.publish_many([update("nobody", {"y": 1}), delete("o0")], on_error="skip")
            assert (skipped.applied, [error.index for error in skipped.errors]) == (1, [0])
            assert await board.object("a") == Entry("a", {"x": 1, "y": 6}, 0, {"n": 1})
            await board.delete_object("o1")
            assert len([entry async for entry in board.objects()]) == 1_499
            assert [entry.id for entry in await board.top(None, 10, 2)] == ["o10", "o9"]

            mine = await board.register((0, 10), k=2, ttl=60)
            assert [entry.id for entry in mine.list or ()] == ["o10", "o9"]
            await board.patch_subscription(mine.id, (0, 5), k=3)
            await board.put_subscription("said", {"x": (None, None)}, k=2)
            made = await board.register_many([{"id": f"s{i}", "range": (i, None), "k": 2} for i in range(1_100)])
            assert len(made.subscriptions) in (0, 1_100)
            moved = await board.subscription(mine.id)
            assert (moved.range, moved.k, moved.ttl) == ({"x": (0, 5)}, 3, 60)
            assert len([one async for one in board.subscriptions()]) == 1_102
            assert await board.delete_subscriptions([f"s{i}" for i in range(1_100)] + ["nobody"]) == 1_100
            await board.delete_subscription("said")
            assert "whole" in [one.name async for one in client.boards()]
            await board.delete()

    asyncio.run(run())


def test_a_window_of_ranks_is_followed_in_both_forms_and_moved(service: LiveService) -> None:
    async def run() -> None:
        chance = random.Random(7)
        async with AsyncRankcast(service.url) as client, client.socket() as socket, asyncio.timeout(2 * PATIENCE):
            board = client.board("windows")
            await board.put(["x"], "y", order="desc", ks=[3, 5])
            made = await board.register((0, 8), k=3, offset=2, id="mine")
            assert (made.k, made.offset) == (3, 2)
            await socket.subscribe("windows", "mine", form="tiles")
            changes, tiles = board.watch("mine", old=True), board.watch("mine", form="tiles")
            squashed = board.watch("mine", squash=0.02)

            async def follow(stream: AsyncIterator[Any]) -> None:
                async for _ in stream:
                    pass

            following = [asyncio.create_task(follow(stream)) for stream in (changes, tiles, squashed, socket)]
            for step in range(60):
                some = [f"o{chance.randrange(12)}" for _ in range(chance.choice([1, 1, 4]))]
                there = {entry.id async for entry in board.objects()}
                events = [upsert(id, {"x": chance.randrange(10), "y": chance.randrange(6)}) for id in some]
                if len(some) == 1 and some[0] in there and chance.random() < 0.3:
                    events = [delete(some[0])]
                await board.publish_many(events)
                if step % 15 == 14:
                    offset = chance.choice([0, 1, 2, 4])
                    await board.patch_subscription("mine", k=5 - offset, offset=offset)
                now = await board.subscription("mine")
                assert now.list == await board.top(0, 8, now.k, offset=now.offset)
                watches = changes, tiles, squashed
                while not (
                    all((watch.list, watch.offset) == (now.list, now.offset) for watch in watches)
                    and socket.list("windows", "mine") == now.list
                ):
                    assert not any(task.done() for task in following)
                    await asyncio.sleep(0.005)
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    asyncio.run(run())


def test_a_filter_is_followed_in_both_forms_and_changed(service: LiveService) -> None:
    async def run() -> None:
        chance = random.Random(11)
        async with AsyncRankcast(service.url) as client, client.socket() as socket, asyncio.timeout(2 * PATIENCE):
            board = client.board("filtered")
            info = await board.put(["x"], "y", order="desc", ks=[3], indexed=["to", "n"])
            assert info.indexed == ("to", "n")
            made = await board.register((0, 8), k=3, id="mine", where={"to": "IAH"})
            assert made.where == {"to": "IAH"}
            await socket.subscribe("filtered", "mine", form="tiles")
            changes, tiles = board.watch("mine"), board.watch("mine", form="tiles")

            async def follow(stream: AsyncIterator[Any]) -> None:
                async for _ in stream:
                    pass

            following = [asyncio.create_task(follow(stream)) for stream in (changes, tiles, socket)]
            passed = 0
            for step in range(60):
                events = []
                for _ in range(chance.choice([1, 1, 4])):
                    payload = chance.choice(
                        [None, "IAH", {"to": "IAH"}, {"to": "IAH", "n": 1}, {"to": "ORD", "n": True}]
                    )
                    values = {"x": chance.randrange(10), "y": chance.randrange(6)}
                    events.append(upsert(f"o{chance.randrange(8)}", values, payload))
                await board.publish_many(events, mode=chance.choice(["each", "batch"]))
                if step % 10 == 9:
                    where: Any = chance.choice([{"to": "IAH"}, {"n": 1}, {"n": True}, {"to": "IAH", "n": 1.0}, {}])
                    await board.patch_subscription("mine", where=where)
                now = await board.subscription("mine")
                assert now.list == await board.top(0, 8, 3, where=now.where)
                for entry in now.list:
                    assert all(entry.payload[name] is value for name, value in now.where.items() if value is True)
                    assert all(entry.payload[name] == value for name, value in now.where.items())
                    passed += bool(now.where)
                while not (changes.list == tiles.list == socket.list("filtered", "mine") == now.list):
                    assert not any(task.done() for task in following)
                    await asyncio.sleep(0.005)
            assert passed > 30
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    asyncio.run(run())


def test_a_list_outlives_kill_9_of_the_service(start_service: StartService) -> None:
    first = start_service()
    port = int(first.url.rsplit(":", 1)[1])

    async def run() -> None:
        async with AsyncRankcast(first.url) as client, client.socket() as socket, asyncio.timeout(2 * PATIENCE):
            board = client.board("b")
            await board.put(["x"], "y", ks=[2])
            await board.put_subscription("mine", (0, 10), k=2)
            await socket.subscribe("b", "mine", form="tiles")
            async with board.watch("mine") as watch:
                await anext(watch)
                await anext(socket)
                await board.publish(upsert("a", {"x": 1, "y": 1}))
                assert isinstance(await anext(watch), Change)
                await anext(socket)
                await asyncio.to_thread(first.stop, signal.SIGKILL)
                async with running(port, first.data):
                    assert isinstance(await anext(watch), Reset)
                    assert isinstance((await anext(socket)).event, Reset)
                    await board.publish(upsert("b", {"x": 2, "y": 0}))
                    await anext(watch)
                    await anext(socket)
                    assert [entry.id for entry in watch.list] == ["b", "a"]
                    assert [entry.id for entry in socket.list("b", "mine")] == ["b", "a"]

    asyncio.run(run())


def test_wins_come_beside_lists_on_one_socket_and_outlive_kill_9(start_service: StartService) -> None:
    first = start_service()
    port = int(first.url.rsplit(":", 1)[1])

    async def run() -> None:
        async with AsyncRankcast(first.url) as client, client.socket() as socket, asyncio.timeout(200):
            board, ads = client.board("b"), client.matcher("b")
            await board.put(["x"], "y", ks=[2])
            await board.put_subscription("mine", (0, 10), k=2)
            await ads.put(["age", "pay"], "relaxed")
            await ads.put_subscription("mine", {"age": (10, 20)}, weights={"age": 0.5})
            await socket.subscribe("b", "mine")
            await socket.subscribe("matchers/b", "mine", ready=True)
            assert isinstance((await anext(socket)).event, Snapshot)
            ready = await anext(socket)
            assert (ready.board, ready.id, ready.event) == ("matchers/b", "mine", Ready(1))
            assert socket.current("matchers/b", "mine")
            await ads.match_many([{"values": {"age": (15, 30)}, "payload": [1]}], notify=True)
            assert (await anext(socket)).event == Win(2, {"age": (15, 30)}, [1], 1, 0.5)
            await board.publish(upsert("a", {"x": 1, "y": 1}))
            assert isinstance((await anext(socket)).event, Change)
            await asyncio.to_thread(first.stop, signal.SIGKILL)
            async with running(port, first.data):
                after = [await anext(socket) for _ in range(3)]
                assert [type(m.event) for m in after if m.board == "b"] == [Reset]
                assert [m.event for m in after if m.board == "matchers/b"] == [Missed(2), Ready(2)]
                await ads.match({"age": 12}, notify=True)
                assert (await anext(socket)).event == Win(3, {"age": 12}, None, 1, 0.5)
                await ads.delete()
                gone = await anext(socket)
                assert (gone.board, type(gone.event), gone.list) == ("matchers/b", Gone, ())
                assert [entry.id for entry in socket.list("b", "mine")] == ["a"]

    asyncio.run(run())


def test_load_and_top(service: LiveService, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("name,level,points,city\nada,12,9100,London\ngrace,17,8700,\nbad name,1,1,x\n")
    arguments = ["load", str(path), "--board", "arcade", "--id", "name"]
    assert "--create" in rankcast(*arguments, url=service.url).stderr

    columns = ["--range", "level", "--rank", "score=points", "--payload", "city"]
    made = ["--create", "--order", "desc", "--ks", "3"]
    refused = rankcast(*arguments, *columns, *made, url=service.url)
    assert refused.returncode == 1
    assert "row 3: id must be" in refused.stderr
    assert "nothing was loaded" in refused.stderr

    loaded = rankcast(*arguments, *columns, "--on-error", "skip", url=service.url)
    assert loaded.returncode == 0
    assert loaded.stdout.startswith("2 of 3 rows are on arcade, seq ")

    lines = '{"op": "update", "id": "ada", "values": {"score": 1}}\n{"op": "delete", "id": "grace"}\n'
    assert rankcast("load", "-", "--format", "ndjson", "-b", "arcade", url=service.url, stdin=lines).returncode == 0
    less = rankcast(*arguments, *columns[:-2], "--on-error", "skip", "--from-row", "2", url=service.url)
    assert less.stdout.startswith("1 of 2 rows are on arcade, seq ")
    assert less.stderr.splitlines()[-1] == "columns left out: city. As payload: --payload city"

    lines = '{"op": "delete", "id": "grace"}\n'
    assert rankcast("load", "-", "--format", "ndjson", "-b", "arcade", url=service.url, stdin=lines).returncode == 0
    top = rankcast("top", "arcade", "--range", "-5:", "-k", "2", url=service.url)
    assert top.stdout == '1\tada\t1\t12\t{"city":"London"}\n'
    assert rankcast("top", "arcade", "--offset", "1", url=service.url).stdout == ""


def test_rows_that_are_loaded_over_a_socket_are_those_of_the_file(service: LiveService, tmp_path: Path) -> None:
    """Also where an id comes again, a row is refused, and the rows come from another program."""
    path = tmp_path / "scores.csv"
    lines = [f"o{i % 40},{i},{i * 7 % 1000}\n" for i in range(1_000)]
    path.write_text("id,level,score\n" + "".join([*lines[:500], "bad name,1,1\n", *lines[500:]]))
    board = ["--create", "--order", "desc", "--ks", "3", "--range", "level", "--rank", "score", "--on-error", "skip"]
    found = []
    for name, options in (("in-one", []), ("sent", ["--socket", "--batch", "7", "--window", "5"])):
        loaded = rankcast("load", str(path), "--board", name, *board, *options, url=service.url)
        assert loaded.stdout.startswith(f"1,000 of 1,001 rows are on {name}, seq 1000 "), loaded
        assert "row 501: id must be" in loaded.stderr
        with Rankcast(service.url) as client:
            found.append([(one.id, one.values) for one in client.board(name).objects()])
    assert (
        found[0] == found[1] == sorted((f"o{i % 40}", {"level": i, "score": i * 7 % 1000}) for i in range(960, 1_000))
    )

    rows = "".join(f'{{"op": "update", "id": "o{i}", "values": {{"score": {i}}}}}\n' for i in range(40))
    piped = ["load", "-", "--format", "ndjson", "-b", "sent", "--socket", "--batch", "1"]
    assert rankcast(*piped, url=service.url, stdin=rows).stdout.startswith("40 of 40 rows are on sent, seq 1040 ")


def test_loading_goes_on_where_it_was_interrupted(service: LiveService) -> None:
    head, *rows = ["id,x,y\n", *(f"o{i},{i},{i}\n" for i in range(1, 70_001))]
    made = rankcast("board", "put", "loaded", "--range-attribute", "x", "--rank", "y", "-k", "1", url=service.url)
    assert made.returncode == 0, made.stderr
    arguments = ["load", "-", "--board", "loaded"]
    lines = [f'{{"id": "o{i}", "x": {i}, "y": {i}}}\n' for i in range(1, 70_001)]
    loading = subprocess.Popen(
        [*COMMAND, *arguments, "--format", "ndjson"],
        env=os.environ | {"RANKCAST_URL": service.url},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert loading.stdin is not None and loading.stderr is not None
    try:
        # More than the pipe holds is only taken once the first request, of 50,000 rows, was answered.
        loading.stdin.write("".join(lines))
        loading.stdin.flush()
        loading.send_signal(signal.SIGINT)
        assert loading.wait(PATIENCE) == 130
        last = loading.stderr.read().splitlines()[-1]
    finally:
        loading.kill()
        loading.wait()
        loading.stderr.close()
        with suppress(BrokenPipeError):
            loading.stdin.close()
    assert re.fullmatch(
        r"rankcast: interrupted; rows 1 to 50,000 are loaded \(50,000 applied, seq \d+\)\. "
        r"To go on: the same command with --from-row 50001",
        last,
    )
    going_on = rankcast(
        *arguments, "--format", "csv", "--from-row", "50001", url=service.url, stdin="".join([head, *rows])
    )
    assert going_on.stdout.startswith("20,000 of 20,000 rows are on loaded, seq "), going_on.stderr
    listed = rankcast("board", "list", url=service.url).stdout.splitlines()
    assert "loaded\tx\ty asc\t1\t70000\t0" in listed


@pytest.mark.parametrize(
    ("resource", "options", "row"),
    [
        ("board", "--range-attribute x --rank y --order desc -k 5 -k 2", "x\ty desc\t2,5\t0\t0"),
        ("matcher", "--dimension x --dimension y --mode relaxed", "x,y\trelaxed sum\tauto\t0"),
        ("matcher", "--dimension x --mode exact --index interval", "x\texact\tinterval\t0"),
        ("relay", "--attribute x", "x\tG 1\tkd\t0\t-"),
        ("map", "--bounds 0,0,9.5,9 --attribute p=low", "0,0,9.5,9\tp low\teuclidean\t0\t0"),
        ("feed", "--bounds 0,0,9,9 --window 20000", "0,0,9,9\t20,000 posts\ttfidf\t0\t0"),
    ],
)
def test_resources_are_made_listed_and_deleted(service: LiveService, resource: str, options: str, row: str) -> None:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [resource, *arguments], env={"RANKCAST_URL": service.url})

    made = run("put", "fresh", *options.split())
    assert made.exit_code == 0, made.output
    shown = run("show", "fresh")
    assert made.stdout == shown.stdout
    assert json.loads(shown.stdout)["name"] == "fresh"
    assert f"fresh\t{row}" in run("list").stdout.splitlines()
    gone = run("delete", "fresh")
    assert gone.stdout.startswith(f"deleted the {resource} fresh, seq ")
    assert "fresh" not in run("list").stdout
    missing = run("delete", "fresh")
    assert missing.exit_code == 1
    assert f"there is no {resource} 'fresh'" in missing.stderr


def test_watch_prints_lines_and_leaves_nothing_behind(service: LiveService) -> None:
    with Rankcast(service.url) as client:
        board = client.board("watched")
        board.put(["x"], "y", ks=[2])
        board.publish(upsert("a", {"x": 1, "y": 1}))
        before = board.info().more["subscriptions"]
        environment = os.environ | {"RANKCAST_URL": service.url, "PYTHONUNBUFFERED": "1"}
        watching = subprocess.Popen(
            [*COMMAND, "watch", "watched", "--range", ":10"], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert watching.stdout is not None
        try:
            seq, *rest = watching.stdout.readline().split("\t")
            assert rest == ["snapshot", "-", "1", "a", "1", "1", "-\n"]
            board.publish(upsert("b", {"x": 2, "y": 0}, {"n": 1}))
            line = watching.stdout.readline().split("\t")
            assert line == [str(int(seq) + 1), "change", "-", "1", "b", "0", "2", '{"n":1}\n']
            watching.send_signal(signal.SIGINT)
            assert watching.wait(PATIENCE) == 0
        finally:
            watching.kill()
            watching.wait()
            watching.stdout.close()
        assert board.info().more["subscriptions"] == before


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_a_port_that_is_taken_is_named(command: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = rankcast(command, "--port", str(port), "--data", str(tmp_path / "data"))
        assert done.returncode == 1
        found = re.search(rf"127\.0\.0\.1:{port} is taken: .* Another port: .*--port (\d+)$", done.stderr.strip())
        assert found and int(found[1]) > port
        assert not (tmp_path / "data").exists()


def test_the_demo_plays_and_ends_with_a_signal(tmp_path: Path) -> None:
    port = free_port()
    output = tmp_path / "output"
    command = [*COMMAND, "demo", "--port", str(port), "--data", str(tmp_path / "data"), "--speed", "5"]
    with output.open("wb") as written:
        demo = subprocess.Popen(command, stdout=written, stderr=written)
    try:
        with Rankcast(f"http://127.0.0.1:{port}") as client:
            end = time.monotonic() + 2 * PATIENCE
            while time.monotonic() < end and "arrivals\n" not in output.read_text() and demo.poll() is None:
                time.sleep(0.2)
            assert len(client.board("delays").top(500, 1000, k=5)) > 0, output.read_text()
            assert client.board("delays").subscription("from-500-to-1000-best-5").list
            made = rankcast("keys", "create", "--url", client.base_url, "--name", "ops", "--scope", "admin")
            assert made.returncode == 0, made.stderr
            while time.monotonic() < end and "asks for keys" not in output.read_text() and demo.poll() is None:
                time.sleep(0.2)
        with Rankcast(f"http://127.0.0.1:{port}", made.stdout.strip()) as client:
            assert len(client.board("delays").top(500, 1000, k=5)) > 0, output.read_text()
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(PATIENCE) == 0
    finally:
        demo.kill()
        demo.wait()
    with pytest.raises(ConnectionRefusedError), socket.socket() as probe:
        probe.connect(("127.0.0.1", port))
    assert " watch delays --range 500:1000 -k 5" in output.read_text()

    again = rankcast("demo", "--port", str(port), "--data", str(tmp_path / "data"))
    assert again.returncode == 1
    assert "has keys" in again.stderr


def test_the_proof_compares_every_list_and_can_fail(service: LiveService, monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = load_arrivals()

    async def prove() -> proof.Outcome:
        async with AsyncRankcast(service.url) as client:
            board = client.board("delays")
            await board.put(["distance"], "delay", order="desc", ks=[5, 10])
            try:
                return await proof.verify(client, board, arrivals, 1, lambda said: None)
            finally:
                await board.delete()

    outcome = asyncio.run(prove())
    assert outcome.lists == 2 * proof.EACH * len(proof.KINDS)

    exact = proof.Truth.best

    def ties_the_other_way(truth: proof.Truth, range: Pair, k: int) -> tuple[Entry, ...]:
        everyone = exact(truth, range, len(truth.objects))
        return tuple(sorted(everyone, key=lambda entry: (-entry.values["delay"], -entry.created))[:k])

    monkeypatch.setattr(proof.Truth, "best", ties_the_other_way)
    with pytest.raises(proof.Different, match="brute force has"):
        asyncio.run(prove())


MAP: dict[str, Any] = {
    "attributes": {"price": {"order": "low", "range": [0, 4]}, "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 100, 100],
    "metric": "euclidean",
}
SUM: Any = {"kind": "weighted_sum", "weights": {"distance": 0.5, "price": 2, "rating": 1}}
WORDS: Any = {"kind": "expression", "expression": "distance * (1 + price) - rating"}


@pytest.mark.parametrize("question", [Top(4, SUM, m=5), Top(3, WORDS, m=4, ordered=True), Skyline()])
@pytest.mark.parametrize("over", ["http", "websocket"])
def test_a_moving_client_is_right_wherever_it_is(service: LiveService, question: Any, over: str) -> None:
    """Against brute force, while objects change: as soon as a change was heard of, and at every step from then on."""
    draw = random.Random(over)
    model = MapModel(MAP)
    name = f"walk-{over}-{getattr(question, 'k', 0)}"

    def thing(n: int) -> dict[str, Any]:
        values = {"price": draw.randint(0, 4), "rating": draw.randint(0, 5)}
        return {"id": f"o{n}", "location": [draw.random() * 100, draw.random() * 100], "values": values}

    def right(answer: Any, place: tuple[float, float]) -> bool:
        if isinstance(question, Skyline):
            return {one.id for one in answer.skyline} == model.skyline(place)
        best = [model.score(question.score, place, one) for one in model.ranking(question.score, place)]
        mine = [model.score(question.score, place, model.objects[one.id]) for one in answer.list]
        return mine == [one.score for one in answer.list] and mine == pytest.approx(best[: question.k])

    async def story() -> None:
        async with asyncio.timeout(PATIENCE), AsyncRankcast(service.url) as client, client.socket() as socket:
            food = client.map(name)
            ranges = {"price": MapAttribute("low", (0, 4)), "rating": MapAttribute("high", (0, 5))}
            await food.put(ranges, (0, 0, 100, 100))
            first: list[Any] = [thing(n) for n in range(100)]
            model.put(*first)
            await food.put_objects(first)

            async def drain() -> None:
                async for _ in socket:
                    pass

            reading = asyncio.create_task(drain()) if over == "websocket" else None
            x, y = 50.0, 50.0
            async with food.moving_query(question, socket=socket if reading else None) as moving:
                for step in range(60):
                    x, y = x + draw.gauss(0, 0.3), y + draw.gauss(0, 0.3)
                    if step % 6 == 5:
                        one: Any = thing(draw.randint(0, 105))
                        model.put(one)
                        await food.put_objects([one])
                        while not right(await moving.move((x, y)), (x, y)):
                            await asyncio.sleep(0.005)
                    assert right(await moving.move((x, y)), (x, y))
                assert moving.saved > 0 and moving.live
                kept = moving.id
            assert kept not in [one.id async for one in food.queries()]
            if reading is not None:
                reading.cancel()

    asyncio.run(story())
