"""Ids and signatures of messages, by the specification Standard Webhooks (standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
BYTES = 32
"""Bytes of a secret; the specification has 24 to 64."""


def new_secret() -> str:
    """A fresh secret, to be shown once."""
    return PREFIX + base64.b64encode(secrets.token_bytes(BYTES)).decode()


def signature(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature` of a message.

    >>> signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
    ...     b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(signed).decode()}"


def event_id(made: str, resource: str, id: str, cursor: str, event: str) -> str:
    """The id of the message with one event of a subscription: the same for the same event of the same webhook.

    `made` names the webhook, and no other that had its name before.
    """
    return _hashed(made, resource, id, cursor, event)


def message_id(ids: Sequence[str]) -> str:
    """The id of a message with the events of these ids."""
    return f"msg_{ids[0] if len(ids) == 1 else _hashed(*ids)}"


def test_id() -> str:
    """The id of a test, which is no event's."""
    return f"msg_{secrets.token_hex(16)}"


def _hashed(*parts: str) -> str:
    """A hash of texts without line ends."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
