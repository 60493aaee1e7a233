"""A board's events on a real Spark, killed on the way: each zone gets the tiles of the service's publisher, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.spark.runtime import need_java
from tests.spark.zones import ZonedService, disseminated
from tests.support.patience import PATIENCE, wait_until


class Job:
    """The job as a process of its own, and all that it starts."""

    def __init__(self, data: Path, work: Path) -> None:
        command = [sys.executable, "-m", "spark_jobs.dissemination", "--storage", str(data)]
        command += ["--resource", "boards/delays", "--checkpoint", str(work / "checkpoint")]
        command += ["--output", str(work / "tiles"), "--rows", "8", "--base-every", "2", "--master", "local[2]"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def end(self) -> dict[str, Any]:
        """Its last line."""
        out, err = self.process.communicate(timeout=4 * PATIENCE)
        assert self.process.returncode == 0, (out, err[-4000:])
        last: dict[str, Any] = json.loads(out.splitlines()[-1])
        return last

    def kill(self) -> None:
        """It and Spark's Java at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def test_a_job_that_was_killed_goes_on_and_no_tiles_come_twice(tmp_path: Path) -> None:
    need_java()
    service, data, work = ZonedService(11, "dense"), tmp_path / "data", tmp_path / "work"
    service.run(18)
    service.write_log(data)
    job = Job(data, work)
    try:
        wait_until(lambda: job.process.poll() is not None or any((work / "tiles").glob("version=*/zone=*/*.parquet")))
        assert job.process.poll() is None, job.process.communicate()[1][-4000:]
    finally:
        job.kill()
    found, _ = disseminated(work / "tiles")
    expected = service.published()
    assert 0 < len(found) < len(expected)
    last = Job(data, work).end()
    found, reached = disseminated(work / "tiles")
    assert found == expected
    assert {seq: count for seq, count in reached.items() if count and seq in service.affected} == {
        seq: count for seq, count in service.affected.items() if count
    }
    assert last["messages"] == len(expected) and last["parts"] == 3 and last["seq"] == service.engine.seq
    assert sum(last["subscriptions"]) == len(service.world.asks)
