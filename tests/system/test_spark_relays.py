"""Relays on a real Spark.

Rebuilt with the bytes of the service's own, and taken up while it serves, so that they forward the least.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from indexes.relays.commands import AddSubscriptions, DeleteSubscriptions, Rederive
from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.state import packed_of
from tests.recovery.helpers import known
from tests.spark.boards import contents
from tests.spark.relays import LINKS, NAMES, boxes, packed_here
from tests.spark.runtime import need_java
from tests.support.running import Running
from tests.support.service_fixtures import Start, _kernels_when_needed, make_client, start
from tests.unit.matchers.helpers import assert_same

__all__ = ["_kernels_when_needed", "make_client", "start"]

N = 600
MARKET, HUB = RelayConfig(NAMES), RelayConfig(NAMES, k=2, index="zorder", links=LINKS)
CONFIGS = {"market": MARKET, "hub": HUB}


class World:
    """A service with two relays."""

    def __init__(self, running: Running) -> None:
        self.running = running
        for seed, (name, config) in enumerate(CONFIGS.items()):
            self.write("put", name, config)
            self.add(name, seed, "s")
            self.write("submit", name, DeleteSubscriptions([f"s{i}" for i in range(3, N, 10)]))

    def add(self, name: str, seed: int, letter: str) -> None:
        """Subscriptions of which each of the links brings some."""
        links = [None, *CONFIGS[name].links]
        link = pa.array([links[i % len(links)] for i in range(N)], pa.string())
        keys = pa.array([f"{letter}{i}" for i in range(N)])
        self.write("submit", name, AddSubscriptions(keys, *boxes(seed, N, len(NAMES), 40), link))

    def write(self, how: str, name: str, what: Any) -> Any:
        """Write through the service's writer."""

        async def run() -> Any:
            return await getattr(self.running.service.relays, how)(name, what)

        return self.running.call(run)

    def engine(self, name: str) -> RelayEngine:
        found = self.running.service.relays.get(name)
        assert found is not None
        return found

    def forwards_the_least(self, name: str) -> bool:
        return all(told == smallest for told, smallest in known(self.engine(name)).values())


def test_relays_on_spark_are_those_of_the_service(start: Start, tmp_path: Path) -> None:
    need_java()
    running = start(spark_master="local[2]")
    world, data = World(running), tmp_path / "data"
    assert not any(world.forwards_the_least(name) for name in CONFIGS)

    # The service's own bytes are those of Spark.
    assert running.done("rebuilds", engine="local")["rows"] == 2 * (N - N // 10)
    lsn = running.lsns[0]
    image = data / "images" / str(lsn) / "relays" / "hub"
    own = contents(image)
    arrays = {"everything.arrow", *(f"{what}{i}.arrow" for what in ("index", "graph") for i in (0, 1))}
    assert own.keys() == arrays | {"manifest.json"}
    command = [sys.executable, "-m", "spark_jobs.rebuild.relays", "--storage", str(data), "--lsn", str(lsn)]
    command += ["--resource", "relays/hub", "--master", "local[2]", "--temp", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *steps, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (last, done.stderr[-4000:])
    assert "laying out the indexes" in {step["step"] for step in steps}
    assert last["rows"] == N - N // 10
    assert contents(image) == own
    assert [path.name for path in sorted(image.parent.iterdir())] == ["hub", "market"]

    # What has come since is forwarded by what was known then; after a rebuild on Spark it is the least again.
    for name in CONFIGS:
        assert world.forwards_the_least(name)
        world.add(name, 7, "t")
        assert not world.forwards_the_least(name)
        before, told = world.engine(name).relay, known(world.engine(name))
        detail = running.done("rebuilds", engine="spark", resources=[f"relays/{name}"])
        assert (detail["engine"], detail["rows"]) == ("spark", 2 * N - N // 10)
        lsn, taken = running.lsns[0], world.engine(name).relay
        assert taken is not before
        one = packed_here(data, name, tmp_path / name, lsn)
        assert contents(data / "images" / str(lsn) / "relays" / name) == contents(tmp_path / name)
        packed = running.service.snapshots.packed(lsn, f"relays/{name}")
        assert packed is not None
        assert_same(packed, packed_of(one))
        assert world.forwards_the_least(name)
        found = detail["rederived"][f"relays/{name}"]
        for to, (ids, smallest) in told.items():
            anew = found["links"][to] if to else found
            assert anew["unsubscribe_count"] == len(ids) - len(smallest) > 0
            assert anew["unsubscribe"] == [key for key in ids if key not in smallest][: len(anew["unsubscribe"])]
        world.engine(name).check()
        assert not any(anew.unsubscribe for anew in world.write("submit", name, Rederive()).rederived.values())
