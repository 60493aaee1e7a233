from app.metrics import Metrics


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
