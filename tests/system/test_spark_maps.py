"""Maps on a real Spark.

Packed with the bytes of the service's own and taken up while it serves; and clients followed on their ways, with the
answers that the service gives.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from formats.folder import Folder
from formats.maps import read_state
from indexes.maps.engine import MapEngine
from tests.spark import walks
from tests.spark.boards import contents
from tests.spark.runtime import need_java
from tests.support.running import Running
from tests.support.service_fixtures import Start, _kernels_when_needed, make_client, start

__all__ = ["_kernels_when_needed", "make_client", "start"]

N = 1_000
FOOD = {
    "attributes": {"price": {"order": "low", "range": [0, 4]}, "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 8, 8],
}


class World:
    """A service with a map of which a tenth of the objects is gone again and some have moved."""

    def __init__(self, running: Running) -> None:
        self.running = running
        rng = np.random.default_rng(4)
        self.send("put", "", FOOD, 201)
        ids = [f"o{i}" for i in rng.permutation(N)]
        for some in (ids, ids[::20]):
            places, values = rng.integers(0, 33, (len(some), 2)) / 4, rng.integers(0, 5, (len(some), 2))
            rows = zip(some, places.tolist(), values.tolist(), strict=True)
            objects = [
                {"id": id, "location": at, "values": {"price": price, "rating": rating}}
                for id, at, (price, rating) in rows
            ]
            self.send("post", "/objects", {"objects": objects}, 200)
        self.send("post", "/objects/delete", {"ids": ids[3::10]}, 200)

    def send(self, how: str, what: str, body: Any, status: int) -> Any:
        answer = self.running.client.request(how, f"/v1/maps/food{what}", json=body)
        assert answer.status_code in (status, 201), answer.text
        return answer.json()

    @property
    def engine(self) -> MapEngine:
        found = self.running.service.maps.get("food")
        assert found is not None
        return found

    def top(self, places: list[list[float]]) -> list[list[dict[str, Any]]]:
        """What the service answers at these places."""
        body = {"locations": places, **{name: walks.TOP[name] for name in ("k", "m", "score")}}
        found = self.send("post", "/top", body, 200)["results"]
        return [[{name: one[name] for name in ("id", "distance", "score")} for one in row["list"]] for row in found]


def test_maps_on_spark_are_those_of_the_service(start: Start, tmp_path: Path) -> None:
    need_java()
    running = start(spark_master="local[2]")
    world, data = World(running), tmp_path / "data"
    places = np.random.default_rng(5).uniform(0, 8, (20, 2)).tolist()
    expected = world.top(places)

    # The service's own bytes are those of Spark, which it takes up.
    assert running.done("rebuilds", engine="local")["rows"] == N - N // 10
    lsn = running.lsns[0]
    image = data / "images" / str(lsn) / "maps" / "food"
    own = contents(image)
    assert own.keys() == {"objects.arrow", "manifest.json"}
    before = world.engine.table.index
    detail = running.done("rebuilds", engine="spark", resources=["maps/food"])
    assert (detail["engine"], detail["rows"]) == ("spark", N - N // 10)
    assert contents(image) == own
    assert [path.name for path in image.parent.iterdir()] == ["food"]
    assert world.engine.table.index is not before
    world.engine.check()
    assert world.top(places) == expected

    # Clients have the service's answers on their ways.
    points = walks.trajectories(6, 8, 30)
    pq.write_table(points, tmp_path / "points.parquet", row_group_size=100)
    command = [sys.executable, "-m", "spark_jobs.history.trajectories", "--storage", str(data), "--lsn", str(lsn)]
    command += ["--resource", "maps/food", "--master", "local[2]", "--question", json.dumps(walks.TOP)]
    command += ["--points", str(tmp_path / "points.parquet"), "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *steps, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (last, done.stderr[-4000:])
    assert [line["progress"] for line in steps] == sorted(line["progress"] for line in steps)
    assert "following the clients" in {line["step"] for line in steps}
    assert "laying out the indexes" not in {line["step"] for line in steps}
    found = pq.read_table(tmp_path / "out")
    folder = Folder.at(data / "snapshots" / str(lsn))
    state = read_state(folder, "food", folder.manifest()["resources"]["maps/food"])
    assert walks.check(state, walks.TOP, points, found) > 20
    rows = found.to_pylist()
    assert [row["answer"] for row in rows] == world.top([[row["x"], row["y"]] for row in rows])
    said = json.loads((tmp_path / "out" / "_SUCCESS").read_text())
    assert (said["clients"], said["points"], said["changes"]) == (8, len(points), len(rows))
    assert said["question"]["k"] == 3 and 0 < said["searches"] < len(points)
    assert {name: last[name] for name in ("clients", "points", "changes", "searches", "seq")} == {
        name: said[name] for name in ("clients", "points", "changes", "searches", "seq")
    }
