"""The client and the commands against a live service, as a user has them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.demo import verify as proof
from app.demo.flights import load_arrivals
from app.demo.process import running
from rankcast_client import AsyncRankcast, Change, Entry, Rankcast, Reset, delete, update, upsert
from rankcast_client.models import Pair
from tests.conftest import LiveService, StartService, free_port

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "client.md"
COMMAND = [sys.executable, "-c", "from app.cli import main; main()"]


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
        command, env=environment, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_examples_of_the_documentation_run(service: LiveService) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.M | re.S)
    assert len(examples) == 5
    for example in examples:
        text = example.replace("http://127.0.0.1:8000", service.url)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
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


def test_a_list_outlives_kill_9_of_the_service(start_service: StartService) -> None:
    first = start_service()
    port = int(first.url.rsplit(":", 1)[1])

    async def run() -> None:
        async with AsyncRankcast(first.url) as client, client.socket() as socket, asyncio.timeout(200):
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
    top = rankcast("top", "arcade", "--range", "-5:", "-k", "2", url=service.url)
    assert top.stdout == '1\tada\t1\t12\t{"city":"London"}\n'


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
            assert watching.wait(30) == 0
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
        done = rankcast(command, "--port", str(port), "--data", str(tmp_path))
    assert done.returncode == 1
    assert str(port) in done.stderr.splitlines()[-1]


def test_the_demo_plays_and_ends_with_a_signal(tmp_path: Path) -> None:
    port = free_port()
    output = tmp_path / "output"
    command = [*COMMAND, "demo", "--port", str(port), "--data", str(tmp_path / "data"), "--speed", "5"]
    with output.open("wb") as written:
        demo = subprocess.Popen(command, stdout=written, stderr=written)
    try:
        with Rankcast(f"http://127.0.0.1:{port}") as client:
            end = time.monotonic() + 120
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
        assert demo.wait(60) == 0
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
