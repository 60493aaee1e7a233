"""Frames of a live socket, in pieces and together, of all sizes, and large requests."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from random import Random
from urllib.parse import urlsplit

import httpx
import pytest
import websockets

from app.server.websocket import LARGEST_WRITTEN
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE

CONFIG = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]}
HANDSHAKE = (
    "GET /v1/stream HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


def frame(payload: bytes, first: int = 0x81, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    """A client's frame."""
    size = len(payload)
    if size < 126:
        head = bytes((first, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((first, 0xFE)) + struct.pack(">H", size)
    else:
        head = bytes((first, 0xFF)) + struct.pack(">Q", size)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


def asking(ref: int, size: int) -> bytes:
    """A request whose frame is about so long."""
    asked = {"op": "request", "ref": ref, "method": "GET", "path": "/v1/boards", "headers": {"X-Filler": "f" * size}}
    return json.dumps(asked).encode()


class Raw:
    """A socket whose bytes are written as they are."""

    def __init__(self, service: LiveService) -> None:
        host = urlsplit(service.url).netloc
        name, port = host.split(":")
        self.connection = socket.create_connection((name, int(port)), PATIENCE)
        self.connection.sendall(HANDSHAKE.format(host=host).encode())
        self.read = b""

    def until(self, size: int) -> None:
        while len(self.read) < size:
            more = self.connection.recv(1 << 16)
            assert more, self.read
            self.read += more

    def opened(self) -> None:
        while b"\r\n\r\n" not in self.read:
            self.until(len(self.read) + 1)
        head, _, self.read = self.read.partition(b"\r\n\r\n")
        assert b" 101 " in head

    def next(self) -> tuple[int, bytes]:
        """The opcode and payload of the next frame."""
        self.until(2)
        size, begin = self.read[1], 2
        if size == 126:
            self.until(4)
            size, begin = struct.unpack(">H", self.read[2:4])[0], 4
        elif size == 127:
            self.until(10)
            size, begin = struct.unpack(">Q", self.read[2:10])[0], 10
        self.until(begin + size)
        kind, payload = self.read[0] & 0x0F, self.read[begin : begin + size]
        self.read = self.read[begin + size :]
        return kind, payload

    def refs(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            kind, payload = self.next()
            answer = json.loads(payload) if kind == 1 else {}
            if answer.get("event") == "response":
                assert answer["status"] == 200, answer
                found.append(answer["ref"])
        return found


def test_frames_may_come_in_any_pieces(service: LiveService) -> None:
    draw = Random(3)
    sizes = [0, 10, 100, 125, 126, 127, 500, 4_000, 5_000, 20_000, 61_000] * 4
    draw.shuffle(sizes)
    stream = b""
    for ref, size in enumerate(sizes):
        whole = asking(ref, size)
        match draw.randrange(5):
            case 0 if len(whole) > 3:  # in three fragments, with a ping between them
                stream += (
                    frame(whole[:1], 0x01) + frame(whole[1:-1], 0x00) + frame(b"p", 0x89) + frame(whole[-1:], 0x80)
                )
            case 1:
                stream += frame(b"ping", 0x89) + frame(whole)
            case _:
                stream += frame(whole)
    raw = Raw(service)
    raw.opened()
    at = 0
    answered: list[int] = []
    while at < len(stream):
        size = draw.choice((1, 2, 3, 7, 100, 1_000, 4_096, 30_000))
        raw.connection.sendall(stream[at : at + size])
        at += size
    answered += raw.refs(len(sizes))
    assert sorted(answered) == list(range(len(sizes)))
    raw.connection.close()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"x" * 10, 0xC1), 1002),
        (frame(b"x" * 10, 0x83), 1002),
        (frame(b"x", 0x89 | 0x20), 1002),
        (frame(b"\xff\xfe"), 1007),
        (frame(b"\xed\xa0\x80"), 1007),
        (frame(b"a" * 70_000 + b"\xff"), 1007),
        (frame(b"\xe2\x82", 0x01) + frame(b"\x28", 0x80), 1007),
        (frame(b"\xe2", 0x01) + frame(b"p", 0x89) + frame(b"", 0x80), 1007),
        (frame(struct.pack(">H", 1000) + b"\xff", 0x88), 1007),
        (frame(b"x", 0x88), 1002),
        (frame(struct.pack(">H", 1005), 0x88), 1002),
        (frame(b"x", 0x09), 1002),
        (frame(b"x", 0x01) + frame(struct.pack(">H", 1000), 0x88), 1002),
        (bytes((0x81, 5)) + b"hello", 1002),
        (bytes((0x81, 0xFF)) + struct.pack(">Q", 1 << 62) + b"mask", 1009),
        (bytes((0x82, 0xFF)) + struct.pack(">Q", 1 << 40) + b"mask", 1009),
        (frame(b"x", 0x00), 1002),
        (frame(b"x", 0x01) + frame(b"x", 0x81), 1002),
        (frame(b"x" * 126, 0x89), 1002),
    ],
)
def test_what_is_no_frame_closes_the_socket(service: LiveService, data: bytes, code: int) -> None:
    logged = len(service.log.read_text())
    raw = Raw(service)
    raw.opened()
    raw.connection.sendall(frame(asking(1, 0)) + data + frame(asking(2, 0)))
    while (found := raw.next())[0] != 8:
        assert found[0] == 10 or json.loads(found[1]).get("ref") != 2
    assert struct.unpack(">H", found[1][:2])[0] == code
    raw.connection.close()
    # Any client can send such frames.
    assert "Traceback" not in service.log.read_text()[logged:]


def test_characters_may_be_divided_between_fragments(service: LiveService) -> None:
    text = json.dumps(
        {"op": "request", "ref": "é€😀", "method": "GET", "path": "/healthz"}, ensure_ascii=False
    ).encode()
    raw = Raw(service)
    raw.opened()
    parts = [frame(text[:1], 0x01), *(frame(bytes((byte,)), 0x00) for byte in text[1:-1]), frame(text[-1:], 0x80)]
    raw.connection.sendall(b"".join(parts))
    kind, answer = raw.next()
    assert kind == 1 and json.loads(answer)["ref"] == "é€😀"
    raw.connection.close()


def test_a_request_may_be_as_large_as_a_body(service: LiveService) -> None:
    payload = "x" * 3_900

    async def run() -> None:
        url = f"ws{service.url.removeprefix('http')}/v1/stream"
        async with asyncio.timeout(2 * PATIENCE), websockets.connect(url, max_size=None, proxy=None) as connection:

            async def ask(ref: int, method: str, path: str, body: object) -> tuple[int, dict[str, object]]:
                request = {"op": "request", "ref": ref, "method": method, "path": path, "body": body}
                await connection.send(json.dumps(request))
                answer = json.loads(await connection.recv())
                assert answer["ref"] == ref
                return answer["status"], answer["body"]

            assert (await ask(1, "PUT", "/v1/boards/large", CONFIG))[0] == 201
            events = [
                {"op": "upsert", "id": f"o{i}", "values": {"x": i, "y": 0}, "payload": payload} for i in range(3_000)
            ]
            status, body = await ask(2, "POST", "/v1/boards/large/events?messages=none", {"events": events})
            assert (status, body["applied"]) == (200, 3_000), "twelve megabytes"
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await ask(3, "PUT", "/v1/boards/large", "x" * (17 << 20))
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009

    asyncio.run(run())


def test_answers_to_a_group_have_frames_of_their_size(service: LiveService) -> None:
    """Small ones, long ones, and some on either side of the size at which the head of a frame is another one."""
    path, most = f"{service.url}/v1/relays/frames", 600
    assert httpx.put(path, json={"attributes": ["price"]}).status_code == 201
    ids = [f"{n:03}" + "x" * (120 if n else 0) for n in range(most)]
    made = [{"id": id, "box": {"price": [n, None]}} for n, id in enumerate(ids)]
    assert httpx.post(f"{path}/subscriptions", json={"subscriptions": made}).status_code == 201
    first = {"notifications": [{"values": {"price": -1}}]}
    assert httpx.post(f"{path}/notifications", json=first).status_code == 200
    path = "/v1/relays/frames/notifications"
    raw = Raw(service)
    raw.opened()
    prices = [-1, 0, 1, most, 3, 516, 517, 518, 519, 520, -1, most, 0]
    for refs in (range(len(prices)), ["a" * n for n in range(len(prices))]):
        raw.connection.sendall(
            b"".join(
                frame(json.dumps({"op": "request", "ref": ref, "method": "POST", "path": path, "body": body}).encode())
                for ref, body in zip(refs, [{"notifications": [{"values": {"price": n}}]} for n in prices], strict=True)
            )
        )
        answers = {}
        for _ in prices:
            kind, payload = raw.next()
            assert kind == 1
            answer = json.loads(payload)
            answers[answer["ref"]] = answer
            assert payload == json.dumps(answer, separators=(",", ":")).encode().replace(b"}]}}", b"}]}\n}")
        assert [answers[ref]["status"] for ref in refs] == [200] * len(prices)
        found = [answers[ref]["body"]["results"][0]["subscriptions"] for ref in refs]
        assert found == [ids[: price + 1] for price in prices]
    asked = {"op": "request", "method": "POST", "path": path, "body": {"notifications": [{"values": {"price": most}}]}}
    many = 1 + LARGEST_WRITTEN // len(json.dumps(ids))
    raw.connection.sendall(b"".join(frame(json.dumps({**asked, "ref": ref}).encode()) for ref in range(many)))
    assert raw.refs(many) == list(range(many)), "together they are larger than what is written in one piece"
