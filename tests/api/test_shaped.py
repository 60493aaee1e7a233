"""Bursts of one shape are read as each of their requests is, and so is what only looks like one."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.short_on_socket import BurstOnSocket
from app.api.together import shaped
from app.api.together.shaped import cut_shaped
from app.api.values import is_name
from app.streaming.bursts import cut_burst, head_of
from app.streaming.operations import Bad, SocketRequest, read_operation
from app.streaming.requests import FEWEST
from indexes.core import cutting
from tests.support.asker import BOARD, Asker
from tests.support.compiling import compiled
from tests.support.running import upsert
from tests.support.values import UNCOMPILED
from tests.support.ways import Ways

PATH = "/v1/boards/b/objects/"
BODY = '{"values":{"x":1,"y":2}}'

GOOD_NUMBERS = st.floats(-1e9, 1e9).map(repr) | st.integers(-(10**6), 10**6).map(str)
NUMBERS = st.one_of(
    st.sampled_from(["0", "-0", "-0.0", "1.5", "1e5", "1E+2", "1e-400", "1e400", "01", "1.", ".5", "-", "NaN", "true"]),
    st.sampled_from(["9007199254740993", "-9007199254740992", "1e300", "12345678901234567890123456", '"1"', "1-2"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    GOOD_NUMBERS,
)
GOOD_IDS = st.text("ab:.-7", min_size=1, max_size=5).filter(lambda id: id[0] != ".")
IDS = st.sampled_from(["p1", ".a", "", "a b", "é", "x" * 128, "x" * 129, "..", "7", "\\u0061", "a/b", "a%62", "a?b=1"])
GOOD_TEMPLATES = st.sampled_from(
    [
        '{"values":{"x":#,"y":#}}',
        '{"box":{"a0":[#,#],"a1":[null,#]},"link":"n7"}',
        ' {"location" : [ # , # ], "on" : true, "none": {}, "empty": [] } ',
        '{"events":[{"values":{"a1":#}}],"notify":true}',
        "#",
        "[#,[#,[#]]]",
        '{"x":#,"x":#}',
        '{"x":1,"y":#}',
    ]
)
OTHERS = st.sampled_from(
    [
        '{"x":"a\\\\n1","y":#}',
        '{"é":#}',
        '{"x":"1","y":[]}',
        "-#",
        "#-",
        '{"x":--#,"y":-#}',
        '{"x":0#,"y":#}',
        '{"x":"a"#,"y":true#}',
        '{"x":#"a","y":[#]1}',
        '{"x":#,"y":#},"headers":{}',
    ]
)
"""Bodies with a number in them that is none, or that may not be cut for another reason."""

SUFFIXES = st.sampled_from([""] * 9 + ["~", "#x", "'", ",a", "?messages=none", "?", "/tiles", "%20", "+", "é"])
PIECES = st.sampled_from(['"', ",", ":", "{", "}", "[", "]", "\\", " ", "\n", "0", "-", "e", "a", "é", "null", "."])


def frame(ref: int | str, id: str, body: str) -> str:
    return f'{{"op":"request","ref":{ref},"method":"PUT","path":"{PATH}{id}","body":{body}}}'


def filled(template: str, numbers: list[str]) -> str:
    """A template with a number in place of each mark."""
    some = iter(numbers)
    return "".join([next(some) if one == "#" else one for one in template])


@st.composite
def frames(
    draw: st.DrawFn,
    templates: st.SearchStrategy[str],
    ids: st.SearchStrategy[str] = GOOD_IDS,
    numbers: st.SearchStrategy[str] = GOOD_NUMBERS,
    behind: st.SearchStrategy[str] | None = None,
) -> list[str]:
    """Requests of one shape, as text, with the same behind their ids."""
    template, n = draw(templates), draw(st.integers(FEWEST, 2 * FEWEST))
    suffix = "" if behind is None else draw(behind)
    marks = template.count("#")
    drawn = draw(st.lists(numbers, min_size=n * marks, max_size=n * marks))
    bodies = [filled(template, drawn[i * marks : (i + 1) * marks]) for i in range(n)]
    return [frame(ref, draw(ids) + suffix, body) for ref, body in enumerate(bodies)]


ANY_FRAMES = st.one_of(
    frames(GOOD_TEMPLATES, ids=IDS | GOOD_IDS),
    frames(GOOD_TEMPLATES, numbers=NUMBERS),
    frames(GOOD_TEMPLATES, behind=SUFFIXES),
    frames(OTHERS),
)


def read_one(text: str) -> tuple[int, str, Any] | None:
    """The reference, the id and the body of a frame that is read by itself; None of one that is refused, or takes
    another way for its id.
    """
    try:
        request = read_operation(text, may_request=True)
    except Bad:
        return None
    assert isinstance(request, SocketRequest)
    if request.method != "PUT" or not request.path.startswith(PATH) or not isinstance(request.ref, int):
        return None
    id = request.path.removeprefix(PATH).partition("?")[0]
    return (request.ref, id, request.body) if is_name(id) else None


def check(some: list[str]) -> int:
    """Read frames as a burst, and each of them by itself; how many were cut."""
    head = head_of(some[0])
    if head is None or (head.method, head.path.rpartition("/")[0]) != ("PUT", PATH[:-1]):
        # They have another target.
        return 0
    burst = cut_burst(head.up_to_id(), some)
    found = None if burst is None else _cut(burst)
    if burst is None or found is None:
        return 0
    one_by_one = [read_one(text) for text in some[: len(burst.refs)]]
    assert None not in one_by_one, some
    bodies = found.bodies()
    wanted = [(one[0], one[1], as_floats(one[2])) for one in one_by_one if one is not None]
    # As text, in which a negative zero is another one.
    assert repr([*zip(burst.refs, found.ids, as_floats(bodies), strict=True)]) == repr(wanted)
    return len(bodies)


def _cut(burst: Any) -> Any:
    try:
        return cut_shaped(burst)
    except ValueError:
        return None


def as_floats(value: Any) -> Any:
    """The same with floats for integers."""
    if isinstance(value, dict):
        return {name: as_floats(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_floats(one) for one in value]
    return float(value) if type(value) is int else value


@given(frames(GOOD_TEMPLATES))
def test_what_is_of_one_shape_is_cut(some: list[str]) -> None:
    assert check(some) == len(some)


@given(ANY_FRAMES)
def test_what_is_cut_is_what_each_says(some: list[str]) -> None:
    check(some)


@given(frames(GOOD_TEMPLATES), st.data())
def test_what_is_cut_is_what_each_broken_frame_says(some: list[str], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(some) - 1))
    text = some[which]
    at = data.draw(st.integers(0, len(text)))
    some[which] = text[:at] + data.draw(PIECES) + text[data.draw(st.integers(at, min(len(text), at + 2))) :]
    check(some)


@given(GOOD_TEMPLATES.map(lambda body: frame(1, "o#", body)), st.data())
def test_what_is_cut_is_what_frames_broken_alike_say(text: str, data: st.DataObject) -> None:
    """The same is wrong with all of them."""
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(PIECES) + text[data.draw(st.integers(at, min(len(text), at + 2))) :]
    marks = text.count("#")
    check([filled(text, [str(n + mark) for mark in range(marks)]) for n in range(FEWEST)])


@pytest.mark.parametrize(
    "other",
    [
        frame("01", "o", BODY),
        frame("1.0", "o", BODY),
        frame('"r"', "o", BODY),
        frame(1, "o", BODY) + " ",
        frame(1, "o", BODY)[:-1] + ',"headers":{}}',
        frame(1, "o", BODY)[:-1],
        frame(1, "o/tiles", BODY),
        frame(1, "o?messages=none", BODY),
        frame(1, "", BODY),
        frame(1, ".o", BODY),
        frame(1, "o", BODY.replace("1", "-0")),
        frame(1, "o", BODY.replace("1", "9007199254740995")),
        frame(1, "o", BODY.replace('"x"', '"z"')),
        frame(1, "o", '{"values":{"x":1,"y":2,"z":3}}'),
    ],
)
@pytest.mark.parametrize("at", [0, FEWEST, 2 * FEWEST])
def test_one_of_another_shape_keeps_them_from_being_cut(other: str, at: int) -> None:
    """Unless it comes behind others that are a burst by themselves."""
    some = [frame(ref, f"o{ref}", BODY) for ref in range(2 * FEWEST)]
    assert check([*some[:at], other, *some[at:]]) in (0, at)


@pytest.mark.parametrize(
    ("behind", "body"),
    [
        ("~x", BODY),
        ("#x", BODY),
        ("'", BODY),
        ("/tiles", BODY),
        ("", '{"values":{"x":1,"y":--2}}'),
        ("", "--2"),
        ("", '{"values":{"x":1,"y":2}},"more":3'),
    ],
)
def test_what_is_wrong_with_all_of_them_is_not_cut(behind: str, body: str) -> None:
    assert check([frame(ref, f"o{ref}{behind}", body) for ref in range(FEWEST)]) == 0


def test_the_numbers_of_a_body_are_bounded() -> None:
    for count in (shaped.MOST_NUMBERS, shaped.MOST_NUMBERS + 1):
        body = json.dumps({"box": {f"a{j}": j for j in range(count)}})
        some = [frame(ref, "o", body) for ref in range(FEWEST)]
        assert check(some) == (FEWEST if count == shaped.MOST_NUMBERS else 0)


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_nothing_is_compiled_for_them() -> None:
    cutting.exercise()
    with compiled() as kernels:
        assert check([frame(ref, "o", BODY) for ref in range(FEWEST)]) == FEWEST
    assert not kernels


ATTRIBUTES = {"price": "low", "stars": {"order": "high", "range": [0, 5]}}
MATCHER = {"dimensions": ["age", "credit"]}
ASKED_MATCHER: list[tuple[str, str, Any]] = [
    ("PUT", "/v1/matchers/m", MATCHER | {"mode": "exact"}),
    (
        "POST",
        "/v1/matchers/m/subscriptions",
        {"subscriptions": [{"id": f"s{n}", "intervals": {"age": [n, 9]}, "score": n} for n in range(9)]},
    ),
]
SKYLINE = {"kind": "skyline", "location": [10, 10]}
KINDS: dict[str, tuple[list[tuple[str, str, Any]], str, str, Any, list[Any], str]] = {
    "objects of boards": (
        [
            ("PUT", "/v1/boards/b", BOARD | {"ks": [1, 3]}),
            (
                "POST",
                "/v1/boards/b/subscriptions",
                {"subscriptions": [{"id": f"s{n}", "range": {"x": [n, n + 9]}, "k": 3} for n in range(0, 40, 3)]},
            ),
        ],
        "PUT",
        "/v1/boards/b/objects/%",
        {"values": {"x": 0, "y": 1}},
        [{"values": {"x": 1}}, {"values": {"x": 1, "y": 1e301}}, {"values": {"x": 1, "y": 2}, "payload": 3}],
        "/v1/boards/b/objects?limit=1000",
    ),
    "objects of boards, without tiles": (
        [("PUT", "/v1/boards/b", BOARD), ("POST", "/v1/boards/b/events", {"events": [upsert("o1", 1, 1)]})],
        "PATCH",
        "/v1/boards/b/objects/%?messages=none",
        {"values": {"x": 0, "y": 1}},
        [{"values": {"y": 1}}, {"values": {"x": None, "y": 1}}, {"values": {"x": 1, "z": 2}}],
        "/v1/boards/b/objects?limit=1000",
    ),
    "subscriptions of matchers": (
        [("PUT", "/v1/matchers/m", MATCHER | {"mode": "exact"})],
        "PUT",
        "/v1/matchers/m/subscriptions/%",
        {"intervals": {"age": [0, 9], "credit": [None, 9]}, "score": 1},
        [{"intervals": {"age": [9, 1]}, "score": 1}, {"score": 1, "ttl": 60}, {"intervals": {"a": [1, 2]}, "score": 1}],
        "/v1/matchers/m/subscriptions?limit=1000",
    ),
    "subscriptions of relaxed matchers": (
        [("PUT", "/v1/matchers/m", MATCHER | {"mode": "relaxed"})],
        "PUT",
        "/v1/matchers/m/subscriptions/%",
        {"intervals": {"age": [0, 9]}, "weights": {"age": 1}},
        [{"intervals": {"age": [9, 1]}, "weights": {"age": 1}}, {"intervals": {"age": [1, 2]}, "score": 1}],
        "/v1/matchers/m/subscriptions?limit=1000",
    ),
    "questions": (
        ASKED_MATCHER,
        "POST",
        "/v1/matchers/m/match",
        {"events": [{"values": {"age": 0, "credit": 1}}]},
        [
            {"events": [{"values": {"age": 0, "credit": [1, 2]}}]},
            {"events": [{"values": {"age": 0, "credit": "1"}}]},
            {"events": [{"values": {"age": 0, "credit": 1}}], "k": 2},
            {"events": [{"values": {"credit": 1}}]},
        ],
        "/v1/matchers/m/subscriptions?limit=1000",
    ),
    "events": (
        ASKED_MATCHER,
        "POST",
        "/v1/matchers/m/match",
        {"events": [{"values": {"credit": 1, "age": 0}}], "notify": True},
        [{"events": [{"values": {"age": 0, "credit": 1}}] * 2, "notify": True}, {"events": [], "notify": True}],
        "/v1/matchers/m/subscriptions?limit=1000",
    ),
    "subscriptions of relays": (
        [
            ("PUT", "/v1/relays/r", {"attributes": ["price", "volume"], "links": {}}),
            ("PUT", "/v1/relays/r/subscriptions/o5", {"box": {"price": [1, 9]}}),
        ],
        "PUT",
        "/v1/relays/r/subscriptions/%",
        {"box": {"price": [0, 9], "volume": [3, None]}},
        [{"box": {"price": [9, 1]}}, {"box": {"price": [1, 9]}, "ttl": 60}, {"box": {"other": [1, 9]}}, {"box": {}}],
        "/v1/relays/r/subscriptions?limit=1000",
    ),
    "notifications": (
        [
            ("PUT", "/v1/relays/r", {"attributes": ["price", "volume"]}),
            *[("PUT", f"/v1/relays/r/subscriptions/s{n}", {"box": {"price": [n, 9]}}) for n in range(9)],
        ],
        "POST",
        "/v1/relays/r/notifications",
        {"notifications": [{"values": {"volume": 1, "price": 0}}]},
        [
            {"notifications": [{"values": {"volume": 1}}]},
            {"notifications": [{"values": {"volume": 1, "price": 1}, "payload": 7}]},
            {"notifications": [{"values": {"volume": 1, "price": 0}}] * 2},
            {"notifications": [{"values": {"volume": 1, "price": 0}}], "on_error": "skip"},
        ],
        "/v1/relays/r/subscriptions?limit=1000",
    ),
    "objects of maps": (
        [
            ("PUT", "/v1/maps/m", {"attributes": ATTRIBUTES, "bounds": [0, 0, 100, 100]}),
            ("PUT", "/v1/maps/m/queries/q", SKYLINE),
        ],
        "PUT",
        "/v1/maps/m/objects/%",
        {"location": [1, 2], "values": {"price": 3, "stars": 4}},
        [{"location": [1, 200], "values": {"price": 3, "stars": 4}}, {"values": {"stars": 9}}, {"location": [1]}],
        "/v1/maps/m/objects?limit=1000",
    ),
    "clients": (
        [
            ("PUT", "/v1/maps/m", {"attributes": ATTRIBUTES, "bounds": [0, 0, 100, 100]}),
            ("POST", "/v1/maps/m/queries", {"queries": [{"id": f"o{n}", **SKYLINE} for n in range(25)]}),
        ],
        "PATCH",
        "/v1/maps/m/queries/%",
        {"location": [1, 2]},
        [{"location": [1, 200]}, {"location": [1]}, {"location": [1, 2], "ttl": 60}, {"ttl": 60}],
        "/v1/maps/m/queries?limit=1000",
    ),
}
"""What is there, the method and path of requests, a body, others that are refused or out of the ordinary, and what is
shown."""


def changed(draw: Random, body: Any) -> Any:
    """The body with other numbers, mostly in the order of those that it has."""
    if isinstance(body, dict):
        return {name: changed(draw, one) for name, one in body.items()}
    if isinstance(body, list):
        return [changed(draw, one) for one in body]
    if type(body) is int:
        return body + draw.choice([0, 0.5, 0.25, 1e-7, 0.1] * 60 + [20])
    return body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_they_are_answered_as_the_slow_path(ways: Ways, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int) -> None:
    """Whatever is refused or out of the ordinary among them, and however often one id is there."""
    making, method, path, body, odd, shown = KINDS[kind]
    draw, none = Random(seed), Asker(None)  # type: ignore[arg-type]
    new = iter(range(1_000))

    def request(often: float, ids: int) -> dict[str, Any]:
        id = f"o{draw.randrange(ids)}" if ids else f"n{next(new)}"
        said = draw.choice(odd) if draw.random() < often else changed(draw, body)
        if draw.random() < often and "%" in path:
            return none.frame("DELETE", path.replace("%", id).partition("?")[0])
        return none.frame(method, path.replace("%", id), said)

    windows = []
    for often, ids in [(0, 0), (0, 1_000), (0, 20), (0, 100), (0.02, 20), (0.02, 0), (0.2, 20)]:
        for count in (FEWEST - 1, FEWEST, 40, 200):
            windows.append([request(often, ids) for _ in range(count)])
    taken, begun = list[int](), BurstOnSocket.answer_each

    def noted(self: BurstOnSocket, outcomes: Any) -> None:
        taken.append(self.count)
        begun(self, outcomes)

    monkeypatch.setattr(BurstOnSocket, "answer_each", noted)
    ways.compare(making, windows, False, shown, fewer_rows=kind != "questions")
    assert not taken if kind == "subscriptions of relaxed matchers" else max(taken) > 40
