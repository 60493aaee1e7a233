import pytest

from app.problems import Problem
from app.security import ANONYMOUS, DoorOpen, Keyring, check_door, new_key
from app.settings import Settings


def keyring(*scopes: str) -> tuple[Keyring, str, str]:
    secret, row = new_key("test", scopes)
    return Keyring([row]), secret, row.id


def test_a_key_is_shown_once_and_only_its_hash_kept() -> None:
    secret, row = new_key("ops", ["admin"])
    assert secret.startswith("rk_")
    assert len(secret) > 40
    assert secret not in repr(row)
    assert new_key("ops", ["admin"])[0] != secret


def test_without_keys_everyone_may_do_everything() -> None:
    assert Keyring().admit(None, "admin") == ANONYMOUS


def test_a_known_key_within_its_scope_is_admitted() -> None:
    ring, secret, key_id = keyring("boards:read")
    assert ring.admit(f"Bearer {secret}", "boards:read") == key_id
    assert ring.admit(f"bearer  {secret}", "boards:read") == key_id


def test_admin_implies_all() -> None:
    ring, secret, key_id = keyring("admin")
    assert ring.admit(f"Bearer {secret}", "feeds:write") == key_id


def test_write_does_not_imply_read() -> None:
    ring, secret, _ = keyring("boards:write")
    with pytest.raises(Problem) as refused:
        ring.admit(f"Bearer {secret}", "boards:read")
    assert refused.value.status_code == 403


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer rk_wrong", "Basic abc", "Bearer a b", "rk_x"])
def test_without_a_known_key_it_is_401(header: str | None) -> None:
    ring, _, _ = keyring("admin")
    with pytest.raises(Problem) as refused:
        ring.admit(header, "boards:read")
    assert refused.value.status_code == 401
    assert refused.value.headers == {"WWW-Authenticate": "Bearer"}


def test_deleting_a_key_is_told() -> None:
    ring, secret, key_id = keyring("admin")
    heard: list[str] = []
    ring.on_removed.append(heard.append)
    ring.add(new_key("second", ["admin"])[1])
    ring.remove(key_id)
    assert heard == [key_id]
    assert ring.identify(secret) is None
    assert not ring.allows(key_id, "boards:read")


def test_the_first_key_ends_what_was_open_without_one() -> None:
    ring = Keyring()
    heard: list[str] = []
    ring.on_removed.append(heard.append)
    ring.add(new_key("first", ["admin"])[1])
    ring.add(new_key("second", ["admin"])[1])
    assert heard == [ANONYMOUS]
    assert not ring.allows(ANONYMOUS, "boards:read")


def test_the_last_admin_is_known() -> None:
    ring, _, key_id = keyring("admin")
    _, reader = new_key("reader", ["boards:read"])
    ring.add(reader)
    assert ring.is_last_admin(key_id)
    assert not ring.is_last_admin(reader.id)


def test_an_open_door_stays_on_this_machine() -> None:
    ring, _, _ = keyring("admin")
    check_door(Settings(), Keyring())
    check_door(Settings(host="0.0.0.0"), ring)
    check_door(Settings(host="0.0.0.0", allow_open=True), Keyring())
    with pytest.raises(DoorOpen, match=r"refusing to listen on 0\.0\.0\.0 without keys"):
        check_door(Settings(host="0.0.0.0"), Keyring())


def test_a_secret_that_is_no_text_is_unknown() -> None:
    ring, _, _ = keyring("admin")
    assert ring.identify("\ud800") is None
