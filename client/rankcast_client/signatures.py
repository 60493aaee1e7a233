"""For receivers of webhooks: whether a message is what the service has sent. No I/O."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from rankcast_client.errors import RankcastError

TOLERANCE = 300.0
"""Seconds by which the time in a message may differ from the time here."""

_PREFIX = "whsec_"


class BadSignature(RankcastError):
    """A message is not from the service, was changed, or is too old."""


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes | str,
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> list[dict[str, Any]]:
    """The events of a message, once its signature and its time are found to be right; raises `BadSignature`.

    `secret` is the webhook's, which begins with `whsec_`. `headers` may be those of any framework, in any case; `body`
    is the body as it came, and not JSON that was read and written again. `tolerance` is in seconds. A message may come
    again, under the same `webhook-id`.

    >>> secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    >>> headers = {
    ...     "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    ...     "webhook-timestamp": "1614265330",
    ...     "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    ... }
    >>> verify(secret, headers, b'{"test": 2432232314}', now=1614265330)
    [{'test': 2432232314}]
    """
    found = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not found.get(name)]
    if missing:
        raise BadSignature(f"the message has no header {missing[0]}")
    stamp = found["webhook-timestamp"]
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 16):
        raise BadSignature("its webhook-timestamp is no time")
    age = (time.time() if now is None else now) - int(stamp)
    if age > tolerance:
        raise BadSignature(f"it was sent {age:.0f} s ago, and {tolerance:g} s are allowed")
    if age < -tolerance:
        raise BadSignature(f"its time is {-age:.0f} s ahead, and {tolerance:g} s are allowed")
    raw = body.encode() if isinstance(body, str) else bytes(body)
    made = hmac.digest(_key(secret), f"{found['webhook-id']}.{stamp}.".encode() + raw, "sha256")
    if not any(hmac.compare_digest(made, given) for given in _signatures(found["webhook-signature"])):
        raise BadSignature("no signature of it is by this secret: it is another's, or was changed")
    read = json.loads(raw)
    return read if isinstance(read, list) else [read]


def _key(secret: str) -> bytes:
    """The bytes of a secret. Raises ValueError for what is none: the receiver is set up wrong."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("the secret is none of a webhook: whsec_ and base64")
    return key


def _signatures(header: str) -> list[bytes]:
    """The signatures of a header that are of a version known here."""
    found = []
    for part in header.split():
        version, _, text = part.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(text, validate=True))
            except binascii.Error:
                continue
    return found
