"""The role of a data directory is durable, and one that cannot be read is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.replication.nodes import Status, leader_of
from app.storage.role import FILE, LEADER, REPLICA, Role, read_role, write_role


def test_a_role_is_there_again(tmp_path: Path) -> None:
    first = read_role(tmp_path)
    assert (first.role, first.term) == (None, 0)
    write_role(tmp_path / "data", first._replace(role=LEADER, term=3))
    assert read_role(tmp_path / "data") == Role(LEADER, 3, first.node)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"role": "king", "term": 1, "node": "n"}', '{"role": "leader", "term": -1, "node": "n"}',
     '{"role": "leader", "term": 1, "node": ""}', '{"role": "leader", "term": 1.5, "node": "n"}'],
)  # fmt: skip
def test_a_damaged_role_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert read_role(tmp_path)[:2] == (None, 0)


def test_the_leader_is_the_one_with_the_highest_term_of_the_same_history() -> None:
    nodes = [
        Status("http://a", "a", "e", LEADER, 1, 10),
        Status("http://b", "b", "e", REPLICA, 3, 99),
        Status("http://c", "c", "e", LEADER, 2, 5),
        Status("http://d", "d", "other", LEADER, 7, 5),
    ]
    found = leader_of(nodes, "e")
    assert found is not None and found.url == "http://c"
    assert leader_of(nodes, "e", term=3) is None
    tied = leader_of([*nodes, Status("http://z", "z", "e", LEADER, 2, 1)], "e")
    assert tied is not None and tied.url == "http://z", "of two in one term the greater id"
