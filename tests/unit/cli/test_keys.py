from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import LogUnavailable
from app.storage import Stores, open_stores
from app.storage.directory import DirectoryUnusable
from app.storage.keys import KeyRow
from app.storage.rows import StoredAnswer
from tests.support.databases import FreshDatabase


@pytest.fixture
def stores(tmp_path: Path, database: FreshDatabase) -> Iterator[Stores]:
    opened = open_stores(tmp_path / "data", database.url)
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


def test_keys_from_elsewhere_are_stored_all_or_none(stores: Stores) -> None:
    one = KeyRow("k1", "one", ("admin",), b"1" * 32, 1.0)
    two = KeyRow("k2", "zwölf \N{KEY}", ("boards:read",), b"2" * 32, 2.0)
    stores.keys.add_many([one, two])
    again = one._replace(name="again")
    stores.keys.add_many([again])
    assert stores.keys.all() == [again, two]
    with pytest.raises(LogUnavailable, match="cannot be stored"):
        stores.keys.add_many([KeyRow("k3", "three", (), b"3" * 32, 3.0), KeyRow("k4", "four", (), b"2" * 32, 4.0)])
    assert stores.keys.all() == [again, two]


def test_two_data_directories_do_not_share_a_database(stores: Stores, database: FreshDatabase, tmp_path: Path) -> None:
    with pytest.raises(DirectoryUnusable, match="in use by another process"):
        open_stores(tmp_path / "data", database.url)
    with pytest.raises(LogUnavailable, match="in use by another service"):
        open_stores(tmp_path / "other", database.url)
    stores.close()
    with pytest.raises(LogUnavailable, match="belongs to another data directory"):
        open_stores(tmp_path / "other", database.url)
    again = open_stores(tmp_path / "data", database.url)
    assert again.log.append([]) == 0
    again.close()


def test_another_name_of_a_database_file_is_the_same_database(tmp_path: Path) -> None:
    first = open_stores(tmp_path / "one")
    (tmp_path / "link.db").symlink_to(tmp_path / "one" / "rankcast.db")
    with pytest.raises(LogUnavailable, match=r"in use by another service \(process \d+\)"):
        open_stores(tmp_path / "two", f"sqlite:///{tmp_path / 'link.db'}")
    first.close()
