from collections.abc import Iterator
from pathlib import Path

import pytest

from app.storage import Stores, open_stores
from app.storage.keys import KeyRow
from app.storage.log import StoredAnswer


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(tmp_path)
    yield opened
    opened.close()


def test_keys_are_stored_and_deleted(stores: Stores) -> None:
    one = KeyRow("k1", "one", ("admin", "boards:read"), b"1" * 32, 1.0)
    two = KeyRow("k2", "two", ("boards:read",), b"2" * 32, 2.0)
    stores.keys.add(two)
    stores.keys.add(one)
    assert stores.keys.all() == [one, two]
    stores.keys.delete("k1")
    stores.keys.delete("k1")
    assert stores.keys.all() == [two]


def test_an_answer_is_stored_with_the_key(stores: Stores) -> None:
    kept = StoredAnswer("", "retry", b"h", 0, 200, b"{}", True, 5.0)
    stores.keys.add(KeyRow("k1", "one", ("admin",), b"1" * 32, 1.0), kept)
    assert stores.log.answers(0, 100_000) == [kept]
