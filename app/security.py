"""API keys and scopes: who may do what, and whether the door is open.

A key is ``rk_`` and 32 random bytes; only its SHA-256 is kept, which is enough for a secret of that size. Without any
key the door is open, and the guard and the command line see to it that only this machine can reach it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from app.problems import Problem
from app.settings import Settings
from app.storage.keys import KeyRow

ADMIN = "admin"
ANONYMOUS = ""
ANY = ""
ScopeName = Literal[
    "admin",
    "boards:read",
    "boards:write",
    "matchers:read",
    "matchers:write",
    "relays:read",
    "relays:write",
    "maps:read",
    "maps:write",
    "feeds:read",
    "feeds:write",
]
SCOPES: tuple[str, ...] = get_args(ScopeName)

_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]+) *")


class DoorOpen(Exception):
    """The service was asked to listen beyond this machine although it has no keys."""


def new_key(name: str, scopes: Iterable[str], now: float | None = None) -> tuple[str, KeyRow]:
    """A fresh key, to be shown once, and what to store of it."""
    key = "rk_" + secrets.token_urlsafe(32)
    created = time.time() if now is None else now
    row = KeyRow("k" + secrets.token_hex(6), name, tuple(dict.fromkeys(scopes)), _digest(key), created)
    return key, row


class Keyring:
    """The keys in use. `on_removed` hears the id of a deleted key, and `ANONYMOUS` when the door closes."""

    def __init__(self, keys: Iterable[KeyRow] = ()) -> None:
        self.on_removed: list[Callable[[str], None]] = []
        self._by_id: dict[str, KeyRow] = {}
        self._by_hash: dict[bytes, KeyRow] = {}
        self.load(keys)

    def __iter__(self) -> Iterator[KeyRow]:
        return iter([self._by_id[key_id] for key_id in sorted(self._by_id)])

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def open(self) -> bool:
        """Whether there are no keys, so that none is asked for."""
        return not self._by_id

    def load(self, keys: Iterable[KeyRow]) -> None:
        """Take over stored keys."""
        for key in keys:
            self._by_id[key.id] = key
            self._by_hash[key.hash] = key

    def get(self, key_id: str) -> KeyRow | None:
        """The key of an id."""
        return self._by_id.get(key_id)

    def add(self, key: KeyRow) -> None:
        """Admit a key. The first one closes the door."""
        was_open = self.open
        self.load([key])
        if was_open:
            self._tell(ANONYMOUS)

    def remove(self, key_id: str) -> None:
        """Shut out a key and end what it has open."""
        key = self._by_id.pop(key_id)
        del self._by_hash[key.hash]
        self._tell(key_id)

    def is_last_admin(self, key_id: str) -> bool:
        """Whether no other key has ``admin``."""
        return not any(ADMIN in key.scopes for key in self._by_id.values() if key.id != key_id)

    def identify(self, secret: str) -> KeyRow | None:
        """The key that a secret belongs to."""
        digest = _digest(secret)
        found = self._by_hash.get(digest)
        return found if found is not None and hmac.compare_digest(found.hash, digest) else None

    def allows(self, key_id: str, scope: str) -> bool:
        """Whether a caller, `ANONYMOUS` or a key's id, may do what needs `scope`. Deleted keys may do nothing."""
        if self.open:
            return True
        key = self._by_id.get(key_id)
        return key is not None and (scope in key.scopes or ADMIN in key.scopes)

    def admit(self, authorization: str | None, scope: str) -> str:
        """The id of the key in an Authorization header, `ANONYMOUS` while the door is open.

        Raises the problem 401 without a known key and 403 when its scopes do not include `scope`; `ANY` asks for none.
        """
        if not self._by_id:
            return ANONYMOUS
        match = _BEARER.fullmatch(authorization or "")
        key = self.identify(match[1]) if match else None
        if key is None:
            reason = "the key is not known" if match else "send Authorization: Bearer <key>"
            raise Problem("unauthorized", reason, headers={"WWW-Authenticate": "Bearer"})
        if scope != ANY and scope not in key.scopes and ADMIN not in key.scopes:
            raise Problem("forbidden", f"the key does not have the scope {scope}")
        return key.id

    def _tell(self, key_id: str) -> None:
        for hook in self.on_removed:
            hook(key_id)


def check_door(settings: Settings, keyring: Keyring) -> None:
    """Refuse, with `DoorOpen`, to listen beyond this machine without keys, unless told to."""
    if keyring.open and not settings.loopback and not settings.allow_open:
        raise DoorOpen(
            f"refusing to listen on {settings.host} without keys: anyone who reaches it could do everything. "
            "Make a key first (rankcast keys create --name admin --scope admin), or listen on 127.0.0.1, "
            "or pass --allow-open"
        )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
