import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.api.problems import from_error
from app.errors import ServiceError
from app.runtime.metrics import Metrics
from app.write_path.jobs import Job, JobFailed, Jobs, Numbers, Report
from tests.support.patience import PATIENCE

LIMIT = PATIENCE
NEVER = 3600.0


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        await asyncio.wait_for(test(), LIMIT)

    asyncio.run(within())


async def nothing(report: Report) -> dict[str, Any]:
    return {}


class Gate:
    """A job that waits until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, report: Report) -> dict[str, Any]:
        self.begun.set()
        await self.go.wait()
        return {"went": True}


def test_jobs_run_one_at_a_time_in_the_order_asked() -> None:
    async def test() -> None:
        jobs, said = Jobs(Metrics()), []

        def named(name: str) -> Callable[[Report], Awaitable[dict[str, Any]]]:
            async def work(report: Report) -> dict[str, Any]:
                said.append(f"{name} begins")
                await asyncio.sleep(0)
                said.append(f"{name} ends")
                return {}

            return work

        submitted = [jobs.submit("snapshot", named(name)) for name in "abc"]
        assert [job.id for job in submitted] == ["j1", "j2", "j3"]
        assert [job.state for job in submitted] == ["queued"] * 3
        await jobs.wait("j3")
        assert said == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]
        assert [job.state for job in jobs] == ["succeeded"] * 3

    run(test)


def test_a_job_says_what_it_is_at_every_stage() -> None:
    async def test() -> None:
        jobs, gate = Jobs(Metrics()), Gate()
        job = jobs.submit("rebuild", gate)
        queued = {"job": "j1", "kind": "rebuild", "state": "queued", "progress": 0.0, "detail": {}}
        assert job.shown() == {**queued, "started": None, "ended": None}
        await gate.begun.wait()
        assert (job.shown()["state"], job.shown()["ended"]) == ("running", None)
        gate.go.set()
        await job.wait()
        shown = job.shown()
        assert (shown["state"], shown["progress"], shown["detail"]) == ("succeeded", 1.0, {"went": True})
        assert shown["started"] <= shown["ended"]
        assert shown["ended"].endswith("+00:00")

    run(test)


def test_a_failed_job_says_why_and_the_next_one_runs() -> None:
    async def refused(report: Report) -> dict[str, Any]:
        report(0.5, "looking")
        await asyncio.sleep(0)
        raise JobFailed("2 lists differ", {"compared": 7, "differences": ["a", "b"]})

    async def broken(report: Report) -> dict[str, Any]:
        raise RuntimeError("no such luck\nand more")

    async def not_json(report: Report) -> dict[str, Any]:
        return {"ratio": float("nan")}

    async def test() -> None:
        metrics = Metrics()
        jobs = Jobs(metrics)
        for kind in (refused, broken, not_json, nothing):
            jobs.submit("verify", kind)
        await jobs.wait("j4")
        shown = [(job.state, job.detail) for job in jobs]
        assert shown == [
            ("failed", {"error": "2 lists differ", "compared": 7, "differences": ["a", "b"]}),
            ("failed", {"error": "RuntimeError: no such luck"}),
            ("succeeded", {}),
            ("succeeded", {}),
        ]
        assert [job.progress for job in jobs] == [0.5, 0.0, 1.0, 1.0]
        text = metrics.render().decode()
        assert 'rankcast_jobs_total{kind="verify",state="failed"} 2.0' in text
        assert 'rankcast_jobs_total{kind="verify",state="succeeded"} 2.0' in text

    run(test)


def test_what_broke_a_job_is_logged_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    async def broken(report: Report) -> dict[str, Any]:
        raise RuntimeError("no such luck")

    async def test() -> None:
        jobs = Jobs(Metrics())
        jobs.submit("verify", broken)
        await jobs.wait("j1")

    run(test)
    said = capsys.readouterr()
    assert "in broken" in said.out + said.err


def test_progress_never_goes_back_and_ends_with_the_job() -> None:
    async def test() -> None:
        jobs, seen = Jobs(Metrics(), pause=0.0), []
        keep: list[Report] = []

        async def work(report: Report) -> dict[str, Any]:
            keep.append(report)
            for fraction in (0.2, 0.7, 0.4, float("nan"), -1.0, 2.0):
                report(fraction, f"at {fraction}")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            return {"rows": 3}

        job = jobs.submit("rebuild", work)
        job.watch(lambda: seen.append((job.progress, job.detail.get("step"))))
        await job.wait()
        assert [progress for progress, _ in seen] == [0.0, 0.2, 0.7, 0.7, 0.7, 0.7, 1.0, 1.0]
        assert [step for _, step in seen][1:3] == ["at 0.2", "at 0.7"]
        keep[0](0.5, "too late")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert job.detail == {"rows": 3}

    run(test)


def test_watchers_hear_of_the_beginning_and_the_end_and_little_between() -> None:
    async def test() -> None:
        jobs, seen = Jobs(Metrics(), pause=NEVER), []

        async def work(report: Report) -> dict[str, Any]:
            for n in range(1000):
                report(n / 1000, "on the way")
                await asyncio.sleep(0)
            return {}

        job = jobs.submit("rebuild", work)
        job.watch(lambda: seen.append((job.state, job.progress)))
        await job.wait()
        assert seen == [("running", 0.0), ("succeeded", 1.0)]

    run(test)


def test_what_was_held_back_is_told_when_the_pause_is_over() -> None:
    async def test() -> None:
        jobs, heard = Jobs(Metrics(), pause=0.01), asyncio.Event()
        gate = Gate()

        async def work(report: Report) -> dict[str, Any]:
            report(0.25, "first")
            report(0.5, "held back")
            return await gate(report)

        job = jobs.submit("rebuild", work)
        job.watch(lambda: heard.set() if job.progress == 0.5 else None)
        await heard.wait()
        assert job.state == "running"
        gate.go.set()
        await job.wait()

    run(test)


def test_one_who_stopped_watching_hears_no_more() -> None:
    async def test() -> None:
        jobs, gate, seen = Jobs(Metrics()), Gate(), []
        job = jobs.submit("rebuild", gate)
        stop = job.watch(lambda: seen.append(job.state))
        await gate.begun.wait()
        stop()
        stop()
        gate.go.set()
        await job.wait()
        assert seen == ["running"]

    run(test)


def test_threads_may_report() -> None:
    async def test() -> None:
        jobs, seen, main = Jobs(Metrics(), pause=0.0), [], threading.get_ident()

        def count(report: Report) -> None:
            for n in range(2000):
                report(n / 2000, "counting")

        async def work(report: Report) -> dict[str, Any]:
            await asyncio.gather(*(asyncio.to_thread(count, report) for _ in range(2)))
            return {}

        job = jobs.submit("rebuild", work)
        job.watch(lambda: seen.append((job.progress, threading.get_ident())))
        await job.wait()
        assert {thread for _, thread in seen} == {main}
        progress = [value for value, _ in seen]
        assert progress == sorted(progress)

    run(test)


def test_only_so_many_wait() -> None:
    async def test() -> None:
        jobs, gate = Jobs(Metrics(), waiting=2), Gate()
        jobs.submit("snapshot", gate)
        await gate.begun.wait()
        jobs.submit("snapshot", nothing)
        reserved = jobs.reserve("snapshot")
        with pytest.raises(ServiceError) as refusal:
            jobs.submit("snapshot", nothing)
        assert (from_error(refusal.value).status_code, refusal.value.detail) == (
            429,
            "2 jobs are waiting, which is the limit",
        )
        assert [job.id for job in jobs.open()] == ["j1", "j2"]
        jobs.withdraw(reserved)
        last = jobs.submit("snapshot", nothing)
        gate.go.set()
        await last.wait()
        assert [job.state for job in jobs] == ["succeeded"] * 3

    run(test)


def test_the_last_ended_jobs_are_kept_and_the_open_ones() -> None:
    async def test() -> None:
        jobs = Jobs(Metrics(), kept=3)
        for _ in range(12):
            await jobs.submit("snapshot", nothing).wait()
        gate = Gate()
        jobs.submit("snapshot", gate)
        await gate.begun.wait()
        assert [job.id for job in jobs] == ["j10", "j11", "j12", "j13"]
        assert jobs.get("j9") is None
        with pytest.raises(KeyError):
            await jobs.wait("j9")
        gate.go.set()
        await jobs.wait("j13")
        assert [job.id for job in jobs] == ["j11", "j12", "j13"]

    run(test)


def test_closing_cancels_what_runs_and_fails_what_waits() -> None:
    async def test() -> None:
        jobs, gate, cleaned = Jobs(Metrics()), Gate(), []

        async def work(report: Report) -> dict[str, Any]:
            try:
                return await gate(report)
            finally:
                await asyncio.sleep(0)
                cleaned.append(True)

        first, second = jobs.submit("snapshot", work), jobs.submit("snapshot", nothing)
        reserved = jobs.reserve("snapshot")
        await gate.begun.wait()
        await jobs.close()
        assert cleaned == [True]
        assert (first.state, first.detail) == ("failed", {"error": "the service ended while the job ran"})
        assert (second.state, second.detail) == ("failed", {"error": "the service ended before the job began"})
        with pytest.raises(ServiceError) as refusal:
            jobs.submit("snapshot", nothing)
        assert from_error(refusal.value).status_code == 503
        jobs.start(reserved, nothing)
        assert reserved.state == "failed"

    run(test)


def test_closing_does_not_wait_for_a_job_that_does_not_end() -> None:
    async def test() -> None:
        jobs, begun, let_go = Jobs(Metrics()), asyncio.Event(), asyncio.Event()

        async def stubborn(report: Report) -> dict[str, Any]:
            begun.set()
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return {}

        job = jobs.submit("snapshot", stubborn)
        await begun.wait()
        await jobs.close(seconds=0.01)
        await job.wait()
        assert (job.state, job.detail) == ("failed", {"error": "the service ended while the job ran"})
        let_go.set()

    run(test)


def test_a_queue_that_had_nothing_to_do_goes_on() -> None:
    async def test() -> None:
        jobs = Jobs(Metrics())
        for _ in range(3):
            job = jobs.submit("snapshot", nothing)
            await job.wait()
            await asyncio.sleep(0)
        assert [job.state for job in jobs] == ["succeeded"] * 3
        await jobs.close()

    run(test)


def test_open_jobs_are_counted() -> None:
    async def test() -> None:
        metrics = Metrics()
        jobs, gate = Jobs(metrics), Gate()
        jobs.submit("snapshot", gate)
        jobs.submit("snapshot", nothing)
        await gate.begun.wait()
        text = metrics.render().decode()
        assert 'rankcast_jobs_open{state="running"} 1.0' in text
        assert 'rankcast_jobs_open{state="queued"} 1.0' in text
        gate.go.set()
        await jobs.wait("j2")
        assert 'rankcast_jobs_open{state="running"} 0.0' in metrics.render().decode()

    run(test)


def test_numbers_are_given_once_also_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "JOBS"
    first = Numbers(file)
    assert [first.next(), first.next()] == [1, 2]
    assert Numbers(file).next() == 3
    assert [path.name for path in tmp_path.iterdir()] == ["JOBS"]


def test_numbers_that_cannot_be_kept_are_given_all_the_same(tmp_path: Path) -> None:
    assert Numbers(tmp_path / "missing" / "JOBS").next() == 1
    (tmp_path / "JOBS").write_bytes(b"\xff\xfe")
    assert Numbers(tmp_path / "JOBS").next() == 1


def test_what_is_shown_is_json() -> None:
    async def test() -> None:
        job = Job(1, "snapshot")
        job.begin()
        job.advance(1 / 3, "writing")
        assert json.loads(json.dumps(job.shown()))["progress"] == 0.3333

    run(test)


def test_a_job_says_how_far_the_kernels_are_that_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.write_path.jobs.LOOK_SECONDS", 0.0)

    async def test() -> None:
        ready, share, gate = asyncio.Event(), 0.25, Gate()

        async def wait() -> None:
            await ready.wait()

        jobs = Jobs(Metrics(), ready=wait, compiled=lambda: share, pause=0.0)
        job = jobs.submit("snapshot", gate)
        for share in (0.25, 0.5):
            while job.detail != {"step": "waiting for kernels", "kernels": share}:
                await asyncio.sleep(0)
            assert (job.state, job.progress) == ("running", 0.0)
        ready.set()
        await gate.begun.wait()
        assert job.detail == {"step": "beginning"}
        gate.go.set()
        await jobs.wait(job.id)
        assert job.detail == {"went": True}

    run(test)


def test_a_job_that_waits_for_no_kernels_does_not_say_so() -> None:
    async def test() -> None:
        seen: list[dict[str, Any]] = []

        async def ready() -> None:
            return None

        jobs = Jobs(Metrics(), ready=ready, pause=0.0)
        job = jobs.submit("snapshot", nothing)
        job.watch(lambda: seen.append(job.detail))
        await jobs.wait(job.id)
        assert not [detail for detail in seen if "kernels" in detail]

    run(test)
