from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient


def test_a_started_service_lives_and_is_ready(client: AppClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    answer = client.get("/readyz")
    assert answer.status_code == 200
    every = dict.fromkeys(("boards", "feeds", "maps", "matchers", "relays"), 1.0)
    found = answer.json()
    node, epoch = found.pop("node"), found.pop("epoch")
    assert node and epoch
    alone = {"role": "leader", "lsn": 0, "durable": 0, "lag": {"rows": 0, "seconds": 0.0}, "term": 0}
    assert found == {"ready": True, "warm": 1.0, "resources": every, "compiling": None, "failed": [], **alone}


def test_a_load_balancer_may_look_with_head(client: AppClient) -> None:
    for path in ("/healthz", "/readyz"):
        assert client.head(path).status_code == 200


def test_health_is_told_without_a_key_and_metrics_are_not(make_client: MakeClient) -> None:
    client = make_client()
    key = client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"]}).json()["key"]
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert client.get("/metrics").status_code == 401
    answer = client.get("/metrics", headers={"authorization": f"Bearer {key}"})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'rankcast_requests_total{method="POST",route="/v1/admin/keys",status="200"} 1.0' in answer.text
