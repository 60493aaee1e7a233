"""What a request that is passed on keeps."""

from __future__ import annotations

import pytest

from app.runtime.forwarding import end_to_end, target_of


def test_headers_of_one_connection_do_not_go_along() -> None:
    given = [(b"Accept", b"a"), (b"Connection", b"close"), (b"proxy-authorization", b"secret"), (b"Date", b"d")]
    assert end_to_end(given) == [(b"accept", b"a"), (b"date", b"d")]
    assert end_to_end(given, frozenset({b"date"})) == [(b"accept", b"a")]


@pytest.mark.parametrize("raw", [b"/v1/a%20b", b"/v1/a%20b?k=1", None])
def test_the_target_is_as_it_came(raw: bytes | None) -> None:
    scope = {"path": "/v1/a b", "query_string": b"k=1%202"}
    expected = b"/v1/a b?k=1%202" if raw is None else b"/v1/a%20b?k=1%202"
    assert target_of({**scope, "raw_path": raw}) == expected
    assert target_of({**scope, "raw_path": raw, "query_string": b""}) == expected.partition(b"?")[0]
