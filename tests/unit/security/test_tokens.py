import asyncio
import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from app.errors import Unauthorized
from app.security.scopes import ADMINISTRATION, Need
from app.security.tokens import Tokens, UnknownSigningKey

SIGNS = "0123456789abcdef0123456789abcdef"
READ = Need("boards", "read", "delays")


def token(claims: dict[str, Any] | None = None, key: Any = SIGNS, algorithm: str = "HS256", **header: Any) -> str:
    given = {"exp": time.time() + 60, "scope": "boards:read", **(claims or {})}
    return jwt.encode({name: value for name, value in given.items() if value is not None}, key, algorithm, header)


def refused(tokens: Tokens, text: str) -> str:
    with pytest.raises(Unauthorized) as why:
        tokens.verify(text)
    return why.value.detail


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(SIGNS, None, None)


def test_a_token_grants_its_scopes(tokens: Tokens) -> None:
    for scope in ("openid boards:read", ["boards:read", "x", 7]):
        caller = tokens.verify(token({"scope": scope, "prefix": "u42."}))
        assert caller.grants.allows(READ) and not caller.grants.allows(Need("boards", "publish", "delays"))
        assert caller.prefix == "u42." and caller.expires is not None and not caller.expired()


def test_a_token_never_administrates(tokens: Tokens) -> None:
    assert not tokens.verify(token({"scope": "admin"})).grants.allows(ADMINISTRATION)
    assert not tokens.verify(token({"scope": ["admin"]})).grants.admin


def test_a_caller_is_the_same_in_the_next_token(tokens: Tokens) -> None:
    one, two = (tokens.verify(token({"sub": "u42", "exp": time.time() + more})) for more in (50, 60))
    assert one.id == two.id
    assert tokens.verify(token({"sub": "u43"})).id != one.id
    assert tokens.verify(token({"sub": "u42", "prefix": "a"})).id != one.id
    assert tokens.verify(token({"jti": "a"})).id != tokens.verify(token({"jti": "b"})).id


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": 10**400},
        {"exp": 1},
        {"exp": "soon"},
        # From when tests are collected, which may be long before.
        {"nbf": time.time() + 86_400},
        {"prefix": 7},
        {"prefix": "a b"},
        {"prefix": "a" * 129},
    ],
)
def test_bad_claims_are_refused(tokens: Tokens, claims: dict[str, Any]) -> None:
    refused(tokens, token(claims))


def test_what_is_not_signed_by_the_secret_is_refused(tokens: Tokens) -> None:
    good = token()
    head, body, mark = good.split(".")
    other_body = jwt.encode({"exp": time.time() + 99, "scope": "boards:write"}, "x" * 32, "HS256").split(".")[1]
    for text in (
        token(key="x" * 32),
        f"{head}.{other_body}.{mark}",
        f"{head}.{body}.",
        "..",
        "a.b.c",
        token(key="", algorithm="none"),
        token(algorithm="HS512", key=SIGNS * 2),
        good + "a" * (8 << 10),
        "\ud800.a.b",
    ):
        refused(tokens, text)
    assert tokens.verify(good)


def test_a_verified_token_expires(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    text = token()
    tokens.verify(text)
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert refused(tokens, text) == "the token has expired"


def test_the_audience_counts_where_there_is_one(tokens: Tokens) -> None:
    assert tokens.verify(token({"aud": "others"}))
    strict = Tokens(SIGNS, None, "rankcast")
    assert strict.verify(token({"aud": ["others", "rankcast"]}))
    refused(strict, token({"aud": "others"}))
    refused(strict, token())


# --- published keys ---------------------------------------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
_AS_JWK: dict[str, Any] = {
    "RS256": jwt.algorithms.RSAAlgorithm,
    "ES256": jwt.algorithms.ECAlgorithm,
    "EdDSA": jwt.algorithms.OKPAlgorithm,
}


def publish(path: Path, *kinds: str, **more: Any) -> Path:
    keys = [{**json.loads(_AS_JWK[kind].to_jwk(KEYS[kind].public_key())), "kid": kind, **more} for kind in kinds]
    path.write_text(json.dumps({"keys": keys}))
    return path


@pytest.mark.parametrize("kind", KEYS)
def test_published_keys_verify(tmp_path: Path, kind: str) -> None:
    tokens = Tokens(None, str(publish(tmp_path / "jwks", *KEYS)), None)
    text = token(key=KEYS[kind], algorithm=kind, kid=kind)
    with pytest.raises(UnknownSigningKey):
        tokens.verify(text)
    asyncio.run(tokens.refresh())
    assert tokens.verify(text).grants.allows(READ)
    other = next(name for name in KEYS if name != kind)
    refused(tokens, token(key=KEYS[kind], algorithm=kind, kid=other))
    refused(tokens, token(key=KEYS[kind], algorithm=kind))


def test_a_key_is_not_used_for_another_kind_of_algorithm(tmp_path: Path) -> None:
    """A public key, known to all, must not serve as the secret of HS256."""
    tokens = Tokens(None, str(publish(tmp_path / "jwks", "RS256")), None)
    asyncio.run(tokens.refresh())
    public = json.dumps(json.loads((tmp_path / "jwks").read_text())["keys"][0])
    signed = token(key=SIGNS, algorithm="HS256", kid="RS256").rpartition(".")[0]
    mark = hmac.digest(public.encode(), signed.encode(), "sha256")
    refused(tokens, f"{signed}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}")
    refused(tokens, token(key="", algorithm="none", kid="RS256"))
    assert tokens.verify(token(key=KEYS["RS256"], algorithm="RS256")), "one key needs no name"


def test_keys_that_are_replaced_are_taken_up_and_the_old_ones_are_not_trusted(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("app.security.tokens.PAUSE_SECONDS", 0.0)
    tokens = Tokens(None, str(publish(tmp_path / "jwks", "RS256")), None)
    old, new = (token(key=KEYS[kind], algorithm=kind, kid=kind) for kind in ("RS256", "ES256"))
    asyncio.run(tokens.refresh())
    assert tokens.verify(old)
    publish(tmp_path / "jwks", "ES256")
    asyncio.run(tokens.refresh())
    assert tokens.verify(new)
    with pytest.raises(UnknownSigningKey):
        tokens.verify(old)


def test_a_key_that_is_replaced_under_its_id_is_not_trusted_any_more(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("app.security.tokens.PAUSE_SECONDS", 0.0)
    tokens = Tokens(None, str(publish(tmp_path / "jwks", "ES256", kid="one")), None)
    asyncio.run(tokens.refresh())
    old = token(key=KEYS["ES256"], algorithm="ES256", kid="one")
    assert tokens.verify(old)
    asyncio.run(tokens.refresh())
    assert tokens.verify(old)
    fresh = ec.generate_private_key(ec.SECP256R1())
    monkeypatch.setitem(KEYS, "ES256", fresh)
    publish(tmp_path / "jwks", "ES256", kid="one")
    asyncio.run(tokens.refresh())
    refused(tokens, old)
    assert tokens.verify(token(key=fresh, algorithm="ES256", kid="one"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 7}', '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', "\xff"])
def test_keys_that_cannot_be_read_leave_those_that_are_there(tmp_path: Path, text: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("app.security.tokens.PAUSE_SECONDS", 0.0)
    path = publish(tmp_path / "jwks", "ES256")
    tokens = Tokens(None, str(path), None)
    asyncio.run(tokens.refresh())
    path.write_text(text)
    asyncio.run(tokens.refresh())
    path.unlink()
    asyncio.run(tokens.refresh())
    assert tokens.verify(token(key=KEYS["ES256"], algorithm="ES256", kid="ES256"))


def test_keys_for_encryption_do_not_sign(tmp_path: Path) -> None:
    tokens = Tokens(None, str(publish(tmp_path / "jwks", "RS256", use="enc")), None)
    asyncio.run(tokens.refresh())
    refused(tokens, token(key=KEYS["RS256"], algorithm="RS256", kid="RS256"))
