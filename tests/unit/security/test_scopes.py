import itertools

import pytest

from app.resource_names import RESOURCES
from app.security.scopes import ADMINISTRATION, EVERYTHING, Grants, Need, is_scope

RIGHTS = ("read", "subscribe", "publish", "write")

INCLUDED = {
    "read": "read",
    "subscribe": "subscribe read",
    "publish": "publish",
    "write": "write subscribe publish read",
}


@pytest.mark.parametrize(
    "scope", ["admin", "boards:read", "maps/food:subscribe", "relays/edge:link.north", "feeds/a.b:c:write"]
)
def test_these_are_scopes(scope: str) -> None:
    assert is_scope(scope)


_NO_SCOPES = """Admin|boards|boards:|boards:all|board:read|boards/:read|boards/a b:read|relays:link.north|admin:read
boards/edge:link.north|relays/edge:link.|boards:link.x"""


@pytest.mark.parametrize("scope", ["", "boards:read ", "boards:read\n", *_NO_SCOPES.replace("\n", "|").split("|")])
def test_these_are_not(scope: str) -> None:
    assert not is_scope(scope)
    assert not any(Grants([scope]).allows(Need(of, right)) for of in RESOURCES for right in RIGHTS)


@pytest.mark.parametrize("given", RIGHTS)
@pytest.mark.parametrize("of", RESOURCES)
def test_a_right_allows_what_it_includes_and_nothing_else(of: str, given: str) -> None:
    all_of, one = Grants([f"{of}:{given}"]), Grants([f"{of}/mine:{given}"])
    for other, needed in itertools.product(RESOURCES, RIGHTS):
        included = other == of and needed in INCLUDED[given].split()
        assert all_of.allows(Need(other, needed, "mine")) == all_of.allows(Need(other, needed)) == included
        assert one.allows(Need(other, needed, "mine")) == one.allows(Need(other, needed)) == included
        assert not one.allows(Need(other, needed, "other"))
        assert all_of.names(other, needed) == (None if included else frozenset())
        assert one.names(other, needed) == (frozenset({"mine"}) if included else frozenset())
    assert not all_of.allows(ADMINISTRATION)


def test_admin_allows_everything() -> None:
    for of, right in itertools.product(RESOURCES, (*RIGHTS, "link.north")):
        assert EVERYTHING.allows(Need(of, right, "any"))
    assert EVERYTHING.allows(ADMINISTRATION)
    assert EVERYTHING.names("boards", "write") is None


def test_a_link_is_that_of_one_relay_and_one_name() -> None:
    link = Grants(["relays/edge:link.north"])
    assert link.allows(Need("relays", "link.north", "edge"))
    assert not link.allows(Need("relays", "link.south", "edge"))
    assert not link.allows(Need("relays", "link.north", "other"))
    assert not any(link.allows(Need("relays", right, "edge")) for right in RIGHTS)
    assert not Grants(["relays:write", "relays/edge:write"]).allows(Need("relays", "link.north", "edge"))


def test_the_first_version_means_what_it_meant() -> None:
    """Writing did not include reading, and whoever might write to relays could be a neighbour."""
    old = Grants(["boards:write", "relays:write"], first_version=True)
    for right in ("subscribe", "publish", "write"):
        assert old.allows(Need("boards", right, "any"))
    assert not old.allows(Need("boards", "read", "any"))
    assert old.allows(Need("relays", "link.north", "edge"))
    assert not Grants(["relays:read"], first_version=True).allows(Need("relays", "link.north", "edge"))


def test_a_need_is_named_by_its_scope() -> None:
    assert [str(need) for need in (Need("boards", "read"), Need("maps", "publish", "food"), ADMINISTRATION)] == [
        "boards:read",
        "maps/food:publish",
        "admin",
    ]
