"""Generate `asyncapi.yaml` from `app.api.messages`: `python -m tools.asyncapi`; with `--check` compare only.

It is an AsyncAPI 3 document of the streams: server-sent events for one subscription, a WebSocket for many. Operations
are named from the service's side: it sends events and receives operations.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from app.api.examples import EPOCH
from app.api.messages import OPERATIONS, REPLIES, STREAMS, Event, Stream
from app.version import version
from tools.documents import run

Json = dict[str, Any]
_SOCKET = "socket"


def document() -> Json:
    """The whole document."""
    models: list[type[BaseModel]] = [event.data for stream in STREAMS for event in stream.events]
    models += [event.data for event in REPLIES] + [model for model, _ in OPERATIONS.values()]
    components = Components()
    for model in dict.fromkeys(models):
        components.add_model(model)
    channels: Json = {}
    operations: Json = {}
    for stream in STREAMS:
        names = [components.add_sse(stream, event) for event in stream.events]
        channels[f"{stream.name}Stream"] = _sse_channel(stream, names)
        operations[f"{stream.name}_stream"] = _sse_operation(stream, names)
    sent = [
        components.add_socket(stream.resource, stream.name, event)
        for stream in STREAMS
        if stream.resource is not None
        for event in stream.events
    ]
    sent += [components.add_reply(event) for event in REPLIES]
    received = [components.add_operation(op, model, example) for op, (model, example) in OPERATIONS.items()]
    channels[_SOCKET] = {
        "address": "/v1/stream",
        "summary": "Many streams and requests on one WebSocket; one object a frame each way, as JSON in text frames or "
        "MessagePack in binary ones, which are answered in kind.",
        "servers": [{"$ref": "#/servers/websocket"}],
        "messages": {name: _ref("messages", name) for name in [*sent, *received]},
        "bindings": {"ws": {"method": "GET"}},
    }
    operations["socket_send"] = _socket_operation("send", "Events of the streams and replies", sent)
    operations["socket_receive"] = _socket_operation("receive", "Operations of the client", received)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Rankcast streams",
            "version": version(),
            "description": "What clients receive while subscriptions change. A cursor is `epoch:seq`: a stream that "
            "resumes from one continues where that is possible, and otherwise begins with `reset`.",
            "license": {"name": "Apache License 2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "http": _server("http", "Server-sent events."),
            "websocket": _server("ws", "One WebSocket for many subscriptions."),
        },
        "channels": channels,
        "operations": operations,
        "components": {**components.document(), "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }


class Components:
    """Messages and schemas, by name."""

    def __init__(self) -> None:
        self._messages: Json = {}
        self._schemas: Json = {}

    def document(self) -> Json:
        return {"messages": self._messages, "schemas": dict(sorted(self._schemas.items()))}

    def add_model(self, model: type[BaseModel]) -> None:
        """A model and those that it refers to."""
        schema = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        self._schemas |= schema.pop("$defs", {})
        self._schemas[model.__name__] = schema

    def add_sse(self, stream: Stream, event: Event) -> str:
        """An event as the data of a server-sent event."""
        payload = {"$ref": f"#/components/schemas/{event.data.__name__}"}
        return self._add(f"{stream.name}_{event.name}", event.name, event.summary, payload, event.example)

    def add_socket(self, resource: str, stream: str, event: Event) -> str:
        """The same over the WebSocket, in its envelope."""
        envelope = {
            "resource": {"type": "string", "description": "The resource, as the client subscribed to it."},
            "id": {"type": "string", "description": "The id, as the client subscribed to it."},
            "event": {"const": event.name},
            "cursor": {"type": "string", "description": "Where to resume: `epoch:seq`."},
        }
        example = {"resource": resource, "id": "mine", "event": event.name}
        example |= {"cursor": f"{EPOCH}:{event.example['seq']}", **event.example}
        payload = self._with(envelope, event.data)
        return self._add(f"socket_{stream}_{event.name}", event.name, event.summary, payload, example)

    def add_reply(self, event: Event) -> str:
        """A message of the WebSocket that belongs to no stream."""
        payload = self._with({"event": {"const": event.name}}, event.data)
        example = {"event": event.name, **event.example}
        return self._add(f"socket_{event.name}", event.name, event.summary, payload, example)

    def add_operation(self, op: str, model: type[BaseModel], example: Mapping[str, Any]) -> str:
        """What a client sends."""
        payload = {"$ref": f"#/components/schemas/{model.__name__}"}
        return self._add(f"socket_{op}", op, " ".join((model.__doc__ or "").split()), payload, example)

    @staticmethod
    def _with(fields: Json, data: type[BaseModel]) -> Json:
        own = {"type": "object", "required": list(fields), "properties": fields}
        return {"allOf": [own, {"$ref": f"#/components/schemas/{data.__name__}"}]}

    def _add(self, key: str, name: str, summary: str, payload: Json, example: Mapping[str, Any]) -> str:
        examples = [{"payload": dict(example)}]
        self._messages[key] = {"name": name, "summary": summary, "payload": payload, "examples": examples}
        return key


def _server(protocol: str, description: str) -> Json:
    return {"host": "127.0.0.1:8000", "protocol": protocol, "description": description}


def _ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _sse_channel(stream: Stream, names: list[str]) -> Json:
    found = re.findall(r"{(\w+)}", stream.path)
    about = {name: f"Name of the {name}." for name in found} | {"id": "Id of what is followed."}
    return {
        "address": stream.path,
        "summary": f"{stream.summary}, as server-sent events.",
        "description": "`event:` is the name of the message, `data:` its payload, `id:` the cursor. A block with an id "
        "alone is a heartbeat.",
        "servers": [{"$ref": "#/servers/http"}],
        "parameters": {name: {"description": about[name]} for name in found},
        "messages": {name: _ref("messages", name) for name in names},
    }


def _sse_operation(stream: Stream, names: list[str]) -> Json:
    channel = f"#/channels/{stream.name}Stream"
    query = TypeAdapter(stream.query).json_schema()
    query = {"type": "object", "properties": query.get("properties", {})}
    return {
        "action": "send",
        "channel": {"$ref": channel},
        "summary": stream.summary,
        "security": [{"$ref": "#/components/securitySchemes/key"}],
        "messages": [{"$ref": f"{channel}/messages/{name}"} for name in names],
        "bindings": {"http": {"method": "GET", "query": query}},
    }


def _socket_operation(action: str, summary: str, names: list[str]) -> Json:
    channel = f"#/channels/{_SOCKET}"
    return {
        "action": action,
        "channel": {"$ref": channel},
        "summary": summary,
        "security": [{"$ref": "#/components/securitySchemes/key"}],
        "messages": [{"$ref": f"{channel}/messages/{name}"} for name in names],
    }


if __name__ == "__main__":
    sys.exit(run(__doc__, "asyncapi.yaml", document))
