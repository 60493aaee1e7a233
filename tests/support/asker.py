"""Requests over the WebSocket of a service in the test's process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.app_client import AppClient, Socket

HOST = {"Host": "127.0.0.1"}
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]}
WINDOW = 128


class Asker:
    """The requests of one socket, named by numbers."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self._refs = iter(range(1 << 30))

    def frame(self, method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        frame: dict[str, Any] = {"op": "request", "ref": next(self._refs), "method": method, "path": path}
        return frame | ({} if body is None else {"body": body}) | ({"headers": named} if named else {})

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and body of the answer to a request, when none is under way."""
        frame = self.frame(method, path, body, **headers)
        self.socket.send_json(frame)
        answer = self.socket.receive_json()
        assert answer["event"] == "response" and answer["ref"] == frame["ref"], answer
        return answer["status"], answer["body"]

    def good(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, answer = self.ask(method, path, body, **headers)
        assert status < 300, answer
        return answer

    def all(self, frames: list[dict[str, Any]]) -> dict[int, tuple[int, Any]]:
        """Send requests with at most `WINDOW` of them unanswered; status and body of each by its ref."""
        answers: dict[int, tuple[int, Any]] = {}
        sent = 0
        while len(answers) < len(frames):
            more = frames[sent : len(answers) + WINDOW]
            self.socket.send_all(more)
            sent += len(more)
            answer = self.socket.receive_json()
            assert answer["event"] == "response", answer
            answers[answer["ref"]] = answer["status"], answer["body"]
        return answers


@contextmanager
def socket_of(client: AppClient, path: str = "/v1/stream", key: str | None = None) -> Iterator[Asker]:
    headers = HOST if key is None else {**HOST, "Authorization": f"Bearer {key}"}
    with client.websocket_connect(path, headers=headers) as socket:
        yield Asker(socket)
