from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from app.security.sealing import Seal
from formats.links import SEALED, link_fields, link_of, seal_with
from indexes.relays.config import Link

LINK = Link("http://north", "edge", "south", "rk_plain", private=False)


@pytest.fixture(autouse=True)
def _unsealed() -> Iterator[None]:
    yield
    seal_with(None)


def test_without_a_secret_keys_are_stored_as_they_are() -> None:
    assert link_fields(LINK) == asdict(LINK)
    assert link_of(link_fields(LINK)) == LINK


def test_a_sealed_key_is_not_in_what_is_stored() -> None:
    seal_with(Seal("a secret"))
    fields = link_fields(LINK)
    assert fields["key"].startswith(SEALED) and "rk_plain" not in str(fields)
    assert link_of(fields) == LINK
    assert link_fields(Link("http://north", "edge", "south")) == asdict(Link("http://north", "edge", "south"))


def test_what_was_stored_before_is_read_and_sealed_the_next_time() -> None:
    before = link_fields(LINK)
    seal_with(Seal("a secret"))
    assert link_of(before) == LINK
    assert "rk_plain" not in str(link_fields(link_of(before)))


def test_another_secret_or_none_leaves_it_sealed() -> None:
    seal_with(Seal("a secret"))
    fields = link_fields(LINK)
    for other in (Seal("another"), None):
        seal_with(other)
        found = link_of(fields)
        assert found.key == fields["key"] and link_fields(found) == fields, "nothing is lost meanwhile"
    seal_with(Seal("a secret"))
    assert link_of(fields) == LINK


def test_links_of_earlier_versions_may_lead_anywhere() -> None:
    old = {"url": "http://north", "relay": "edge", "link": "south", "key": "rk_plain"}
    assert link_of(old).private
