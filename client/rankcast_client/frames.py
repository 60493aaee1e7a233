"""The frames of a WebSocket: JSON in text frames, or the same objects as MessagePack in binary ones. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rankcast_client.calls import dumps

Frame = str | bytes


class JsonFrames:
    """Objects as JSON. A body that is JSON text already goes as it is."""

    def dump(self, message: Mapping[str, Any]) -> Frame:
        """A message as a frame."""
        return json.dumps(message)

    def request(self, head: Mapping[str, Any], body: bytes | None) -> Frame:
        """A request, whose body is JSON text, as a frame. Raises ValueError for what no frame can have."""
        text = dumps(head).decode()
        return text if body is None else f'{text[:-1]},"body":{body.decode()}}}'


class PackedFrames(JsonFrames):
    """Objects as MessagePack. Needs the extra `rankcast-client[msgpack]`."""

    def __init__(self) -> None:
        self._pack = _msgpack().packb

    def dump(self, message: Mapping[str, Any]) -> Frame:
        """A message as a frame."""
        found: bytes = self._pack(message)
        return found

    def request(self, head: Mapping[str, Any], body: bytes | None) -> Frame:
        """A request, whose body is JSON text, as a frame: a text frame where it has an integer of more than 64 bits."""
        try:
            return self.dump({**head, **({} if body is None else {"body": json.loads(body)})})
        except OverflowError:
            return super().request(head, body)


def load(frame: Frame) -> dict[str, Any]:
    """The object in a frame of either kind."""
    found: dict[str, Any] = json.loads(frame) if isinstance(frame, str) else _msgpack().unpackb(frame)
    return found


def frames(packed: bool) -> JsonFrames:
    """What writes frames."""
    return PackedFrames() if packed else JsonFrames()


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError as missing:
        raise ImportError("MessagePack needs an extra: pip install 'rankcast-client[msgpack]'") from missing
    return msgpack
