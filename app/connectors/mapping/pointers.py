"""JSON pointers (RFC 6901)."""

from __future__ import annotations

import re
from typing import Any

LONGEST = 1_000
_TOKEN = re.compile(r"(?:[^~/]|~[01])*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class BadPointer(ValueError):
    """A text is no JSON pointer; the message says why."""


class Missing(LookupError):
    """Nothing is there."""


def parse(text: str) -> tuple[str, ...]:
    """The keys of a pointer, outermost first. Raises BadPointer.

    >>> parse("/flight/a~1b"), parse("")
    (('flight', 'a/b'), ())
    """
    if len(text) > LONGEST:
        raise BadPointer(f"has more than {LONGEST} characters")
    if not text:
        return ()
    if text[0] != "/":
        raise BadPointer(f"{text!r} is no JSON pointer: it begins with a slash")
    tokens = text[1:].split("/")
    if not all(map(_TOKEN.fullmatch, tokens)):
        raise BadPointer(f"{text!r} is no JSON pointer: a ~ stands before 0 or 1")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def find(keys: tuple[str, ...], value: Any) -> Any:
    """What a pointer leads to. Raises Missing."""
    for key in keys:
        if isinstance(value, dict):
            if key not in value:
                raise Missing
            value = value[key]
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            raise Missing
    return value
