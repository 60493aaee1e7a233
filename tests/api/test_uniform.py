"""Lists whose elements have one shape are read as any other list is, and so is what only looks like one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.api import uniform
from app.api.boards.models import BoardEventsQuery, validators
from app.api.boards.parsing.events import EventReader
from app.api.bodies import BodyFormat
from app.api.problems import Problem

MOST = 6
READER = EventReader(("x",), "y", validators(("x",), "y", MOST, 100), 200)
PLANE = EventReader(("x", "z"), "y", validators(("x", "z"), "y", MOST, 100), 200)

IDS = st.sampled_from(["a", "o12", "a.b", "-", "e5", "a" * 128, "a" * 129, "", ".", "..", "...", ".a", "a b", "é", "7"])
NUMBERS = st.one_of(
    st.sampled_from(["0", "-0", "-0.0", "1.5", "1e5", "1E+2", "1e-400", "1e400", "01", "1.", ".5", "-", "1_0", "+1"]),
    st.sampled_from(["9007199254740993", "-9007199254740992", "1e300", "1e301", "12345678901234567890123456", "true"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**6), 10**6).map(str),
)
GOOD_IDS = st.text("abc.:_-019", min_size=1, max_size=5).filter(lambda id: id[0] != ".")
GOOD_NUMBERS = st.floats(-1e9, 1e9).map(repr) | st.integers(-(10**6), 10**6).map(str)
PIECES = [
    *(
        '"',
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        "\\",
        " ",
        "\t",
        "\n",
        "\x0b",
        "\x1c",
        "\x1d",
        "\x1e",
        "\x1f",
        "0",
        "a",
        ".",
        "-",
        "é",
    ),
    *('","values":{"y":', '}},{"op":"update","id":"', '"id":"b",', '"payload":1,', '"y":2,'),
]


@pytest.fixture(scope="module", autouse=True)
def _short_bodies() -> Iterator[None]:
    before, uniform.SHORTEST = uniform.SHORTEST, 0
    yield
    uniform.SHORTEST = before


def _text(fields: list[str], space: str, op: str, id: str, values: str) -> str:
    """An element with these fields in this order."""
    of = {"op": json.dumps(op), "id": f'"{id}"', "values": values, "payload": "5"}
    return "{" + f",{space}".join(f'"{name}":{space}{of[name]}' for name in fields) + "}"


@st.composite
def bodies(draw: st.DrawFn, ids: st.SearchStrategy[str] = IDS, numbers: st.SearchStrategy[str] = NUMBERS) -> str:
    """A body of events of one shape, as far as these ids and numbers let it be one."""
    names = draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3, unique=True))
    fields = draw(st.permutations(["op", "id", "values"]))
    op, space = draw(st.sampled_from(["update", "upsert"])), draw(st.sampled_from(["", " ", "\n "]))
    elements = [
        _text(fields, space, op, draw(ids), "{" + ",".join(f'"{name}":{space}{draw(numbers)}' for name in names) + "}")
        for _ in range(draw(st.integers(2, MOST + 1)))
    ]
    rest = draw(st.sampled_from(["", '"messages":"none",', '"mode":"batch", "on_error":"skip",', '"messages":5,']))
    behind = draw(st.sampled_from(["", ',"messages":"count"', ',"mode":"each","mode":"batch"', ',"other":"a"']))
    between = f"{space},{space}"
    return f'{{{space}{rest}"events":[{space}{between.join(elements)}{space}]{behind}}}'


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """A body of one shape with a place at which it is otherwise."""
    text = draw(bodies(GOOD_IDS, GOOD_NUMBERS))
    at = draw(st.integers(0, len(text)))
    gone = draw(st.sampled_from([0, 0, 1, 2, 15, 24]))
    return text[:at] + draw(st.sampled_from(PIECES)) + text[at + gone :]


def _outcome(reader: EventReader, raw: bytes | bytearray, query: BoardEventsQuery) -> Any:
    """What a body is, or why it is none."""
    try:
        found = reader.read(BodyFormat.JSON, raw, query)
    except Problem as problem:
        return problem.slug, problem.detail, problem.errors
    command = found.command
    columns = [column.tobytes() for column in (command.op, command.x, command.y)]
    said = command.batch, found.skip, found.indexes, found.messages, list(found.errors)
    return columns, list(command.ids), command.payload, said


def _compare(text: str, monkeypatch: pytest.MonkeyPatch, query: BoardEventsQuery | None = None) -> None:
    for reader in (READER, PLANE):
        for raw in (text.encode(), bytearray(text.encode())):
            asked = query or BoardEventsQuery()
            got = _outcome(reader, raw, asked)
            with monkeypatch.context() as patched:
                patched.setattr(uniform, "cut", lambda raw, name: None)
                assert got == _outcome(reader, raw, asked)


@given(text=bodies())
def test_elements_are_read_as_by_the_validator(text: str) -> None:
    _compare(text, pytest.MonkeyPatch())


@given(text=bodies(GOOD_IDS, GOOD_NUMBERS), data=st.data())
def test_bodies_around_one_whose_form_is_remembered_are_read_as_by_the_validator(
    text: str, data: st.DataObject
) -> None:
    _compare(text, pytest.MonkeyPatch())
    at, gone = data.draw(st.integers(0, len(text))), data.draw(st.sampled_from([0, 0, 1, 2, 15, 24]))
    _compare(text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + gone :], pytest.MonkeyPatch())


_PLACES = re.compile(r'[\[\]{},:"]')
_TOKENS = re.compile(r'(?<="id":)(\s*)"[^"]*"|-?[0-9][0-9.eE+-]*|"[a-z_]+"')


@given(texts=st.lists(bodies(GOOD_IDS, GOOD_NUMBERS), min_size=1, max_size=4), data=st.data())
def test_bodies_made_of_parts_of_those_whose_forms_are_remembered_are_read_as_by_the_validator(
    texts: list[str], data: st.DataObject
) -> None:
    """The head of one before the tail of another one, whatever is between them, also nothing or less; with ids,
    numbers, names and words of others in the places of theirs.
    """
    for text in texts:
        _compare(text, pytest.MonkeyPatch())
    one, other = data.draw(st.sampled_from(texts)), data.draw(st.sampled_from(texts))
    if data.draw(st.booleans()):
        places, those = ([found.start() for found in _PLACES.finditer(text)] for text in (one, other))
        one = one[: data.draw(st.sampled_from(places))] + other[data.draw(st.sampled_from(those)) :]
    if data.draw(st.booleans()):
        tokens = st.sampled_from([found[0] for found in _TOKENS.finditer(other)])
        new = NUMBERS | IDS.map(json.dumps) | (tokens if _TOKENS.search(other) else NUMBERS)
        often = data.draw(st.sampled_from([1, 3, 9]))

        def token(found: re.Match[str]) -> str:
            return data.draw(new) if data.draw(st.integers(0, often)) == 0 else found[0]

        one = _TOKENS.sub(token, one)
    _compare(one, pytest.MonkeyPatch())


@pytest.mark.parametrize(
    ("left", "right"),
    [
        # What is remembered begins or ends within what is the same at both ends of another body.
        (1, 1),
        (1, 0),
        (0, 1),
    ],
)
def test_a_remembered_head_and_tail_may_meet(left: int, right: int) -> None:
    elements = [f'{{"op":"update","id":"a{i}","values":{{"y":{i}}}}}' for i in range(3)]
    text = f'{{"events":[{",".join(elements)}]}}'
    _compare(text, pytest.MonkeyPatch())
    form = uniform._remembered["events"][0]
    head, tail = form.head.decode(), form.tail.decode()
    for between in ("", "a", '"', "1", elements[0], f"{elements[0]},{elements[0]}"):
        _compare(head[: len(head) - left] + between + tail[right:], pytest.MonkeyPatch())


@given(text=spoilt())
@example(text='{"events":[{"op":"update","id":"a","values":{"y":1}},{"op":"update","id":"b\x1c2}}]}')
@example(text='{"events":[{"op":"update","id":"a","values":{"y":1}}\x0b,{"op":"update","id":"b","values":{"y":1}}]}')
@example(text='{"events":[{"op":"update","id":"a","values":{"y":1}},{"op":"update","id":"b","values":{"y":1}}\x0b]}')
@example(text='{"events":[{"op":"update","id":"a}},{"op":"update","id":"5","values":{"y":1","values":{"y":2}}]}')
def test_what_is_nearly_of_one_shape_is_read_as_by_the_validator(text: str) -> None:
    _compare(text, pytest.MonkeyPatch())


@given(text=bodies(GOOD_IDS, GOOD_NUMBERS).filter(lambda text: '"messages":5' not in text))
def test_good_elements_of_one_shape_are_cut(text: str) -> None:
    found = uniform.cut(text.encode(), "events")
    assert found is not None
    events = json.loads(text)["events"]
    assert list(found.ids) == [event["id"] for event in events]
    for name, column in found.numbers.items():
        assert np.array_equal(column, [event["values"][name] for event in events])
    # It may be that of a body of the same form which came before.
    (first,) = json.loads(found.first)["events"]
    assert {**first, "id": events[0]["id"], "values": events[0]["values"]} == events[0]
    assert list(first) == list(events[0]) and list(first["values"]) == list(events[0]["values"])
    assert {**json.loads(found.first), "events": events} == json.loads(text)


def test_fields_of_the_query_count() -> None:
    events = ",".join(f'{{"op":"update","id":"o{i}","values":{{"y":{i}}}}}' for i in range(3))
    for beside in ("", ',"messages":"none"', ',"messages":"count"'):
        text = f'{{"events":[{events}]{beside}}}'
        _compare(text, pytest.MonkeyPatch(), BoardEventsQuery(messages="none", on_error="skip"))
