"""A board's events on a real Spark, killed on the way: each zone gets the tiles of the service's publisher, once."""

from __future__ import annotations

from pathlib import Path

from tests.spark.process import JobProcess
from tests.spark.runtime import need_java
from tests.spark.zones import ZonedService, disseminated
from tests.support.patience import PATIENCE, wait_until


def job_of(data: Path, work: Path) -> JobProcess:
    """The job over the log of a data directory."""
    where = ("--checkpoint", work / "checkpoint", "--output", work / "tiles")
    sizes = ("--rows", 8, "--base-every", 2)
    return JobProcess("spark_jobs.dissemination", "--storage", data, "--resource", "boards/delays", *where, *sizes)


def test_a_job_that_was_killed_goes_on_and_no_tiles_come_twice(tmp_path: Path) -> None:
    need_java()
    service, data, work = ZonedService(11, "dense"), tmp_path / "data", tmp_path / "work"
    service.run(18)
    service.write_log(data)
    job = job_of(data, work)
    try:
        wait_until(lambda: job.process.poll() is not None or any((work / "tiles").glob("version=*/zone=*/*.parquet")))
        assert job.process.poll() is None, job.process.communicate()[1][-4000:]
    finally:
        job.kill()
    found, _ = disseminated(work / "tiles")
    expected = service.published()
    assert 0 < len(found) < len(expected)
    last = job_of(data, work).end(4 * PATIENCE)
    found, reached = disseminated(work / "tiles")
    assert found == expected
    assert {seq: count for seq, count in reached.items() if count and seq in service.affected} == {
        seq: count for seq, count in service.affected.items() if count
    }
    assert last["messages"] == len(expected) and last["parts"] == 3 and last["seq"] == service.engine.seq
    assert sum(last["subscriptions"]) == len(service.world.asks)
