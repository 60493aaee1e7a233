"""The operations that a peer sends over a WebSocket, read from its frames."""

from __future__ import annotations

from typing import Any, TypeAlias

from app.errors import FieldError, Invalid, Malformed, ServiceError, TooLarge
from app.streaming.frames import encode_json, is_ref, read_packed, read_text

LARGEST_OPERATION = 1 << 12
"""Characters or bytes of an operation that is no request."""

LONG = 1 << 18
"""The same from which on a request is long."""

REQUEST = "request"

NEEDED = {
    "subscribe": ("resource", "id"),
    "unsubscribe": ("resource", "id"),
    "move": ("resource", "id", "location"),
    "ping": (),
    "auth": ("key",),
    REQUEST: ("ref", "method", "path"),
}
_OPTIONAL = {"subscribe": ("form", "after", "old", "ready", "squash"), REQUEST: ("headers", "body")}
_SWITCH = (bool,), "must be true or false"
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "old": _SWITCH,
    "ready": _SWITCH,
    "squash": ((int, float), "must be a number"),
    "location": ((list,), "must be a list"),
}
"""What the fields have to be that are no strings."""

_STRING = (str,), "must be a string"
_REQUEST_FIELDS = frozenset({"op", *NEEDED[REQUEST], *_OPTIONAL[REQUEST]})

_NO_HEADERS: dict[str, str] = {}

Ref: TypeAlias = int | float | str


class SocketRequest:
    """A request of the API over a socket, which its client calls `ref`.

    `body` is a value of JSON, None where there is none. What is `packed` came as MessagePack, and is answered so.
    `size` is that of its frame, in bytes or characters.
    """

    __slots__ = ("body", "headers", "method", "packed", "path", "ref", "size")

    def __init__(
        self, ref: Ref, method: str, path: str, headers: dict[str, str] | None, body: Any, packed: bool, size: int
    ) -> None:
        self.ref, self.method, self.path = ref, method, path
        self.headers, self.body = headers or _NO_HEADERS, body
        self.packed, self.size = packed, size

    @property
    def long(self) -> bool:
        """Whether it takes some time to read and to write."""
        return self.size > LONG


class Operation(dict[str, Any]):
    """Any other operation, by its fields. What is `packed` came as MessagePack, and is answered so."""

    packed = False


class Bad(Exception):
    """An invalid operation, with as much of it as could be read."""

    def __init__(self, error: ServiceError, operation: Operation) -> None:
        self.error = error
        self.operation = operation


def read_operation(frame: str | bytes, may_request: bool) -> Operation | SocketRequest:
    """An operation whose fields are there and are what they have to be. Raises `Bad`.

    A frame of a peer that must not send requests is not read where it is longer than all other operations.
    """
    packed = isinstance(frame, bytes)
    if len(frame) > LARGEST_OPERATION and not may_request:
        raise Bad(_too_large(), _nothing_known(packed))
    try:
        read = read_packed(frame) if isinstance(frame, bytes) else read_text(frame)
    except (ValueError, MemoryError) as error:
        kind = "MessagePack" if packed else "JSON"
        raise Bad(Malformed(f"the message is not {kind}: {str(error)[:200]}"), _nothing_known(packed)) from None
    whole = type(read) is dict
    if whole and read.get("op") == REQUEST:
        return _request(read, packed, len(frame))
    known = _nothing_known(packed)
    if len(frame) > LARGEST_OPERATION:
        raise Bad(_too_large(), known)
    if not whole:
        raise Bad(Invalid(FieldError("op", "an operation is an object")), known)
    if packed:
        try:
            encode_json(read)
        except (ValueError, TypeError, RecursionError) as error:
            raise Bad(Malformed(f"the message is no value of JSON: {str(error)[:200]}"), known) from None
    return _other(read, known)


def _nothing_known(packed: bool) -> Operation:
    """An operation of which no field is read yet."""
    known = Operation()
    known.packed = packed
    return known


def _too_large() -> TooLarge:
    return TooLarge(f"an operation that is no request has at most {LARGEST_OPERATION} characters")


def _request(read: dict[str, Any], packed: bool, size: int) -> SocketRequest:
    """A request. Raises `Bad`."""
    get = read.get
    ref, method, path, headers = get("ref"), get("method"), get("path"), get("headers")
    if (
        type(method) is str
        and type(path) is str
        and is_ref(ref)
        and read.keys() <= _REQUEST_FIELDS
        and (headers is None or _are_headers(headers))
    ):
        return SocketRequest(ref, method, path, headers, get("body"), packed, size)
    known = _nothing_known(packed)
    known["op"] = REQUEST
    errors = []
    if "ref" not in read:
        errors.append(FieldError("ref", "is required"))
    elif is_ref(ref):
        known["ref"] = ref
    else:
        errors.append(FieldError("ref", "must be a number or a string"))
    for field in ("method", "path"):
        if field not in read:
            errors.append(FieldError(field, "is required"))
        elif not isinstance(read[field], str):
            errors.append(FieldError(field, _STRING[1]))
    if headers is not None and not _are_headers(headers):
        errors.append(FieldError("headers", "must be an object of strings"))
    errors += [FieldError(str(field)[:80], "is not a known field") for field in read if field not in _REQUEST_FIELDS]
    raise Bad(Invalid(*errors), known)


def _are_headers(headers: Any) -> bool:
    return type(headers) is dict and all(type(name) is str and type(value) is str for name, value in headers.items())


def _other(read: dict[str, Any], known: Operation) -> Operation:
    """Any other operation. Raises `Bad`."""
    optional = _OPTIONAL["subscribe"]
    known.update({field: value for field, value in read.items() if value is not None or field not in optional})
    op = known.get("op")
    if not isinstance(op, str) or op not in NEEDED:
        raise Bad(Invalid(FieldError("op", f"must be one of {', '.join(NEEDED)}")), known)
    fields = ("op", *NEEDED[op], *_OPTIONAL.get(op, ()))
    errors = [FieldError(field, "is required") for field in NEEDED[op] if field not in known]
    for field, value in known.items():
        if field not in fields:
            errors.append(FieldError(field[:80], "is not a known field"))
        else:
            kinds, reason = _KINDS.get(field, _STRING)
            if type(value) not in kinds:
                errors.append(FieldError(field, reason))
    if errors:
        raise Bad(Invalid(*errors), known)
    return known
