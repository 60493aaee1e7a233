"""Server-sent events, read incrementally from bytes (the event stream format of the HTML standard).

Lines end in LF, CR or CRLF and nothing else: text that holds other line separators, which JSON may, is left alone.
"""

from __future__ import annotations

from typing import NamedTuple


class Block(NamedTuple):
    """What stood between two empty lines. `data` is None for a block without data, as a heartbeat is."""

    event: str
    data: str | None
    id: str | None


class Parser:
    """Turns chunks, cut anywhere, into blocks. O(bytes) in all."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._after_cr = False
        self._start()

    def _start(self) -> None:
        self._event = ""
        self._data: list[str] | None = None
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[Block]:
        """The blocks that this chunk completes."""
        blocks = []
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        for line in chunk.splitlines(keepends=True):
            self._parts.append(line)
            if not line.endswith((b"\n", b"\r")):
                break
            whole = b"".join(self._parts).rstrip(b"\r\n")
            self._parts.clear()
            if whole:
                self._field(whole.decode("utf-8", "replace"))
                continue
            if self._data is not None or self._id is not None or self._event:
                data = None if self._data is None else "\n".join(self._data)
                blocks.append(Block(self._event or "message", data, self._id))
            self._start()
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        return blocks

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data = [*(self._data or ()), value]
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
