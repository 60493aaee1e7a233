from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from app.storage import open_stores
from tests.support.app_client import AppClient
from tests.support.service_fixtures import URL, MakeClient

KEYS = "/v1/admin/keys"


def create(client: AppClient, *scopes: str, key: str | None = None, **headers: str) -> dict[str, str]:
    headers = {**headers, **({"authorization": f"Bearer {key}"} if key else {})}
    answer = client.post(KEYS, json={"name": "n", "scopes": list(scopes)}, headers=headers)
    assert answer.status_code == 200, answer.text
    made: dict[str, str] = answer.json()
    return made


def as_key(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_the_first_key_closes_the_door(client: AppClient) -> None:
    assert client.get(KEYS).json() == {"items": [], "next": None}
    made = create(client, "admin")
    assert client.get(KEYS).status_code == 401
    items = client.get(KEYS, headers=as_key(made["key"])).json()["items"]
    assert [(one["id"], one["name"], one["scopes"]) for one in items] == [(made["id"], "n", ["admin"])]
    assert made["key"] not in str(items)


def test_the_first_key_must_have_admin(client: AppClient) -> None:
    answer = client.post(KEYS, json={"name": "n", "scopes": ["boards:read"]})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": "scopes", "reason": "the first key must have admin"}]
    assert client.get(KEYS).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "n", "scopes": ["boards:fly"]}, "scopes[0]"),
        ({"name": "n", "scopes": []}, "scopes"),
        ({"name": "", "scopes": ["admin"]}, "name"),
        ({"name": "a\0b", "scopes": ["admin"]}, "name"),
        ({"scopes": ["admin"]}, "name"),
        ({"name": "n", "scopes": ["admin"], "more": 1}, "more"),
    ],
)
def test_a_bad_key_is_refused_by_field(client: AppClient, body: dict[str, object], field: str) -> None:
    answer = client.post(KEYS, json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_an_unknown_parameter_is_refused(client: AppClient) -> None:
    made = client.post(f"{KEYS}?more=1", json={"name": "n", "scopes": ["admin"]})
    deleted = client.delete(f"{KEYS}/k1?more=1")
    for answer in (made, deleted):
        assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (422, ["more"])
    assert client.get(KEYS).json()["items"] == []


def test_keys_are_for_admins(client: AppClient) -> None:
    admin = create(client, "admin")["key"]
    reader = create(client, "boards:read", key=admin)["key"]
    assert client.get(KEYS, headers=as_key(reader)).status_code == 403


def test_the_last_admin_stays(client: AppClient) -> None:
    first = create(client, "admin")
    headers = as_key(first["key"])
    reader = create(client, "boards:read", key=first["key"])
    assert client.delete(f"{KEYS}/{reader['id']}", headers=headers).json() == {"id": reader["id"]}
    assert client.delete(f"{KEYS}/{reader['id']}", headers=headers).status_code == 404
    answer = client.delete(f"{KEYS}/{first['id']}", headers=headers)
    assert answer.status_code == 409
    assert answer.json()["type"] == "/problems/last-admin"
    create(client, "admin", key=first["key"])
    assert client.delete(f"{KEYS}/{first['id']}", headers=headers).status_code == 200
    assert client.get(KEYS, headers=headers).status_code == 401


def test_keys_come_in_pages(client: AppClient) -> None:
    admin = create(client, "admin")["key"]
    for _ in range(4):
        create(client, "boards:read", key=admin)
    found, cursor = [], ""
    while True:
        page = client.get(f"{KEYS}?limit=2{cursor}", headers=as_key(admin)).json()
        found += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert len(found) == 5
    assert found == sorted(found)


def test_a_replay_makes_no_second_key_and_shows_none(client: AppClient) -> None:
    admin = create(client, "admin")["key"]
    first = create(client, "boards:read", key=admin, **{"idempotency-key": "once"})
    again = create(client, "boards:read", key=admin, **{"idempotency-key": "once"})
    assert again == {**{k: v for k, v in first.items() if k != "key"}, "replayed": True}
    other = client.post(
        KEYS, json={"name": "x", "scopes": ["admin"]}, headers={**as_key(admin), "idempotency-key": "once"}
    )
    assert other.status_code == 422
    assert other.json()["errors"][0]["field"] == "Idempotency-Key"
    assert len(client.get(KEYS, headers=as_key(admin)).json()["items"]) == 2


def test_keys_outlive_the_service(make_client: MakeClient, tmp_path: Path) -> None:
    with AppClient(create_app(Settings(data=tmp_path / "data")), base_url=URL) as client:
        key = create(client, "admin")["key"]
    stores = open_stores(tmp_path / "data")
    assert len(stores.keys.all()) == 1
    stores.close()
    assert make_client().get(KEYS, headers=as_key(key)).status_code == 200
