"""MessagePack of a socket: what JSON has comes through, all else is refused, also in large frames."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from app.streaming import frames
from app.streaming.frames import BINARY, TEXT, encode_json, head_of, is_ref, pack, pack_json, read_packed, read_text

leaves = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20), max_leaves=60
)


@given(values)
def test_the_check_of_large_frames_refuses_nothing_that_is_json(value: Any) -> None:
    data = msgpack.packb(value)
    try:
        encode_json(value)
    except (TypeError, ValueError):
        return
    frames._check(data)
    assert read_packed(data) == value
    assert read_packed(pack(value)) == value
    assert pack_json(encode_json(value)) == pack(json.loads(encode_json(value)))


@given(st.binary(max_size=300))
def test_what_the_check_takes_is_read_or_refused(data: bytes) -> None:
    """It never refuses less than it must: whatever it takes, msgpack reads without asking for more than there is."""
    try:
        frames._check(data)
    except ValueError:
        return
    try:
        value = read_packed(data)
    except ValueError:
        return
    assert not isinstance(value, bytes | msgpack.ExtType)


@given(st.binary(min_size=1, max_size=60), st.integers(0, 59))
def test_cut_frames_are_refused(text: bytes, cut: int) -> None:
    data = msgpack.packb({"a": [text.hex(), 1.5, 2**40]})
    shorter = data[: min(cut, len(data) - 1)]
    for read in (read_packed, frames._check):
        with pytest.raises(ValueError, match=r"."):
            read(shorter)


def test_lists_are_not_made_larger_than_their_frame() -> None:
    announced = b"".join(b"\xdd" + (90_000).to_bytes(4, "big") for _ in range(100)) + bytes(90_000)
    with pytest.raises(ValueError, match="ends early"):
        read_packed(announced)
    with pytest.raises(ValueError, match="deep"):
        read_packed(b"\x91" * 5_000 + b"\x01")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"\xc1", "begins no value"),
        (b"\x91" * 2_000, "nested too deeply"),
        (b"\x91" * 6_000, "at most 128 deep"),
        (b"", "incomplete"),
        (b"\x01\x02", "extra data"),
    ],
)
def test_what_cannot_be_unpacked_is_refused_with_a_reason(frame: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_packed(frame)


@pytest.mark.parametrize(
    ("value", "good"),
    [(1, True), (-1.5, True), ("", True), (True, False), (None, False), ([], False), (float("nan"), False)],
)
def test_a_ref_is_a_number_or_a_string(value: Any, good: bool) -> None:
    assert is_ref(value) == good


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", "", '"\\ud800"', "[" * 300])
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_text(text)


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_beyond_the_range_of_float64_is_the_largest_one(sign: str) -> None:
    largest = float(f"{sign}{sys.float_info.max}")
    assert read_packed(pack_json(f'{{"n":[{sign}1{"0" * 400}]}}')) == {"n": [largest]}
    assert read_packed(pack_json(f"{sign}1{'0' * 300}")) == float(f"{sign}1e300")


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 70_000])
@pytest.mark.parametrize(("kind", "opcode"), [(TEXT, Opcode.TEXT), (BINARY, Opcode.BINARY)])
def test_a_message_has_the_head_of_a_frame_that_is_not_masked(size: int, kind: int, opcode: Opcode) -> None:
    data = b"x" * size
    assert head_of(kind, size) + data == Frame(opcode, data).serialize(mask=False)
