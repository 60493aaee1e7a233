"""API keys, and the ring of all that lets a caller in.

A key is ``rk_`` and 32 random bytes; only its SHA-256 is kept, which is enough for a secret of that size. Without any
key, and without tokens, every request is allowed, and the guard and the command line make sure that only this machine
can send one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator

from app.errors import Unauthorized
from app.security.callers import ANONYMOUS, NOBODY_ASKED, Caller
from app.security.scopes import ADMIN, Grants, Need
from app.security.tokens import Tokens, is_token
from app.storage.keys import CURRENT, KeyRow

_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]+) *")


def new_key(
    name: str, scopes: Iterable[str], seconds: float | None = None, now: float | None = None
) -> tuple[str, KeyRow]:
    """A fresh key that expires after so many seconds, to be shown once, and what to store of it."""
    key = "rk_" + secrets.token_urlsafe(32)
    created = time.time() if now is None else now
    expires = None if seconds is None else created + seconds
    row = KeyRow(
        "k" + secrets.token_hex(6), name, tuple(dict.fromkeys(scopes)), _digest(key), created, expires, CURRENT
    )
    return key, row


def bearer_of(authorization: str | None) -> str:
    """The key or token in an Authorization header. Raises `Unauthorized`.

    >>> bearer_of("bearer  rk_abc ")
    'rk_abc'
    """
    match = _BEARER.fullmatch(authorization or "")
    if match is None:
        raise Unauthorized("send Authorization: Bearer <key>")
    return match[1]


class Keyring:
    """The keys in use, and the tokens that are taken. `on_removed` is called with the id of a deleted key, and
    `ANONYMOUS` after the first key.
    """

    def __init__(self, keys: Iterable[KeyRow] = (), tokens: Tokens | None = None) -> None:
        self.on_removed: list[Callable[[str], None]] = []
        self.tokens = tokens
        self._by_id: dict[str, KeyRow] = {}
        self._by_hash: dict[bytes, tuple[KeyRow, Caller]] = {}
        self.load(keys)

    def __iter__(self) -> Iterator[KeyRow]:
        return iter([self._by_id[key_id] for key_id in sorted(self._by_id)])

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def open(self) -> bool:
        """Whether there are no keys and no tokens, so that none is required."""
        return not self._by_id and self.tokens is None

    def load(self, keys: Iterable[KeyRow]) -> None:
        """Take over stored keys."""
        for key in keys:
            caller = Caller(key.id, Grants(key.scopes, first_version=key.version < CURRENT), expires=key.expires_at)
            self._by_id[key.id] = key
            self._by_hash[key.hash] = key, caller

    def replace(self, keys: Iterable[KeyRow]) -> None:
        """Let these keys in and no others, and end what those have open that are gone."""
        found = list(keys)
        was_open, gone = self.open, self._by_id.keys() - {key.id for key in found}
        self._by_id.clear()
        self._by_hash.clear()
        self.load(found)
        if was_open and not self.open:
            self._notify(ANONYMOUS)
        for key_id in sorted(gone):
            self._notify(key_id)

    def get(self, key_id: str) -> KeyRow | None:
        """The key of an id."""
        return self._by_id.get(key_id)

    def add(self, key: KeyRow) -> None:
        """Admit a key. After the first one keys are required."""
        was_open = self.open
        self.load([key])
        if was_open:
            self._notify(ANONYMOUS)

    def remove(self, key_id: str) -> None:
        """Shut out a key and end what it has open."""
        key = self._by_id.pop(key_id)
        del self._by_hash[key.hash]
        self._notify(key_id)

    def is_last_admin(self, key_id: str) -> bool:
        """Whether no other key has ``admin`` for good: one that expires does not count."""
        return not any(
            ADMIN in key.scopes and key.expires_at is None for key in self._by_id.values() if key.id != key_id
        )

    def identify(self, secret: str) -> Caller:
        """The caller that a key or a token belongs to. Raises `Unauthorized`."""
        if self.tokens is not None and is_token(secret):
            return self.tokens.verify(secret)
        digest = _digest(secret)
        found = self._by_hash.get(digest)
        if found is None or not hmac.compare_digest(found[0].hash, digest) or found[1].expired():
            raise Unauthorized("the key is not known")
        return found[1]

    def admit(self, authorization: str | None) -> Caller:
        """The caller in an Authorization header; while the ring is open, nobody is asked. Raises `Unauthorized`."""
        if self.open:
            return NOBODY_ASKED
        return self.identify(bearer_of(authorization))

    def check(self, caller: Caller) -> None:
        """Raise `Unauthorized` where a caller is no longer known: its key was deleted or has expired, or the ring was
        open when it came and is no longer.
        """
        if caller.expired():
            raise Unauthorized("the key or token has expired")
        if caller.id == ANONYMOUS:
            known = self.open
        else:
            known = caller.id.startswith("t") or caller.id in self._by_id
        if not known:
            raise Unauthorized("the key is not known any more")

    def require(self, caller: Caller, need: Need) -> None:
        """As `check`, and raise `Forbidden` where what is needed is not granted."""
        self.check(caller)
        caller.require(need)

    def _notify(self, key_id: str) -> None:
        for hook in self.on_removed:
            hook(key_id)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
