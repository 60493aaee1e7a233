"""Messages of webhooks: what the service signs, the client and the specification's own library take, and no other."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook as Reference

from app.webhooks.signing import BYTES, event_id, message_id, new_secret, signature
from rankcast_client import BadSignature, verify

BODY = json.dumps({"resource": "boards/b", "id": "mine", "event": "change", "text": "é"}).encode()


def message(secret: str, body: bytes = BODY, at: float | None = None, id: str = "msg_1") -> dict[str, str]:
    stamp = int(time.time() if at is None else at)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(stamp),
        "webhook-signature": signature(secret, id, stamp, body),
    }


def test_the_specification_takes_what_the_service_signs_and_the_client_what_it_signs() -> None:
    for _ in range(20):
        secret = new_secret()
        headers = message(secret)
        assert Reference(secret).verify(BODY, headers) == json.loads(BODY)
        assert verify(secret, headers, BODY) == [json.loads(BODY)]
        now = datetime.now(UTC)
        theirs = {**headers, "webhook-timestamp": str(int(now.timestamp()))}
        theirs["webhook-signature"] = Reference(secret).sign("msg_1", now, BODY.decode())
        assert verify(secret, theirs, BODY.decode()) == [json.loads(BODY)]


def test_a_list_is_its_events() -> None:
    secret, body = new_secret(), b'[{"event":"ready"},{"event":"win"}]'
    assert verify(secret, message(secret, body), body) == [{"event": "ready"}, {"event": "win"}]


def test_headers_may_be_in_any_case_and_have_several_signatures() -> None:
    secret = new_secret()
    headers = message(secret)
    headers["webhook-signature"] = f"v1a,xyz v1,!!! v1,AAAA {headers['webhook-signature']}"
    assert verify(secret, {name.title(): value for name, value in headers.items()}, BODY)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"webhook-id": "msg_2"}, "changed"),
        ({"webhook-signature": "v1,AAAA"}, "changed"),
        ({"webhook-signature": "v2,AAAA"}, "changed"),
        ({"webhook-signature": ""}, "no header webhook-signature"),
        ({"webhook-timestamp": "soon"}, "no time"),
        ({"webhook-timestamp": "-5"}, "no time"),
        ({"webhook-timestamp": "9" * 40}, "no time"),
        ({"webhook-timestamp": "0"}, "sent"),
        ({"webhook-id": None}, "no header webhook-id"),
    ],
)
def test_what_is_not_right_is_refused(change: dict[str, Any], why: str) -> None:
    secret = new_secret()
    headers = {name: value for name, value in {**message(secret), **change}.items() if value is not None}
    with pytest.raises(BadSignature, match=why):
        verify(secret, headers, BODY)


def test_another_body_or_secret_is_refused() -> None:
    secret = new_secret()
    for other, body in ((secret, BODY + b" "), (new_secret(), BODY)):
        with pytest.raises(BadSignature, match="changed"):
            verify(other, message(secret), body)


def test_the_tolerance_in_time_goes_both_ways() -> None:
    secret = new_secret()
    headers = message(secret, at=1_000_000)
    for now, tolerance, good in (
        (1_000_300, 300, True),
        (1_000_301, 300, False),
        (999_700, 300, True),
        (999_699, 300, False),
        (1_000_900, 1000, True),
    ):
        if good:
            assert verify(secret, headers, BODY, now=now, tolerance=tolerance)
        else:
            with pytest.raises(BadSignature):
                verify(secret, headers, BODY, now=now, tolerance=tolerance)


def test_a_secret_that_is_none_is_said_to_be() -> None:
    with pytest.raises(ValueError, match="whsec_"):
        verify("whsec_!!", message(new_secret()), BODY)


def test_ids_follow_from_the_event_alone() -> None:
    event = ["made", "boards/b", "mine", "e:43", "change"]
    others = [[*event[:i], event[i] + "x", *event[i + 1 :]] for i in range(5)]
    assert event_id(*event) == event_id(*event)
    assert len({event_id(*one) for one in (event, *others)}) == 6
    assert message_id(["a"]) == "msg_a" and message_id(["a", "b"]) != message_id(["b", "a"])
    assert len(new_secret()) > BYTES and new_secret() != new_secret()
