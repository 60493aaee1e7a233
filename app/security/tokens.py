"""JSON Web Tokens as bearer tokens.

Tokens are signed by somebody else, with a shared secret (HS256) or with keys that are published as a JWKS (RS256,
ES256, EdDSA). A service takes one of the two: a key is used for the algorithms of its own kind only.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.errors import Unauthorized
from app.runtime import logs
from app.security.callers import Caller
from app.security.scopes import ADMIN, NAME, Grants
from app.settings import Settings

LONGEST = 8 << 10
"""Characters of a token."""

MOST_KNOWN = 10_000
"""Tokens whose signature is not checked again."""

REFRESH_SECONDS = 300.0
"""After so many seconds the published keys are fetched again."""

PAUSE_SECONDS = 10.0
"""Least seconds between two attempts to fetch the published keys."""

FETCH_SECONDS = 5.0
LARGEST_DOCUMENT = 1 << 20

_PREFIX = re.compile(rf"(?:{NAME})?")
_PUBLISHED = ("RS256", "ES256", "EdDSA")

log = logs.get("tokens")


class BadKeys(ValueError):
    """The published keys cannot be read."""


class UnknownSigningKey(Unauthorized):
    """The key that signed a token is not among those published, as far as is known."""


def is_token(secret: str) -> bool:
    """Whether a bearer has the form of a token: three parts, of which an API key has one.

    >>> is_token("rk_abc"), is_token("eyJh.eyJz.c2ln")
    (False, True)
    """
    return secret.count(".") == 2


class Tokens:
    """Verifies tokens. One of `secret` and `jwks`, a URL or the path of a file, is given.

    Until `refresh` was called no published key is known.
    """

    def __init__(self, secret: str | None, jwks: str | None, audience: str | None) -> None:
        self._secret = secret
        self._jwks = jwks
        self._audience = audience
        self._keys: dict[str | None, Any] = {}
        self._document = b""
        self._known: OrderedDict[bytes, Caller] = OrderedDict()
        self._fetched = -float("inf")
        self._fetching: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, settings: Settings) -> Tokens | None:
        """As the settings say; None where they name neither a secret nor published keys."""
        secret = settings.jwt_secret
        if secret is None and settings.jwt_jwks is None:
            return None
        return cls(None if secret is None else secret.get_secret_value(), settings.jwt_jwks, settings.jwt_audience)

    def verify(self, token: str) -> Caller:
        """The caller that a token names.

        Raises `Unauthorized` for a token that is not signed by a known key, has expired, is not for the audience, or
        lacks what is required; `UnknownSigningKey` where another key may be published by now.
        """
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        caller = self._known.get(digest)
        if caller is None:
            caller = self._caller(token, digest)
            self._known[digest] = caller
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        if caller.expired():
            self._known.pop(digest, None)
            raise Unauthorized("the token has expired")
        return caller

    def _caller(self, token: str, digest: bytes) -> Caller:
        import jwt

        if len(token) > LONGEST:
            raise Unauthorized(f"the token is longer than {LONGEST} characters")
        key, algorithms = self._key(token)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=algorithms,
                audience=self._audience,
                options={"require": ["exp"], "verify_aud": self._audience is not None},
            )
            expires = float(claims["exp"])
        except jwt.ExpiredSignatureError:
            raise Unauthorized("the token has expired") from None
        except (jwt.InvalidTokenError, ValueError, OverflowError) as error:
            raise Unauthorized(f"the token is not accepted: {type(error).__name__}") from None
        prefix = claims.get("prefix", "")
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise Unauthorized("the token's claim prefix is not the beginning of an id")
        subject = {name: claims[name] for name in ("iss", "sub") if name in claims}
        whose = json.dumps([subject, prefix], sort_keys=True).encode() if "sub" in subject else digest
        id = "t" + hashlib.sha256(whose).hexdigest()[:16]
        return Caller(id, Grants(_scopes(claims.get("scope", ""))), prefix, expires)

    def _key(self, token: str) -> tuple[Any, Sequence[str]]:
        """The key that a token has to be signed with, and the algorithms of its kind."""
        import jwt

        if self._secret is not None:
            return self._secret, ("HS256",)
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise Unauthorized("the token is not a JWT") from None
        named = header.get("kid")
        found = self._keys.get(named)
        if found is None and named is None and len(self._keys) == 1:
            found = next(iter(self._keys.values()))
        if found is None:
            raise UnknownSigningKey("the token is signed by a key that is not known")
        return found.key, (found.algorithm_name,)

    # --- published keys -----------------------------------------------------------------------------------------------

    @property
    def published(self) -> bool:
        """Whether the keys are published, and fetched."""
        return self._jwks is not None

    async def refresh(self) -> None:
        """Fetch the published keys, unless that was tried a moment ago; callers share an attempt. A failure is logged,
        and the keys stay as they were.
        """
        if self._jwks is None:
            return
        if self._fetching is None:
            if time.monotonic() - self._fetched < PAUSE_SECONDS:
                return
            self._fetched = time.monotonic()
            self._fetching = asyncio.create_task(self._fetch(self._jwks))
            self._fetching.add_done_callback(self._done)
        await asyncio.shield(self._fetching)

    async def keep_fresh(self) -> None:
        """Fetch the published keys at once, and then every few minutes."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_SECONDS)

    def _done(self, _: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _fetch(self, place: str) -> None:
        try:
            raw = await _download(place) if "://" in place else await asyncio.to_thread(Path(place).read_bytes)
            keys = _published_keys(raw)
        except Exception as error:
            log.warning("the published keys cannot be fetched", reason=f"{type(error).__name__}: {str(error)[:200]}")
            return
        if raw != self._document:
            # What another key signed is not trusted any more, also where the new one has its id.
            self._known.clear()
        self._keys, self._document = keys, raw


def _scopes(claim: Any) -> list[str]:
    """The scopes of a claim, a list or a text with spaces between. A token does not administrate."""
    given = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return [one for one in given if isinstance(one, str) and one != ADMIN]


def _published_keys(raw: bytes) -> dict[str | None, Any]:
    """The signing keys of a JWKS by their ids. Raises `BadKeys`."""
    import jwt

    try:
        found = jwt.PyJWKSet.from_dict(json.loads(raw)).keys
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
        raise BadKeys(str(error) or type(error).__name__) from None
    keys = {key.key_id: key for key in found if key.public_key_use in (None, "sig")}
    usable = {id: key for id, key in keys.items() if key.algorithm_name in _PUBLISHED}
    if not usable:
        raise BadKeys(f"no key for {', '.join(_PUBLISHED)}")
    return usable


async def _download(url: str) -> bytes:
    import httpx

    async with (
        asyncio.timeout(FETCH_SECONDS),
        httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=FETCH_SECONDS) as client,
        client.stream("GET", url) as response,
    ):
        if response.status_code != 200:
            raise BadKeys(f"the answer is {response.status_code}")
        found = bytearray()
        async for chunk in response.aiter_bytes():
            found += chunk
            if len(found) > LARGEST_DOCUMENT:
                raise BadKeys(f"the document is larger than {LARGEST_DOCUMENT} bytes")
        return bytes(found)
