import re
import time

from app.runtime.metrics import COUNTED_TOGETHER, Metrics
from tests.support.asker import BOARD
from tests.support.one_turn import Asked, Door, in_one_turn, request
from tests.support.service_fixtures import Start


def test_each_service_counts_for_itself() -> None:
    one, other = Metrics(), Metrics()
    one.observe("GET", "/v1/boards", 200, 0.002)
    line = 'rankcast_requests_total{method="GET",route="/v1/boards",status="200"} 1.0'
    assert line in one.render().decode()
    assert line not in other.render().decode()


def test_made_up_methods_share_a_label() -> None:
    metrics = Metrics()
    for method in ("BREW", "STIR"):
        metrics.observe(method, "unmatched", 405, None)
    text = metrics.render().decode()
    assert 'rankcast_requests_total{method="other",route="unmatched",status="405"} 2.0' in text
    assert "BREW" not in text


def test_a_gauge_is_asked_at_each_scrape() -> None:
    metrics = Metrics()
    sizes = {"delays": 3.0}
    metrics.gauge("rankcast_board_objects", "Objects of a board.", "board", lambda: sizes)
    assert 'rankcast_board_objects{board="delays"} 3.0' in metrics.render().decode()
    sizes["delays"] = 4.0
    assert 'rankcast_board_objects{board="delays"} 4.0' in metrics.render().decode()


def test_the_newest_snapshot_is_told_once_there_is_one() -> None:
    metrics = Metrics()
    assert "rankcast_snapshot" not in metrics.render().decode()
    metrics.snapshot_taken(7, time.time() - 100)
    text = metrics.render().decode()
    assert "rankcast_snapshot_lsn 7.0" in text
    assert "rankcast_snapshot_seconds" not in text
    age = next(line.split()[1] for line in text.splitlines() if line.startswith("rankcast_snapshot_age_seconds"))
    assert float(age) >= 100
    metrics.snapshot_taken(9, time.time(), 1.5)
    assert "rankcast_snapshot_seconds 1.5" in metrics.render().decode()


def test_requests_are_counted_by_status_and_timed_by_route() -> None:
    metrics = Metrics()
    for method, status, seconds in (("PUT", 200, 0.003), ("PUT", 404, 0.5), ("PUT", 200, None), ("BREW", 404, 99.0)):
        metrics.observe(method, "/a", status, seconds)
    lines = metrics.render().decode().splitlines()
    assert 'rankcast_requests_total{method="PUT",route="/a",status="200"} 2.0' in lines
    assert 'rankcast_requests_total{method="other",route="/a",status="404"} 1.0' in lines
    for bound, count in (("0.0025", 0), ("0.005", 1), ("0.5", 2), ("60.0", 2), ("+Inf", 2)):
        assert f'rankcast_request_seconds_bucket{{le="{bound}",method="PUT",route="/a"}} {count}.0' in lines
    assert 'rankcast_request_seconds_bucket{le="60.0",method="other",route="/a"} 0.0' in lines
    assert 'rankcast_request_seconds_sum{method="PUT",route="/a"} 0.503' in lines


def test_whoever_reads_metrics_finds_every_write_that_was_answered(start: Start) -> None:
    """Whether it came alone, and is counted with later ones unless somebody reads, or in a group."""
    service = start()
    service.client.put("/v1/boards/b", json=BOARD).raise_for_status()
    names = {
        "commands": "rankcast_group_size_sum",
        "commits": "rankcast_commit_seconds_count",
        "applied": "rankcast_delivery_seconds_count",
        "changes": 'rankcast_changes_total{command="Events",resource="boards/b"}',
        "requests": 'rankcast_requests_total{method="PUT",route="/v1/boards/{board}/objects/{id}",status="200"}',
    }

    def shown() -> dict[str, float]:
        text = service.client.get("/metrics").text
        found = {what: re.search(rf"^{re.escape(name)} (\S+)$", text, re.M) for what, name in names.items()}
        return {what: float(match[1]) if match else 0.0 for what, match in found.items()}

    async def put(together: int) -> None:
        path = "/v1/boards/b/objects/{}?messages=none"
        window = [Asked(request("PUT", path.format(i), b'{"values":{"x":1,"y":2}}')) for i in range(together)]
        await in_one_turn(Door(service), window)

    service.call(put, 3)
    before = shown()
    alone = 0
    for writes in (1, COUNTED_TOGETHER - 1, COUNTED_TOGETHER, 2 * COUNTED_TOGETHER + 3):
        for _ in range(writes):
            service.call(put, 1)
        alone += writes
        assert shown() == {what: count + alone for what, count in before.items()}
    service.call(put, 1)
    service.call(put, 3)
    after = shown()
    assert after["changes"] == before["changes"] + alone + 4
    assert after["requests"] == before["requests"] + alone + 4
