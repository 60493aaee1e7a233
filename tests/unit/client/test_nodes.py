"""The list of nodes: which is tried next, and which is known to lead."""

from __future__ import annotations

import pytest

from rankcast_client.nodes import AWAY, BELIEVED, MOST, UNKNOWN, Nodes

A, B, C = "http://a:1", "http://b:2", "https://c/base"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def three() -> tuple[Nodes, Clock]:
    clock = Clock()
    return Nodes((A, B, C), clock), clock


def test_urls_are_a_text_with_commas_or_several() -> None:
    assert Nodes(f"{A}/, {B},{A}").urls == Nodes([A, B]).urls == (A, B)
    assert not Nodes(A).several
    assert str(Nodes([A, B])) == f"{A}, {B}"
    for wrong in ([], f"{A},", [A, ""], [f"http://n{i}" for i in range(MOST + 1)]):
        with pytest.raises(ValueError, match="from 1 to 16 URLs"):
            Nodes(wrong)


def test_the_order_is_kept_and_who_failed_is_last_for_a_moment() -> None:
    nodes, clock = three()
    assert nodes.ordered == (A, B, C)
    nodes.failed(A)
    assert nodes.ordered == (B, C, A)
    clock.now += 1
    nodes.failed(B)
    assert nodes.ordered == (C, A, B)
    clock.now += AWAY - 1
    assert nodes.ordered == (A, C, B)
    nodes.worked(B)
    assert nodes.ordered == (A, B, C)


def test_each_is_tried_once_before_all_begin_again() -> None:
    nodes, _ = three()
    tried = set[str]()
    for expected in (A, B, C):
        assert nodes.left(tried)
        assert nodes.turn(tried) == expected
        nodes.failed(expected)
        tried.add(expected)
    assert not nodes.left(tried)
    assert nodes.turn(tried) == A
    assert not tried


def test_the_leader_is_the_one_of_the_highest_term_and_is_first() -> None:
    nodes, clock = three()
    assert nodes.wants_leader
    assert nodes.asking() == (A, B, C)
    assert not nodes.wants_leader, "it is being asked"
    nodes.learn({A: {"role": "leader", "term": 1}, B: {"role": "replica", "term": 2}, C: {"role": "leader", "term": 2}})
    assert nodes.leader == C
    assert nodes.ordered == (C, A, B)
    clock.now += BELIEVED - 0.1
    assert not nodes.wants_leader
    clock.now += 0.2
    assert nodes.wants_leader


def test_a_leader_that_fails_is_forgotten_and_asked_for_at_once() -> None:
    nodes, clock = three()
    nodes.learn({B: {"role": "leader", "term": 1}})
    nodes.doubt(A)
    clock.now += UNKNOWN
    assert not nodes.wants_leader, "only the leader's refusal says something"
    nodes.doubt(B)
    assert not nodes.wants_leader
    clock.now += UNKNOWN
    assert nodes.wants_leader
    nodes.learn({B: {"role": "leader", "term": 1}})
    nodes.failed(B)
    assert nodes.leader is None
    assert nodes.wants_leader
    assert nodes.asking() == (A, C), "who failed a moment ago is not asked"
    nodes.learn({A: {"role": "replica"}, C: None})
    assert nodes.leader is None
    assert not nodes.wants_leader
    clock.now += UNKNOWN
    assert nodes.wants_leader


def test_who_leads_is_asked_after_a_connection_to_the_leader_ended_though_it_may_be_back() -> None:
    nodes, _ = three()
    nodes.learn({B: {"role": "leader", "term": 1}})
    nodes.lost(A)
    assert not nodes.wants_leader
    nodes.lost(B)
    assert nodes.leader is None
    assert nodes.wants_leader
    assert nodes.asking() == (A, B, C)


@pytest.mark.parametrize("said", [None, [], "leader", {}, {"role": 1}, {"role": ["leader"]}, {"role": "replica"}])
def test_what_says_nothing_of_leading_does_not_lead(said: object) -> None:
    nodes, _ = three()
    nodes.learn({A: said, B: {"role": "leader", "term": "high"}})
    assert nodes.leader == B


def test_one_alone_is_never_asked_whether_it_leads() -> None:
    nodes = Nodes(A)
    assert not nodes.wants_leader
    nodes.failed(A)
    assert nodes.turn({A}) == A
