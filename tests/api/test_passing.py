"""What a leader answers to requests that a replica passed on."""

from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient

PASSED = {"rankcast-passed": "http"}
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]}


def test_an_answer_says_how_far_the_log_is(client: AppClient) -> None:
    first = client.put("/v1/boards/b", json=BOARD, headers=PASSED)
    again = client.put("/v1/boards/b/objects/a", json={"values": {"x": 1, "y": 2}}, headers=PASSED)
    assert [first.status_code, again.status_code] == [201, 201]
    assert int(again.headers["rankcast-lsn"]) > int(first.headers["rankcast-lsn"]) > 0
    assert "rankcast-lsn" not in client.put("/v1/boards/b", json=BOARD).headers


def test_who_is_refused_learns_nothing_of_the_log(make_client: MakeClient) -> None:
    client = make_client()
    key = client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"]}).json()["key"]
    admin = {"authorization": f"Bearer {key}", **PASSED}
    for answer in (
        client.put("/v1/boards/b", json=BOARD, headers=PASSED),
        client.put("/v1/boards/b", json={"range_attributes": []}, headers=admin),
    ):
        assert answer.status_code in (401, 422) and "rankcast-lsn" not in answer.headers


def test_nodes_ask_each_other_as_administrators_alone(make_client: MakeClient) -> None:
    client = make_client()
    key = client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"]}).json()["key"]
    made = {"name": "b", "scopes": ["boards:write"]}
    other = client.post("/v1/admin/keys", json=made, headers={"authorization": f"Bearer {key}"}).json()["key"]
    for method, path in (
        ("GET", "/v1/admin/log?after=0&checksum=&node=n"),
        ("GET", "/v1/admin/log/1"),
        ("POST", "/v1/admin/log/progress"),
        ("POST", "/v1/admin/replicas/handover"),
        ("POST", "/v1/admin/replicas/term"),
        ("GET", "/v1/admin/snapshots/newest"),
        ("GET", "/v1/admin/snapshots/1/file?name=snapshots/1/keys"),
        ("POST", "/v1/admin/promote"),
        ("GET", "/v1/admin/replicas"),
    ):
        statuses = [
            client.request(method, path, headers=headers, json={} if method == "POST" else None).status_code
            for headers in ({}, {"authorization": f"Bearer {other}"})
        ]
        assert statuses == [401, 403], path
