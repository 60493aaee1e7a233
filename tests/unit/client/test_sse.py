"""Server-sent events are read right however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rankcast_client.sse import Block, Parser

TEXT = (
    'id: e:1\nevent: snapshot\ndata: {"a": 1}\n\n'
    ": a comment\n\n"
    "id: e:2\r\n\r\n"
    "event: change\rdata:x\rdata: y\r\r"
    "data: \u2028 \u0085 stays\n\n"
    "id\ndata\n\n"
    "data: never finished\n"
)
BLOCKS = [
    Block("snapshot", '{"a": 1}', "e:1"),
    Block("message", None, "e:2"),
    Block("change", "x\ny", None),
    Block("message", "\u2028 \u0085 stays", None),
    Block("message", "", ""),
]


@given(st.lists(st.integers(0, len(TEXT.encode())), max_size=20))
def test_blocks_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    data = TEXT.encode()
    places = [0, *sorted(cuts), len(data)]
    parser = Parser()
    blocks = [found for a, b in pairwise(places) for found in parser.feed(data[a:b])]
    assert blocks == BLOCKS
