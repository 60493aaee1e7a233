import time

from app.runtime.metrics import Metrics


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
