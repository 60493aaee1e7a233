"""Requests that come as a burst are read as each of them is, and so is what only looks like one."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.api.bodies import check_literals
from app.api.feeds.models import validators
from app.api.feeds.parsing.cut import record_of
from app.api.feeds.parsing.posts import PostReader
from app.streaming.bursts import cut_burst, head_of
from app.streaming.operations import SocketRequest, read_operation
from app.streaming.requests import FEWEST
from indexes.feeds.commands import Post
from indexes.feeds.config import FeedConfig
from indexes.feeds.kernels.cut_posts import MOST_COMPARED
from indexes.feeds.kernels.record import LONGEST, Cutter
from indexes.feeds.kernels.window import WORDS_OF_ONE
from indexes.feeds.warm import warm
from tests.support.compiling import compiled
from tests.support.values import UNCOMPILED

READER = PostReader(FeedConfig((0.0, 0.0, 1.0, 1.0), posts=9), validators(9, 100), 200)
cutter = cache(Cutter)
PATH = "/v1/feeds/f/posts"
BODY = '{"posts":[{"id":"p","keywords":["a"],"location":[1,2]}]}'

NUMBERS = st.one_of(
    st.sampled_from(["0", "-0", "-0.0", "1.5", "1e5", "1E+2", "1e-400", "1e400", "01", "1.", ".5", "-", "NaN", "true"]),
    st.sampled_from(["9007199254740993", "-9007199254740992", "1e300", "1e301", "12345678901234567890123456", '"1"']),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-9, 9).map(str),
)
GOOD_NUMBERS = st.floats(1e-9, 1e9).map(repr) | st.integers(1, 10**6).map(str)
WORDS = st.sampled_from(
    ["a", "B", "é", "É", "a b", "", "\u00a0", "ß", "b" * 128, "b" * 129, "é" * 65, "\\n", 'a"', "1"]
)
GOOD_WORDS = st.text("abé0-", min_size=1, max_size=4)
IDS = st.sampled_from(["p1", ".a", "", "a b", "é", "x" * 128, "x" * 129, "..", "7", "\\u0061"])
GOOD_IDS = st.text("ab:.-7", min_size=1, max_size=5).filter(lambda id: id[0] != ".")
PIECES = st.sampled_from(
    ['"', ",", ":", "{", "}", "[", "]", "\\", " ", "\t", "\r", "\n", "0", "a", "A", "é", "null", "."]
)


@st.composite
def posts(
    draw: st.DrawFn,
    ids: st.SearchStrategy[str],
    words: st.SearchStrategy[str],
    numbers: st.SearchStrategy[str],
    more: tuple[str, ...] = (),
) -> str:
    """A body with a post, as text, which may have one more field."""
    space = draw(st.sampled_from(["", "", " ", " \t"]))
    fields = {
        "id": f'"{draw(ids)}"',
        "location": f"[{space}{draw(numbers)},{space}{draw(numbers)}{space}]",
        "keywords": draw(keywords(words, numbers, space)),
        "payload": "1",
        "text": '"a text"',
    }
    names = ["location", "keywords", *draw(st.sampled_from([(), ("id",), *[(name,) for name in more]]))]
    names = draw(st.permutations(names))
    post = f",{space}".join([f'"{name}"{space}:{space}{fields[name]}' for name in names])
    return f'{{{space}"posts":{space}[{space}{{{space}{post}{space}}}{space}]{space}}}'


@st.composite
def keywords(draw: st.DrawFn, words: st.SearchStrategy[str], numbers: st.SearchStrategy[str], space: str) -> str:
    """Keywords as text: words that may be there twice, in any order or sorted."""
    some = draw(st.lists(words, max_size=draw(st.sampled_from([4, 4, 4, 80]))))
    if draw(st.booleans()):
        some = sorted(set(some))
    if draw(st.booleans()):
        return f"[{space}" + f",{space}".join([f'"{word}"' for word in some]) + "]"
    weights = [f'"{word}":{space}{draw(numbers)}' for word in some]
    return "{" + f"{space},{space}".join(weights) + "}"


GOOD_POSTS = posts(GOOD_IDS, GOOD_WORDS, GOOD_NUMBERS)
ANY_POSTS = st.one_of(
    posts(IDS, GOOD_WORDS, GOOD_NUMBERS),
    posts(GOOD_IDS, WORDS, GOOD_NUMBERS),
    posts(GOOD_IDS, GOOD_WORDS, NUMBERS),
    posts(GOOD_IDS, GOOD_WORDS, GOOD_NUMBERS, ("payload", "text", "location")),
)
"""Posts with one thing that may be wrong: with more of them few would be taken."""


@st.composite
def broken(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text of which something was replaced."""
    text = draw(texts)
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(PIECES) + text[draw(st.integers(at, min(len(text), at + 2))) :]


def frame(ref: int | str, body: str) -> str:
    return f'{{"op":"request","ref":{ref},"method":"POST","path":"{PATH}","body":{body}}}'


def read_one(text: str) -> tuple[int, Post] | None:
    """The reference and the post of a frame that the slow path takes; None of one that it refuses."""
    try:
        request = read_operation(text, may_request=True)
        assert isinstance(request, SocketRequest) and (request.method, request.path) == ("POST", PATH)
        body: dict[str, Any] = READER.validators.posts.validate_python(request.body)
    except (ValidationError, Exception):
        return None
    (element,) = body.pop("posts")
    read = READER.read_items([element])
    return None if body or read.errors or not isinstance(request.ref, int) else (request.ref, read.command)


def check(frames: list[str]) -> int:
    """Read frames as a burst, and each of those that are taken by itself; how many they are."""
    head = head_of(frames[0])
    burst = None if head is None else cut_burst(head, frames)
    if burst is None:
        return 0
    assert FEWEST <= len(burst.refs) <= len(frames)
    found = READER.cut(burst)
    if found is None:
        return 0
    assert FEWEST <= len(found) <= len(burst.refs)
    assert found.skip and found.apart and not found.payload and found.keywords.sound
    one_by_one = [read_one(text) for text in frames[: len(found)]]
    assert None not in one_by_one, frames
    wanted = [one for one in one_by_one if one is not None]
    assert burst.refs[: len(found)] == [ref for ref, _ in wanted]
    given = ["id" in json.loads(text)["body"]["posts"][0] for text in frames[: len(found)]]
    assert [id for id, its in zip(found.ids, given, strict=True) if its] == [
        post.ids[0] for (_, post), its in zip(wanted, given, strict=True) if its
    ]
    generated = [id for id, its in zip(found.ids, given, strict=True) if not its]
    assert len(set(generated)) == len(generated) and all(id.startswith("p-") for id in generated)
    np.testing.assert_array_equal(found.points, np.concatenate([post.points for _, post in wanted]))
    assert found.keywords.shown() == [post.keywords.shown()[0] for _, post in wanted]
    assert [list(shown) for shown in found.keywords.shown()] == [list(post.keywords.shown()[0]) for _, post in wanted]
    assert found.keywords.count_unweighted() == sum(post.keywords.count_unweighted() for _, post in wanted)
    return len(found)


@given(st.lists(GOOD_POSTS, min_size=FEWEST, max_size=3 * FEWEST))
def test_good_posts_are_all_taken(bodies: list[str]) -> None:
    """But where a post has no keywords, or very many that are not in order."""
    taken = check([frame(ref, body) for ref, body in enumerate(bodies)])
    plain = 0
    for body in bodies:
        words = json.loads(body)["posts"][0]["keywords"] if _names_differ(body) else []
        if not words or (isinstance(words, dict) and len(words) > MOST_COMPARED and list(words) != sorted(words)):
            break
        plain += 1
    assert taken == (plain if plain >= FEWEST else 0)


def _names_differ(body: str) -> bool:
    """Whether no name of an object is there twice."""

    def differ(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        json.loads(body, object_pairs_hook=differ)
    except ValueError:
        return False
    return True


def post(id: str = "p", keywords: str = '["a"]', location: str = "[1,2]", more: str = "") -> str:
    return f'{{"posts":[{{"id":"{id}","keywords":{keywords},"location":{location}{more}}}]}}'


def words(count: int) -> str:
    return json.dumps(["a"] * count)


@pytest.mark.parametrize(
    "body",
    [
        post("p" * 129),
        post(".p"),
        post("é"),
        post(keywords='["%s"]' % ("b" * 129)),
        post(keywords='["B"]'),
        post(keywords='["É"]'),
        post(keywords='["a b"]'),
        post(keywords='[""]'),
        post(keywords="[]"),
        post(keywords=words(1_001)),
        post(keywords='{"a":1,"b":0}'),
        post(keywords='{"a":1,"b":-1}'),
        post(keywords='{"a":1,"b":1e-400}'),
        post(keywords='{"b":1,"a":1,"b":2}'),
        post(location="[1,9007199254740994]"),
        post(location="[1,-1e400]"),
        post(location="[1,2,3]"),
        post(location="[1]"),
        post(more=',"id":"p"'),
        post(more=',"location":[1,2]'),
        post(more=',"keywords":["a"]'),
        post(more=',"payload":1'),
        post()[:-1] + ',"on_error":"skip"}',
        post() + " {}",
        post()[:-2] + "," + post()[10:],
    ],
)
def test_what_may_be_wrong_is_not_taken(body: str) -> None:
    frames = [frame(ref, BODY) for ref in range(FEWEST - 1)]
    assert check([*frames, frame(FEWEST, body)]) == 0


@pytest.mark.parametrize(
    "body",
    [
        post("p" * 128),
        post(keywords='["%s"]' % ("b" * 128)),
        post(keywords='["b","a","b"]'),
        post(keywords=words(1_000)),
        post(keywords='{"b":1,"a":9007199254740992}'),
        post(location="[-0.0,1.5e-7]"),
        post() + " ",
    ],
)
def test_what_is_surely_good_is_taken(body: str) -> None:
    frames = [frame(ref, BODY) for ref in range(FEWEST - 1)]
    assert check([*frames, frame(FEWEST, body)]) == FEWEST


@given(ANY_POSTS | broken(GOOD_POSTS | ANY_POSTS), st.integers(0, 1))
def test_what_is_taken_is_what_each_says(body: str, behind: int) -> None:
    """Whatever is the last one that makes a burst of some."""
    frames = [frame(ref, BODY) for ref in range(FEWEST - 1)]
    check([*frames, frame(FEWEST, body), *frames[:behind]])


@given(broken(GOOD_POSTS.map(lambda body: frame(7, body))), st.integers(0, 1))
def test_what_is_taken_is_what_each_broken_frame_says(wrong: str, behind: int) -> None:
    frames = [frame(ref, BODY) for ref in range(FEWEST - 1)]
    check([*frames, wrong, *frames[:behind]])


def record(body: bytes) -> bytearray | None:
    return record_of(cutter(), body)


def check_alone(body: bytes) -> bool:
    """Cut a body that comes alone, and read it as the validators do if it was taken; whether it was."""
    found = record(body)
    if found is None:
        return False
    check_literals(body)
    parsed: dict[str, Any] = READER.validators.posts.validate_json(body)
    (element,) = parsed.pop("posts")
    read = READER.read_items([element])
    assert not parsed and not read.errors
    wanted, alone = read.command, READER.read_items([found]).command
    words = wanted.keywords.words()
    is_in_order = all(a < b for a, b in pairwise(words))
    assert alone.keywords.record == (found if is_in_order else None)
    # Of several some may be records, and of a group others commands that were cut out of bursts.
    for items in ([found], [found, found], [found, element, alone], [alone, found]):
        several = READER.read_items(items).command
        assert several.skip and several.apart and not several.payload
        assert several.keywords.sound and len(several) == len(items)
        if "id" in element:
            assert several.ids == [element["id"]] * len(items)
        else:
            assert all(id.startswith("p-") for id in several.ids)
        assert several.keywords.shown() == wanted.keywords.shown() * len(items)
        assert [list(shown) for shown in several.keywords.shown()] == [list(wanted.keywords.shown()[0])] * len(items)
        assert several.keywords.count_unweighted() == wanted.keywords.count_unweighted() * len(items)
        np.testing.assert_array_equal(several.points, np.repeat(wanted.points, len(items), axis=0))
    assert not np.signbit(alone.points[alone.points == 0.0]).any()
    return True


@given(GOOD_POSTS | ANY_POSTS | broken(GOOD_POSTS | ANY_POSTS))
def test_what_is_taken_of_a_body_alone_is_what_it_says(body: str) -> None:
    check_alone(body.encode())


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        post("p" * 128),
        post(keywords='["é","b","a","b"]'),
        post(keywords='{"a":1,"b":9007199254740992}'),
        post(keywords='{"b":1,"a":0.5}'),
        post(location="[-0.0,1.5e-7]").replace('"id":"p",', ""),
        post(keywords=words(WORDS_OF_ONE)),
        post() + " ",
    ],
)
def test_what_is_surely_good_is_taken_of_a_body_alone(body: str) -> None:
    assert check_alone(body.encode())


@pytest.mark.parametrize(
    "body",
    [
        post(keywords=words(WORDS_OF_ONE + 1)).encode(),
        post(keywords='["B"]').encode(),
        post(keywords='["É"]').encode(),
        post(keywords='["_"]').encode().replace(b"_", b"\xff"),
        post(keywords='["_"]').encode().replace(b"_", b"\xed\xa0\x80"),
        post(keywords="[]").encode(),
        post(more=',"payload":1').encode(),
        post()[:-1].encode() + b',"on_error":"skip"}',
        post().encode() + bytes([32]) * LONGEST,
        post().encode()[:-1],
        b"",
    ],
)
def test_what_may_be_wrong_is_not_taken_of_a_body_alone(body: bytes) -> None:
    # What lies behind it in memory is a body that is good.
    assert record(BODY.encode() + b" " * 300) is not None
    assert record(body) is None


@pytest.mark.parametrize(
    "other",
    [
        frame("01", BODY),
        frame("-1", BODY),
        frame("1.0", BODY),
        frame('"r"', BODY),
        frame("1" * 16, BODY),
        frame(1, BODY) + " ",
        frame(1, BODY).replace(PATH, "/v1/feeds/g/posts"),
        frame(1, BODY).replace("POST", "PUT"),
        frame(1, BODY)[:-1] + ',"headers":{}}',
        frame(1, BODY)[:-1],
        frame(1, BODY) + "}",
        frame(1, BODY).replace(":", ":\u2003"),
        frame(1, BODY).replace(":", ":\f"),
        "",
        "}",
    ],
)
def test_a_frame_with_another_head_ends_a_burst(other: str) -> None:
    frames = [frame(ref, BODY) for ref in range(FEWEST)] + [other] + [frame(9, BODY)] * FEWEST
    assert check(frames) == FEWEST
    assert check([*frames[1:FEWEST], other, *frames[-FEWEST:]]) == 0


def test_frames_that_are_one_only_together_are_none() -> None:
    """As texts one behind the other they would be as many requests as there are frames."""
    halves = [frame(1, BODY)[:60], frame(1, BODY)[60:]]
    two = [frame(1, BODY) + "\n" + frame(2, BODY)]
    assert check([*[frame(0, BODY)] * FEWEST, *halves, *two]) == 0
    assert check([*[frame(0, BODY)] * FEWEST, *halves]) == FEWEST


@pytest.mark.parametrize(
    "path", ["/v1/feeds/f/posts?on_error=skip", r"/v1/feeds\u002ff/posts", "/v1/feeds/é/posts", ""]
)
def test_heads_are_those_of_plain_paths(path: str) -> None:
    head = head_of(frame(1, BODY).replace(PATH, path))
    assert (head is None) == ("\\" in path or "é" in path)
    assert head is None or (head.method, head.path) == ("POST", path)


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_nothing_is_compiled_for_a_burst() -> None:
    warm()
    with compiled() as kernels:
        assert check([frame(ref, BODY) for ref in range(FEWEST)]) == FEWEST
    assert not kernels


def test_a_long_head_is_none() -> None:
    assert head_of(frame(1, BODY).replace(PATH, "/" + "a" * 600)) is None


@pytest.mark.parametrize("space", ["", " ", "  "])
def test_heads_may_have_spaces(space: str) -> None:
    assert (
        check([frame(ref, BODY).replace(":", f"{space}:{space}").replace(",", f",{space}") for ref in range(20)]) == 20
    )


@pytest.mark.parametrize("space", ["\u2003", "\f", "\x1c", "\n"])
def test_other_space_is_none_of_a_head(space: str) -> None:
    assert check([frame(ref, BODY).replace(":", f":{space}", 3) for ref in range(20)]) == 0
