import time
from typing import Any

import jwt
import pytest

from app.errors import Forbidden, TooMany, Unauthorized
from app.security import tickets as module
from app.security.callers import ANONYMOUS, NOBODY_ASKED, Caller
from app.security.keyring import Keyring, new_key
from app.security.scopes import Grants, Need
from app.security.tickets import Tickets
from app.security.tokens import Tokens

SIGNS = "0123456789abcdef0123456789abcdef"
PUBLISH = Need("boards", "publish", "delays")


def test_without_keys_nobody_is_asked() -> None:
    ring = Keyring()
    assert ring.open and ring.admit(None) is NOBODY_ASKED
    ring.require(NOBODY_ASKED, PUBLISH)
    assert not Keyring(tokens=Tokens(SIGNS, None, None)).open


def test_a_key_lets_in_whom_it_was_given() -> None:
    secret, row = new_key("ops", ["boards/delays:publish"])
    ring = Keyring([row])
    caller = ring.admit(f"Bearer {secret}")
    ring.require(caller, PUBLISH)
    with pytest.raises(Forbidden):
        ring.require(caller, Need("boards", "write", "delays"))
    for header in (None, "", "Bearer", f"Basic {secret}", f"Bearer {secret}x", f"Bearer {secret} x"):
        with pytest.raises(Unauthorized):
            ring.admit(header)
    with pytest.raises(Unauthorized):
        ring.check(NOBODY_ASKED)


def test_a_key_that_expires_is_as_one_that_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    secret, row = new_key("ops", ["admin"], seconds=60)
    forever = new_key("all", ["admin"])[1]
    ring = Keyring([row, forever])
    caller = ring.admit(f"Bearer {secret}")
    assert ring.is_last_admin(forever.id), "one that expires does not count"
    assert not ring.is_last_admin(row.id)
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(Unauthorized):
        ring.admit(f"Bearer {secret}")
    with pytest.raises(Unauthorized):
        ring.check(caller)


def test_a_deleted_key_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    secret, row = new_key("ops", ["admin"])
    ring = Keyring()
    removed: list[str] = []
    ring.on_removed.append(removed.append)
    ring.add(row)
    caller = ring.admit(f"Bearer {secret}")
    ring.remove(row.id)
    assert removed == [ANONYMOUS, row.id]
    with pytest.raises(Unauthorized):
        ring.check(caller)


def test_tokens_and_keys_go_together() -> None:
    secret, row = new_key("ops", ["admin"])
    ring = Keyring([row], Tokens(SIGNS, None, None))
    text = jwt.encode({"exp": time.time() + 60, "scope": "boards/delays:publish"}, SIGNS, "HS256")
    ring.require(ring.admit(f"bearer {text}"), PUBLISH)
    assert ring.admit(f"Bearer {secret}").id == row.id
    with pytest.raises(Unauthorized):
        Keyring([row]).admit(f"Bearer {text}")


def test_a_prefix_hides_what_does_not_begin_with_it() -> None:
    caller = Caller("t1", Grants(["boards:subscribe"]), "u42.")
    caller.require_id("u42.mine")
    with pytest.raises(Forbidden):
        caller.require_id("u4")
    with pytest.raises(Forbidden):
        caller.require_whole()
    Caller("t1", Grants([])).require_whole()


def test_a_ticket_opens_what_it_was_made_for(monkeypatch: Any) -> None:
    now = [1_000.0]
    tickets = Tickets(lambda: now[0])
    caller = Caller("t1", Grants(["boards:read"]), "u", expires=1_030.0)
    secret, ticket = tickets.issue("boards/delays", frozenset({"u1", "v1"}), caller, 60)
    assert tickets.find(secret) is ticket and ticket.expires == 1_030.0
    assert ticket.opens("boards/delays", "u1")
    assert not ticket.opens("boards/delays", "v1"), "outside the prefix of who asked"
    assert not ticket.opens("boards/delays", "u2")
    assert not ticket.opens("boards/other", "u1")
    _, every = tickets.issue("boards/delays", None, NOBODY_ASKED, 60)
    assert every.opens("boards/delays", "anything") and every.expires == 1_060.0
    for wrong in ("", secret + "x", "\ud800"):
        with pytest.raises(Unauthorized):
            tickets.find(wrong)
    now[0] = 1_030.0
    with pytest.raises(Unauthorized):
        tickets.find(secret)
    monkeypatch.setattr(module, "MOST_TICKETS", 2)
    tickets.issue("boards/delays", None, NOBODY_ASKED, 60)
    with pytest.raises(TooMany):
        tickets.issue("boards/delays", None, NOBODY_ASKED, 60)
