"""The head of a response is written together with what follows at once, and not held back for long."""

from __future__ import annotations

import asyncio

import pytest

from app.server.http import JOINED, JoinedWrites

LONG = "b" * (JOINED + 1)


class Written(asyncio.Transport):
    """A transport that notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["head", "body"], [b"headbody"]),
        (["head", "", "more"], [b"head", b"more"]),
        (["head", "body", None, "more"], [b"headbody", b"more"]),
        (["head", None, "body", "more"], [b"head", b"body", b"more"]),
        (["head", None], [b"head"]),
        (["head", "close", None], [b"head"]),
        (["head", "gone", None], []),
        (["head", LONG, "more"], [b"head", LONG.encode(), b"more"]),
    ],
)
def test_a_head_is_written_with_what_follows_in_its_turn(steps: list[str | None], expected: list[bytes]) -> None:
    async def run() -> list[bytes]:
        to = Written()
        together = JoinedWrites(asyncio.get_running_loop(), to)
        for step in steps:
            if step is None:
                await asyncio.sleep(0)
            elif step == "close":
                together.close()
                assert together.is_closing()
            elif step == "gone":
                to.close()
            else:
                together.write(step.encode())
        return to.pieces

    assert asyncio.run(run()) == expected
