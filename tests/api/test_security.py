import pytest

from app.api.problems import from_error
from app.errors import ServiceError, Unauthorized
from app.security.callers import ANONYMOUS, NOBODY_ASKED
from app.security.door import DoorOpen, check_door
from app.security.keyring import Keyring, new_key
from app.security.scopes import Need
from app.security.tokens import Tokens
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
    assert Keyring().admit(None).id == ANONYMOUS


def test_a_known_key_within_its_scope_is_admitted() -> None:
    ring, secret, key_id = keyring("boards:read")
    for header in (f"Bearer {secret}", f"bearer  {secret}"):
        caller = ring.admit(header)
        assert caller.id == key_id
        ring.require(caller, Need("boards", "read"))


def test_admin_implies_all() -> None:
    ring, secret, _ = keyring("admin")
    ring.require(ring.admit(f"Bearer {secret}"), Need("feeds", "write"))


def test_publish_does_not_imply_read() -> None:
    ring, secret, _ = keyring("boards:publish")
    with pytest.raises(ServiceError) as refused:
        ring.require(ring.admit(f"Bearer {secret}"), Need("boards", "read"))
    assert from_error(refused.value).status_code == 403


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer rk_wrong", "Basic abc", "Bearer a b", "rk_x"])
def test_without_a_known_key_it_is_401(header: str | None) -> None:
    ring, _, _ = keyring("admin")
    with pytest.raises(ServiceError) as refused:
        ring.admit(header)
    assert from_error(refused.value).status_code == 401
    assert from_error(refused.value).headers == {"WWW-Authenticate": "Bearer"}


def test_deleting_a_key_notifies() -> None:
    ring, secret, key_id = keyring("admin")
    removed: list[str] = []
    ring.on_removed.append(removed.append)
    caller = ring.admit(f"Bearer {secret}")
    ring.add(new_key("second", ["admin"])[1])
    ring.remove(key_id)
    assert removed == [key_id]
    with pytest.raises(Unauthorized):
        ring.identify(secret)
    with pytest.raises(Unauthorized):
        ring.check(caller)


def test_the_first_key_ends_what_was_open_without_one() -> None:
    ring = Keyring()
    removed: list[str] = []
    ring.on_removed.append(removed.append)
    ring.add(new_key("first", ["admin"])[1])
    ring.add(new_key("second", ["admin"])[1])
    assert removed == [ANONYMOUS]
    with pytest.raises(Unauthorized):
        ring.check(NOBODY_ASKED)


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
    check_door(Settings(host="0.0.0.0"), Keyring(tokens=Tokens("secret", None, None)))
    check_door(Settings(host="0.0.0.0", allow_open=True), Keyring())
    with pytest.raises(DoorOpen, match=r"refusing to listen on 0\.0\.0\.0 without keys"):
        check_door(Settings(host="0.0.0.0"), Keyring())


def test_a_secret_that_is_no_text_is_unknown() -> None:
    ring, _, _ = keyring("admin")
    with pytest.raises(Unauthorized):
        ring.identify("\ud800")
