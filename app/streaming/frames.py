"""The frames of a WebSocket: JSON in text, or the same objects as MessagePack in binary frames. Also the chunks of a
response's body.

MessagePack has more than JSON: binary data, extension types, keys of any type, numbers that are not finite. All of that
is refused.
"""

from __future__ import annotations

import json
import math
import sys
from struct import Struct
from typing import Any, TypeAlias, TypeGuard

import msgpack
from pydantic_core import from_json

DEEPEST = 128
"""Lists and maps inside each other in a binary frame."""

SMALL = 1 << 12
"""Bytes up to which a binary frame is read unseen: msgpack makes room for as many elements as a list announces, before
they have come, and that at each of up to 1,024 levels."""

Content: TypeAlias = str | tuple[bytes, ...] | bytes
"""A message: text, as it is or as UTF-8 in pieces, or what is sent in a binary frame."""

TEXT, BINARY = 0x81, 0x82
"""First bytes of a message in one frame."""

MIDDLE, LONG = Struct("!BBH").pack, Struct("!BBQ").pack
"""Heads of frames that are not small, by their first byte, 126 or 127, and the size of the message."""

_WORDS = '"keywords"'
"""The name of an object whose keys are words: too many for each to be looked for among those that came before."""

encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""A value as compact JSON text. Raises ValueError and TypeError for what is not JSON."""


def read_text(frame: str) -> Any:
    """The value of a text frame. Raises ValueError."""
    return from_json(frame, allow_inf_nan=False, cache_strings="none" if _WORDS in frame else "keys")


def read_packed(frame: bytes) -> Any:
    """The value of a binary frame. Raises ValueError.

    It may have binary data and numbers that are not finite in it: `encode_json` refuses them.
    """
    if len(frame) > SMALL:
        _check(frame)
    try:
        return msgpack.unpackb(frame, ext_hook=_no_extension, timestamp=0, strict_map_key=True)
    except (msgpack.StackError, RecursionError):
        raise ValueError("it is nested too deeply") from None
    except msgpack.FormatError:
        raise ValueError("it has a byte that begins no value") from None
    except msgpack.UnpackException as error:
        raise ValueError(str(error) or "it cannot be unpacked") from None


def pack(value: Any) -> bytes:
    """A value of JSON as MessagePack. An integer that MessagePack has no room for becomes a float64."""
    found: bytes = msgpack.packb(value, default=_as_float)
    return found


def head_of(kind: int, size: int) -> bytes:
    """The head of a message in one frame, which is not masked.

    >>> head_of(TEXT, 5).hex(), head_of(TEXT, 300).hex(), head_of(BINARY, 65_536).hex()
    ('8105', '817e012c', '827f0000000000010000')
    """
    if size < 126:
        return bytes((kind, size))
    return MIDDLE(kind, 126, size) if size <= 0xFFFF else LONG(kind, 127, size)


TEXT_HEADS = [head_of(TEXT, size) for size in range(1 << 10)]
"""The heads of text frames of messages that are not large, by their size."""


def chunk(body: bytes) -> bytes:
    r"""A piece of a body that is sent in chunks.

    >>> chunk(b"id: e:43\n\n")
    b'a\r\nid: e:43\n\n\r\n'
    """
    return b"%x\r\n%b\r\n" % (len(body), body)


def pack_json(text: str | bytes) -> bytes:
    """JSON text as MessagePack."""
    return pack(from_json(text, cache_strings="keys"))


def is_ref(value: Any) -> TypeGuard[int | float | str]:
    """Whether a value is a number or string of JSON, by which a client may name its request."""
    kind = type(value)
    return kind is int or kind is str or (kind is float and math.isfinite(value))


def _as_float(value: Any) -> float:
    if not isinstance(value, int):
        raise TypeError(f"{type(value).__name__} is not JSON")
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"the extension type {code} is not JSON")


def _tokens() -> list[tuple[int, int, int]]:
    """For each first byte: the bytes of the length behind it, those of the value itself, and how many values follow for
    each that is announced (the length, where there is one, counts them or bytes). A length of -1 is refused.
    """
    refused = (-1, 0, 0)
    table: list[tuple[int, int, int]] = [(0, 0, 0)] * 0x80  # positive fixint
    table += [(0, 0, 2 * n) for n in range(16)]  # fixmap
    table += [(0, 0, n) for n in range(16)]  # fixarray
    table += [(0, n, 0) for n in range(32)]  # fixstr
    table += [(0, 0, 0), refused, (0, 0, 0), (0, 0, 0)]  # nil, never used, false, true
    table += [refused] * 6  # bin, ext
    table += [(0, 4, 0), (0, 8, 0)]  # float
    table += [(0, n, 0) for n in (1, 2, 4, 8, 1, 2, 4, 8)]  # uint, int
    table += [refused] * 5  # fixext
    table += [(n, 1, 0) for n in (1, 2, 4)]  # str
    table += [(n, 0, 1) for n in (2, 4)]  # array
    table += [(n, 0, 2) for n in (2, 4)]  # map
    table += [(0, 0, 0)] * 0x20  # negative fixint
    return table


_TOKENS = _tokens()


def _check(frame: bytes) -> None:
    """Raise ValueError for what a list or map announces more of than there can be, for types that JSON does not have,
    and for what is nested too deeply. O(values).
    """
    at, end, table = 0, len(frame), _TOKENS
    left = 1
    outer: list[int] = []
    while True:
        if at >= end:
            raise ValueError("it ends early")
        length, own, each = table[frame[at]]
        at += 1
        left -= 1
        if length:
            if length < 0:
                raise ValueError("binary data and extension types are not JSON")
            announced = int.from_bytes(frame[at : at + length], "big")
            at += length
            own, each = announced * own, announced * each
        if each:
            if each > end - at:
                raise ValueError("it ends early")
            if len(outer) >= DEEPEST:
                raise ValueError(f"lists and maps are at most {DEEPEST} deep")
            outer.append(left)
            left = each
        else:
            at += own
        while not left:
            if not outer:
                if at > end:
                    raise ValueError("it ends early")
                return
            left = outer.pop()
